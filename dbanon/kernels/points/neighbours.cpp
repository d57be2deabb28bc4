#include "points/neighbours.hpp"

namespace dbanon {

Coroutine Neighbours::run() {
    for (std::int32_t id = 0; id < table_.n; ++id) {
        while (!records_->prepare(work_)) co_yield nullptr;
        near_.start(table_.row(id), count_, id);
        records_->begin(near_);
        while (count_ > 0 && !records_->nearest(near_, work_)) co_yield nullptr;
        near_.sort();
        double sum = 0.0;
        for (std::int32_t i = 0; i < near_.count; ++i) {
            sum += near_.results[i].distance;
            if (keep_) ids_.row(id)[i] = near_.results[i].id;
        }
        sums_[id] = sum;
        assign(id, 0);
        work_.left -= count_ + 1;
        if (work_.is_spent()) co_yield nullptr;
    }
}

}  // namespace dbanon
