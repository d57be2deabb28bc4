// The choice between a tree and scans, by the visits of the tree. Visits are counted, not timed, so
// the same table is always searched in the same way; results are equal anyway.
#pragma once

#include <cstdint>

namespace dbanon {

// For tests and benchmarks: how kernels search that start from now on. Labels do not depend on it.
enum class SearchMode { kMeasured, kTree, kScan };
void set_search_mode(SearchMode mode);

// Begins with the tree, and turns to scans for good once these would be faster.
class SearchChoice {
   public:
    SearchChoice();

    bool is_scan() const { return is_scan_; }
    // Counts a query of the tree, or a part of it. scanned: what scans would read for a query.
    void add(std::int64_t visits, std::int64_t scanned, bool is_new_query);

   private:
    const SearchMode mode_;
    bool is_scan_;
    std::int64_t visits_ = 0;  // of the recent queries
    std::int32_t queries_ = 0;
};

}  // namespace dbanon
