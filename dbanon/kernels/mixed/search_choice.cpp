#include "mixed/search_choice.hpp"

#include <atomic>

namespace dbanon {

namespace {

// A visit of a tree takes as long as a scan of at least this many tuples: 6 with few columns, up to 38
// with uneven trees.
constexpr std::int64_t kScannedPerVisit = 6;
// Visits are compared with scans over this many queries, since a few queries of a tree that is fast
// otherwise may visit most of it.
constexpr std::int32_t kQueriesPerChoice = 512;

std::atomic<SearchMode>& search_mode() {
    static std::atomic<SearchMode> mode{SearchMode::kMeasured};
    return mode;
}

}  // namespace

void set_search_mode(SearchMode mode) { search_mode() = mode; }

SearchChoice::SearchChoice() : mode_(search_mode()), is_scan_(mode_ == SearchMode::kScan) {}

void SearchChoice::add(std::int64_t visits, std::int64_t scanned, bool is_new_query) {
    if (mode_ != SearchMode::kMeasured) return;
    if (is_new_query && queries_++ == kQueriesPerChoice) {
        queries_ = 1;
        visits_ = 0;
    }
    visits_ += visits;
    is_scan_ = is_scan_ || visits_ > kQueriesPerChoice * scanned / kScannedPerVisit;
}

}  // namespace dbanon
