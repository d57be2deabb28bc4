#include "linkage.hpp"

#include <algorithm>
#include <limits>

namespace dbanon {

// Two points are asked for, and four times as many while even the last of them ties.
Steps Linkage::run() {
    for (std::int32_t id = 0; id < table_.n; ++id) {
        std::int64_t wanted = std::min(2, points_.n);
        limit_ = own_ ? to_own(id) * kTie : std::numeric_limits<double>::infinity();
        for (bool first = true;; first = false) {
            while (!records_->prepare(work_)) co_yield nullptr;
            near_.start(table_.row(id), static_cast<std::int32_t>(wanted));
            // What lies beyond the ties matters only to those who ask for the second distance.
            if (!second_) near_.limit = limit_;
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
            near_.sort();
            work_.left -= near_.count;
            if (first) limit_ = near_.found[0].distance * kTie;
            if (complete()) break;
            wanted = std::min<std::int64_t>(4 * wanted, points_.n);
        }
        answer(id);
        if (work_.spent()) co_yield nullptr;
    }
}

// As the search computes it, to the last bit.
double Linkage::to_own(std::int32_t id) const {
    const std::size_t at = static_cast<std::size_t>(id);
    const double* from = table_.row(id);
    const double* to = points_.row(own_[at]);
    double squared = 0.0;
    for (int j = 0; j < table_.p; ++j) {
        const double gap = from[j] - to[j];
        squared += gap * gap;
    }
    return squared;
}

// Whether no point can tie that was not found.
bool Linkage::complete() const {
    return near_.count == points_.n || near_.count < near_.k ||
           near_.found[near_.count - 1].distance > limit_;
}

void Linkage::answer(std::int32_t id) {
    const std::size_t at = static_cast<std::size_t>(id);
    nearest_[at] = near_.found[0].distance;
    std::int32_t ties = 0;
    std::int64_t weight = 0;
    for (; ties < near_.count && near_.found[ties].distance <= limit_; ++ties) {
        weight += weights_ ? weights_[near_.found[ties].id] : 1;
    }
    weight_[at] = weight;
    if (own_) mine_[at] = to_own(id);
    if (second_) next_[at] = near_.found[ties < near_.count ? ties : 0].distance;
    assign(id, near_.found[0].id);
}

}  // namespace dbanon
