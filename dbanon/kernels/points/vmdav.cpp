#include "points/vmdav.hpp"

#include <cmath>
#include <limits>

namespace dbanon {

namespace {

constexpr RecordDistance kNoNeighbour{std::numeric_limits<double>::infinity(), -1};

}  // namespace

Coroutine Vmdav::run() {
    const std::size_t p = table_.p;
    centroid_.assign(p, 0.0);
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (work_.is_spent()) co_yield nullptr;
        --work_.left;
        for (std::size_t j = 0; j < p; ++j) centroid_[j] += table_.row(id)[j];
    }
    for (double& value : centroid_) value /= table_.n;

    std::int32_t label = 0;
    for (; records_->size() >= k_; ++label) {
        while (!records_->prepare(work_)) co_yield nullptr;
        far_.start(centroid_.data());
        records_->begin_moving(far_, 0);
        while (!records_->farthest_moving(far_, 0, work_)) co_yield nullptr;
        const std::int32_t r = far_.best.id;
        near_.start(table_.row(r), k_ - 1, r);
        records_->begin(near_);
        while (!records_->nearest(near_, work_)) co_yield nullptr;
        take(r, label);
        take(near_, label);
        members_.assign(1, {r, kNoNeighbour});
        for (std::int32_t i = 0; i < near_.count; ++i) members_.push_back({near_.results[i].id, kNoNeighbour});

        while (static_cast<std::int64_t>(members_.size()) < 2 * std::int64_t{k_} - 1 &&
               records_->size() > 0) {
            RecordDistance candidate = kNoNeighbour;
            for (Member& member : members_) {
                if (member.nearest_outside.id < 0 || is_assigned(member.nearest_outside.id)) {
                    near_.start(table_.row(member.id), 1);
                    records_->begin(near_);
                    while (!records_->nearest(near_, work_)) co_yield nullptr;
                    member.nearest_outside = near_.results[0];
                }
                if (candidate.id < 0 || is_nearer(member.nearest_outside, candidate)) candidate = member.nearest_outside;
            }
            near_.start(table_.row(candidate.id), 1, candidate.id);
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
            const RecordDistance next_nearest = near_.count > 0 ? near_.results[0] : kNoNeighbour;
            if (!(std::sqrt(candidate.distance) < lambda_ * std::sqrt(next_nearest.distance))) break;
            take(candidate.id, label);
            members_.push_back({candidate.id, next_nearest});
        }
    }
    begin_leftovers();
    while (!assign_leftovers(work_)) co_yield nullptr;
}

}  // namespace dbanon
