#include "points/linkage.hpp"

#include <algorithm>

#include "points/distance.hpp"

namespace dbanon {

// Two points are requested first, then four times as many as long as the last one ties.
Coroutine Linkage::run() {
    for (std::int32_t id = 0; id < table_.n; ++id) {
        std::int64_t n_neighbours = std::min(2, points_.n);
        search_limit_ = limits_ ? limits_[id] * kTie : kInf;
        for (;;) {
            while (!records_->prepare(work_)) co_yield nullptr;
            near_.start(table_.row(id), static_cast<std::int32_t>(n_neighbours));
            near_.limit = search_limit_;
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
            near_.sort();
            work_.left -= near_.count + 1;
            const SearchOutcome outcome = judge_search();
            if (outcome == SearchOutcome::all_ties) break;
            if (outcome == SearchOutcome::beyond_limit) {
                search_limit_ = kInf;
                continue;
            }
            // Distances beyond the ties only matter if the second distance is requested.
            if (!finds_second_) search_limit_ = tie_limit_;
            n_neighbours = std::min<std::int64_t>(4 * n_neighbours, points_.n);
        }
        write_answer(id);
        if (work_.is_spent()) co_yield nullptr;
    }
}

// Whether the search was sufficient for the answer.
Linkage::SearchOutcome Linkage::judge_search() {
    if (near_.count == 0) return SearchOutcome::beyond_limit;
    tie_limit_ = near_.results[0].distance * kTie;
    if (near_.count == points_.n || near_.results[near_.count - 1].distance > tie_limit_) {
        return SearchOutcome::all_ties;
    }
    if (near_.count == near_.k) return SearchOutcome::more_ties_possible;
    // There is nothing else within the limit.
    return finds_second_ || tie_limit_ > search_limit_ ? SearchOutcome::beyond_limit : SearchOutcome::all_ties;
}

void Linkage::write_answer(std::int32_t id) {
    const std::size_t at = id;
    nearest_[at] = near_.results[0].distance;
    std::int32_t ties = 0;
    std::int64_t weight = 0;
    for (; ties < near_.count && near_.results[ties].distance <= tie_limit_; ++ties) {
        weight += weights_ ? weights_[near_.results[ties].id] : 1;
    }
    tied_weight_[at] = weight;
    if (finds_second_) second_[at] = near_.results[ties < near_.count ? ties : 0].distance;
    assign(id, near_.results[0].id);
}

}  // namespace dbanon
