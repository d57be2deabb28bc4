#include "points/cbfs.hpp"

namespace dbanon {

Coroutine Cbfs::run() {
    std::int32_t label = 0;
    for (; records_->size() >= k_; ++label) {
        while (!records_->prepare(work_)) co_yield nullptr;
        centroid_.begin_round(label, records_->size());
        while (!centroid_.update(labels_, work_)) co_yield nullptr;
        far_.start(centroid_.mean());
        records_->begin_moving(far_, 0);
        while (!records_->farthest_moving(far_, 0, work_)) co_yield nullptr;

        const std::int32_t r = far_.best.id;
        near_.start(table_.row(r), k_ - 1, r);
        records_->begin(near_);
        while (!records_->nearest(near_, work_)) co_yield nullptr;
        take(r, label);
        take(near_, label);
        centroid_.subtract(r);
        for (std::int32_t i = 0; i < near_.count; ++i) centroid_.subtract(near_.results[i].id);
    }
    begin_leftovers();
    while (!assign_leftovers(work_)) co_yield nullptr;
}

}  // namespace dbanon
