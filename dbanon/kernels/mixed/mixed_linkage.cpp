#include "mixed/mixed_linkage.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dbanon {

Coroutine MixedLinkage::run() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    while (!tree_.build(work_)) co_yield nullptr;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (id > 0 && repeats(id)) {
            nearest_[id] = nearest_[id - 1];
            weight_[id] = weight_[id - 1];
            if (second_) next_[id] = next_[id - 1];
            assign(id, 0);
            continue;
        }
        const double limit = limits_ ? limits_[id] : kInf;
        search(id, second_ ? limit : limit * kTie);
        if (!complete(limit)) search(id, kInf);
        answer(id);
        if (work_.is_spent()) co_yield nullptr;
    }
}

// Whether the previous query is the same.
bool MixedLinkage::repeats(std::int32_t id) const {
    const double *ends = questions_.ends_of(id), *before = questions_.ends_of(id - 1);
    const std::int32_t *nodes = questions_.nodes_of(id), *others = questions_.nodes_of(id - 1);
    return std::equal(ends, ends + 2 * questions_.numbers, before) &&
           std::equal(nodes, nodes + questions_.trees, others);
}

void MixedLinkage::search(std::int32_t id, double limit) {
    smallest_.clear();
    limit_ = limit;
    tree_.ask(questions_.ends_of(id), questions_.nodes_of(id));
    tree_.within(limit, [this](double d, std::int64_t weight) { return add(d, weight); }, work_);
}

std::size_t MixedLinkage::beyond() const {
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
        return limit_;
    }
    smallest_.insert(at, {distance, weight});
    const std::size_t ties = beyond();
    if (!second_) {
        limit_ = std::min(limit_, smallest_.front().first * kTie);
        smallest_.resize(ties);
    } else if (ties < smallest_.size()) {
        limit_ = smallest_[ties].first;
        smallest_.resize(ties + 1);
    }
    return limit_;
}

// Whether a search with this limit was sufficient for the answer.
bool MixedLinkage::complete(double limit) const {
    if (std::isinf(limit)) return true;
    if (smallest_.empty()) return false;
    return second_ ? beyond() < smallest_.size() : smallest_.front().first <= limit;
}

void MixedLinkage::answer(std::int32_t id) {
    const std::size_t ties = beyond();
    nearest_[id] = smallest_.front().first;
    for (std::size_t i = 0; i < ties; ++i) weight_[id] += smallest_[i].second;
    if (second_) {
        const bool more = ties < smallest_.size() && std::isfinite(smallest_[ties].first);
        next_[id] = smallest_[more ? ties : 0].first;
    }
    assign(id, 0);
}

}  // namespace dbanon
