#include "points/mdav.hpp"

namespace dbanon {

namespace {

// For larger classes, searches for likely records do not pay: each class has records of more of their results,
// which are then useless (measured with a million records of ten attributes).
constexpr std::int32_t kMaxSizeForBatches = 30;

}  // namespace

void Mdav::take(std::int32_t id, std::int32_t label) {
    assign(id, label);
    centroid_.subtract(id);
    records_->erase(id);
}

void Mdav::take(NearQuery& q, std::int32_t label) {
    q.sort();
    // Neighbours are scattered in memory: prefetch all before taking the first.
    for (std::int32_t i = 0; i < q.count; ++i) {
        const std::int32_t id = q.results[i].id;
        __builtin_prefetch(table_.row(id));
        __builtin_prefetch(table_.row(id) + table_.p - 1);
        __builtin_prefetch(&labels_[static_cast<std::size_t>(id)], 1);
        records_->prefetch(id);
    }
    for (std::int32_t i = 0; i < q.count; ++i) take(q.results[i].id, label);
}

Coroutine Mdav::run() {
    const std::int64_t k = k_;
    std::int32_t label = 0;
    for (std::int64_t round = 0; records_->size() >= 2 * k; ++round) {
        while (!records_->prepare(work_)) co_yield nullptr;
        const bool last = records_->size() < 3 * k;
        centroid_.begin_round(round, records_->size());
        while (!centroid_.update(labels_, work_)) co_yield nullptr;
        far_.start(centroid_.mean());
        records_->begin_moving(far_, 0);
        while (!records_->farthest_moving(far_, 0, work_)) co_yield nullptr;

        const std::int32_t r = far_.best.id;
        const std::int32_t batch_size = last || k_ > kMaxSizeForBatches ? 0 : records_->batch_size();
        if (batch_size > 0 && ahead_.farthest_of(r) < 0) {
            if (!ahead_.is_candidate(r)) {
                records_->begin_moving(far_, 0, batch_size);
                while (!records_->farthest_moving(far_, 0, work_)) co_yield nullptr;
                ahead_.set_candidates(records_->candidates(0));
            }
            Coroutine searches = ahead_.run(*records_, work_);
            while (!searches.resume()) co_yield nullptr;
        }
        near_.start(table_.row(r), k_ - 1, r);
        far_.start(table_.row(r));
        const bool is_near_known = ahead_.recall(near_);
        const bool is_far_known = last || ahead_.recall(far_, r);
        if (!is_near_known) records_->begin(near_);
        if (!is_far_known) records_->begin(far_);
        if (!is_near_known && !is_far_known) {
            while (!records_->nearest_and_farthest(near_, far_, work_)) co_yield nullptr;
        } else if (!is_near_known) {
            while (!records_->nearest(near_, work_)) co_yield nullptr;
        } else if (!is_far_known) {
            while (!records_->farthest(far_, work_)) co_yield nullptr;
        }
        take(r, label);
        take(near_, label++);
        if (last) break;

        const std::int32_t s = far_.best.id;
        const bool was_assigned = is_assigned(s);
        near_.start(table_.row(s), was_assigned ? k_ : k_ - 1, was_assigned ? -1 : s);
        if (!ahead_.recall(near_)) {
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
        }
        if (!was_assigned) take(s, label);
        take(near_, label++);
    }
    if (records_->size() > 0) assign_remaining(label);
}

}  // namespace dbanon
