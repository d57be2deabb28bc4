#include "mixed/mixed_linkage.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dbanon {

Coroutine MixedLinkage::run() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    while (!tree_.build(work_)) co_yield nullptr;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (id > 0 && repeats_previous_query(id)) {
            nearest_[id] = nearest_[id - 1];
            tied_weight_[id] = tied_weight_[id - 1];
            if (finds_second_) second_nearest_[id] = second_nearest_[id - 1];
            assign(id, 0);
            continue;
        }
        const double limit = limits_ ? limits_[id] : kInf;
        search(id, finds_second_ ? limit : limit * kTie);
        if (!is_complete(limit)) search(id, kInf);
        write_answer(id);
        if (work_.is_spent()) co_yield nullptr;
    }
}

// Whether the previous query is the same.
bool MixedLinkage::repeats_previous_query(std::int32_t id) const {
    const double *ends = queries_.bounds_of(id), *before = queries_.bounds_of(id - 1);
    const std::int32_t *nodes = queries_.nodes_of(id), *others = queries_.nodes_of(id - 1);
    return std::equal(ends, ends + 2 * queries_.numbers, before) &&
           std::equal(nodes, nodes + queries_.trees, others);
}

void MixedLinkage::search(std::int32_t id, double limit) {
    smallest_.clear();
    search_limit_ = limit;
    tree_.set_query(queries_.bounds_of(id), queries_.nodes_of(id));
    tree_.visit_within(limit, [this](double d, std::int64_t weight) { return add(d, weight); }, work_);
}

std::size_t MixedLinkage::first_beyond_ties() const {
    const double tie = smallest_.front().first * kTie;
    std::size_t at = 0;
    while (at < smallest_.size() && smallest_[at].first <= tie) ++at;
    return at;
}

// Boxes farther away can be skipped.
double MixedLinkage::add(double distance, std::int64_t weight) {
    auto at = smallest_.begin();
    while (at != smallest_.end() && at->first < distance) ++at;
    if (at != smallest_.end() && at->first == distance) {
        at->second += weight;
        return search_limit_;
    }
    smallest_.insert(at, {distance, weight});
    const std::size_t ties = first_beyond_ties();
    if (!finds_second_) {
        search_limit_ = std::min(search_limit_, smallest_.front().first * kTie);
        smallest_.resize(ties);
    } else if (ties < smallest_.size()) {
        search_limit_ = smallest_[ties].first;
        smallest_.resize(ties + 1);
    }
    return search_limit_;
}

// Whether a search with this limit was sufficient for the answer.
bool MixedLinkage::is_complete(double limit) const {
    if (std::isinf(limit)) return true;
    if (smallest_.empty()) return false;
    return finds_second_ ? first_beyond_ties() < smallest_.size() : smallest_.front().first <= limit;
}

void MixedLinkage::write_answer(std::int32_t id) {
    const std::size_t ties = first_beyond_ties();
    nearest_[id] = smallest_.front().first;
    for (std::size_t i = 0; i < ties; ++i) tied_weight_[id] += smallest_[i].second;
    if (finds_second_) {
        const bool more = ties < smallest_.size() && std::isfinite(smallest_[ties].first);
        second_nearest_[id] = smallest_[more ? ties : 0].first;
    }
    assign(id, 0);
}

}  // namespace dbanon
