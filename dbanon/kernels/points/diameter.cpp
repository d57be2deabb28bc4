#include "points/diameter.hpp"

#include <algorithm>
#include <cmath>

namespace dbanon {

// The distance from a central point, rounded up.
double Diameter::distance_to_middle(std::int32_t id) const {
    double squared = 0.0;
    for (int j = 0; j < table_.p; ++j) {
        const double gap = table_.row(id)[j] - centroid_[j];
        squared += gap * gap;
    }
    return std::sqrt(squared) * (1.0 + (table_.p + 8) * 2.3e-16) + 1e-150;
}

Coroutine Diameter::run() {
    while (!records_->prepare(work_)) co_yield nullptr;
    centroid_.assign(table_.p, 0.0);
    double widest = 0.0;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (work_.is_spent()) co_yield nullptr;
        work_.left -= 2;
        for (int j = 0; j < table_.p; ++j) {
            centroid_[j] += table_.row(id)[j] / table_.n;
        }
    }
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (work_.is_spent()) co_yield nullptr;
        work_.left -= 2;
        widest = std::max(widest, distance_to_middle(id));
    }
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (work_.is_spent()) co_yield nullptr;
        work_.left -= 8;
        const double length = distance_to_middle(id) + widest;
        heap_.push_back({length * length * (1.0 + (table_.p + 8) * 2.3e-16), id, -1});
        std::push_heap(heap_.begin(), heap_.end());
    }

    std::int32_t label = 0;
    while (records_->size() >= 2 * std::int64_t{k_}) {
        while (!records_->prepare(work_)) co_yield nullptr;
        Entry best{-1.0, table_.n, -1};
        examined_.clear();
        while (!heap_.empty() && best < heap_.front()) {
            if (work_.is_spent()) co_yield nullptr;
            work_.left -= 8;
            Entry top = heap_.front();
            std::pop_heap(heap_.begin(), heap_.end());
            heap_.pop_back();
            if (is_assigned(top.id)) continue;
            if (top.partner < 0 || is_assigned(top.partner)) {
                far_.start(table_.row(top.id));
                records_->begin(far_);
                while (!records_->farthest(far_, work_)) co_yield nullptr;
                top.bound = far_.best.distance;
                top.partner = far_.best.id;
            }
            examined_.push_back(top);
            if (best < top) best = top;
        }
        for (const Entry& entry : examined_) {
            heap_.push_back(entry);
            std::push_heap(heap_.begin(), heap_.end());
        }
        for (const std::int32_t seed : {best.id, best.partner}) {
            const bool was_assigned = is_assigned(seed);
            near_.start(table_.row(seed), was_assigned ? k_ : k_ - 1, was_assigned ? -1 : seed);
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
            if (!was_assigned) take(seed, label);
            take(near_, label++);
        }
    }
    if (records_->size() >= k_) {
        assign_remaining(label);
    } else {
        begin_leftovers();
        while (!assign_leftovers(work_)) co_yield nullptr;
    }
}

}  // namespace dbanon
