#include "points/vmdav.hpp"

#include <cmath>
#include <limits>

namespace dbanon {

namespace {

constexpr RecordDistance kNobody{std::numeric_limits<double>::infinity(), -1};

}  // namespace

Coroutine Vmdav::run() {
    const std::size_t p = table_.p;
    middle_.assign(p, 0.0);
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (work_.is_spent()) co_yield nullptr;
        --work_.left;
        for (std::size_t j = 0; j < p; ++j) middle_[j] += table_.row(id)[j];
    }
    for (double& value : middle_) value /= table_.n;

    std::int32_t label = 0;
    for (; records_->size() >= k_; ++label) {
        while (!records_->prepare(work_)) co_yield nullptr;
        far_.start(middle_.data());
        records_->begin_moving(far_, 0);
        while (!records_->farthest_moving(far_, 0, work_)) co_yield nullptr;
        const std::int32_t r = far_.best.id;
        near_.start(table_.row(r), k_ - 1, r);
        records_->begin(near_);
        while (!records_->nearest(near_, work_)) co_yield nullptr;
        take(r, label);
        take(near_, label);
        members_.assign(1, {r, kNobody});
        for (std::int32_t i = 0; i < near_.count; ++i) members_.push_back({near_.results[i].id, kNobody});

        while (static_cast<std::int64_t>(members_.size()) < 2 * std::int64_t{k_} - 1 &&
               records_->size() > 0) {
            RecordDistance inside = kNobody;
            for (Member& member : members_) {
                if (member.next.id < 0 || is_assigned(member.next.id)) {
                    near_.start(table_.row(member.id), 1);
                    records_->begin(near_);
                    while (!records_->nearest(near_, work_)) co_yield nullptr;
                    member.next = near_.results[0];
                }
                if (inside.id < 0 || is_nearer(member.next, inside)) inside = member.next;
            }
            near_.start(table_.row(inside.id), 1, inside.id);
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
            const RecordDistance outside = near_.count > 0 ? near_.results[0] : kNobody;
            if (!(std::sqrt(inside.distance) < lambda_ * std::sqrt(outside.distance))) break;
            take(inside.id, label);
            members_.push_back({inside.id, outside});
        }
    }
    begin_leftovers();
    while (!assign_leftovers(work_)) co_yield nullptr;
}

}  // namespace dbanon
