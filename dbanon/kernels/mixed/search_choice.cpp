#include "mixed/search_choice.hpp"

#include <atomic>

namespace dbanon {

namespace {

// A visit of a tree takes as long as a scan of about this many tuples.
constexpr std::int64_t kScannedPerVisit = 16;
// Visits are compared with scans over this many queries.
constexpr std::int32_t kQueriesPerChoice = 64;

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
