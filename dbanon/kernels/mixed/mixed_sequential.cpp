#include "mixed/mixed_sequential.hpp"

#include <cmath>
#include <limits>

namespace dbanon {

namespace {

// Limit of path lengths, so that counts of all prefixes fit.
constexpr int kCountedBits = 22;

}  // namespace

MixedSequentialKernel::MixedSequentialKernel(Mixed mixed, std::span<const Cost> squared_step_costs, std::int32_t k)
    : Kernel({nullptr, mixed->records(), mixed->n_attributes()}, k),
      mixed_(std::move(mixed)),
      unassigned_(*mixed_, NumberPenalty::kSquaredWidth, kCountedBits),
      square_(*mixed_, squared_step_costs),
      centroid_(*mixed_, unassigned_.columns(), square_) {}

void MixedSequentialKernel::take_class(std::int32_t tuple, std::int32_t label) {
    take(tuple, label);
    take_around(tuple, k_ - 1, label);
}

void MixedSequentialKernel::take_around(std::int32_t tuple, std::int32_t count, std::int32_t label) {
    square_.start(tuple);
    unassigned_.around(square_, tuple, count, neighbours_, work_);
    for (const std::int32_t record : neighbours_) take(mixed_->tuple_of(record), label);
}

CentroidKernel::CentroidKernel(Mixed mixed, std::span<const Cost> squared_step_costs, std::int32_t k)
    : MixedSequentialKernel(std::move(mixed), squared_step_costs, k), far_(unassigned_.farthest_tree(), centroid_) {
    far_.reset();
}

Coroutine MixedMdav::run() {
    std::int32_t label = 0;
    while (unassigned_.count() >= 2 * std::int64_t{k_}) {
        rebuild_if_sparse();
        const bool last = unassigned_.count() < 3 * std::int64_t{k_};
        const std::int32_t r = far_.find_farthest(work_);
        if (last) {
            take_class(r, label++);
            break;
        }
        square_.start(r);
        const std::int32_t s = unassigned_.farthest(square_, r, work_), record = unassigned_.record(s);
        take_class(r, label++);
        if (work_.is_spent()) co_yield nullptr;
        if (!is_assigned(record)) {
            take_class(s, label++);
        } else {
            // The record is in the first class, so the second class consists of others.
            take_around(s, k_, label++);
        }
        move_centroid();
        if (work_.is_spent()) co_yield nullptr;
    }
    if (unassigned_.count() > 0) assign_remaining(label);
}

Coroutine MixedSequentialKernel::assign_leftovers(std::int32_t classes) {
    std::vector<std::vector<std::int32_t>> members(classes);
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (is_assigned(id)) members[labels_[id]].push_back(mixed_->tuple_of(id));
    }
    std::vector<Sum> sum_of_pair_distances(unassigned_.count() > 0 ? classes : 0, 0);
    for (std::size_t c = 0; c < sum_of_pair_distances.size(); ++c) {
        sum_of_pair_distances[c] = centroid_.sum_of_pair_distances(members[c]);
        work_.left -= static_cast<std::int64_t>(members[c].size());
        if (work_.is_spent()) co_yield nullptr;
    }
    for (std::int32_t id = 0; unassigned_.count() > 0; ++id) {
        if (is_assigned(id)) continue;
        const std::int32_t tuple = mixed_->tuple_of(id);
        square_.start(tuple);
        std::int32_t best = 0;
        DistanceFromMean least{};
        for (std::int32_t c = 0; c < classes; ++c) {
            Sum sum = 0;
            for (const std::int32_t t : members[c]) sum += square_.distance(t);
            const DistanceFromMean distance = DistanceFromMean::of(sum, sum_of_pair_distances[c], members[c].size());
            if (c == 0 || distance < least) best = c, least = distance;
            work_.left -= static_cast<std::int64_t>(members[c].size());
            if (work_.is_spent()) co_yield nullptr;
        }
        take(tuple, best);
    }
}

Coroutine MixedCbfs::run() {
    std::int32_t label = 0;
    for (; unassigned_.count() >= k_; ++label) {
        rebuild_if_sparse();
        take_class(far_.find_farthest(work_), label);
        move_centroid();
        if (work_.is_spent()) co_yield nullptr;
    }
    Coroutine last = assign_leftovers(label);
    while (!last.resume()) co_yield nullptr;
}

MixedVmdav::OutsideRecord MixedVmdav::nearest_outside() {
    OutsideRecord best;
    for (Member& member : members_) {
        if (member.outside.record < 0 || is_assigned(member.outside.record)) {
            square_.start(member.tuple);
            unassigned_.around(square_, member.tuple, 1, neighbours_, work_);
            member.outside = outside_record(mixed_->tuple_of(neighbours_[0]));
        }
        const OutsideRecord& candidate = member.outside;
        if (best.record < 0 || candidate.distance < best.distance ||
            (candidate.distance == best.distance && candidate.record < best.record)) {
            best = candidate;
        }
    }
    return best;
}

std::int32_t MixedVmdav::nearest_remaining(std::int32_t tuple) {
    square_.start(tuple);
    unassigned_.around(square_, tuple, 2, neighbours_, work_);
    for (const std::int32_t record : neighbours_) {
        if (record != unassigned_.record(tuple)) return mixed_->tuple_of(record);
    }
    return -1;
}

Coroutine MixedVmdav::run() {
    constexpr double none = std::numeric_limits<double>::infinity();
    std::int32_t label = 0;
    for (; unassigned_.count() >= k_; ++label) {
        rebuild_if_sparse();
        take_class(far_.find_farthest(work_), label);
        members_.clear();
        for (const std::int32_t t : taken_tuples_) members_.push_back({t, {}});
        while (static_cast<std::int64_t>(members_.size()) < 2 * std::int64_t{k_} - 1 &&
               unassigned_.count() > 0) {
            const OutsideRecord candidate = nearest_outside();
            const std::int32_t other = nearest_remaining(candidate.tuple);
            const double next_squared =
                other < 0 ? none : static_cast<double>(square_.distance(other));
            if (!(std::sqrt(static_cast<double>(candidate.distance)) < lambda_ * std::sqrt(next_squared))) break;
            take(candidate.tuple, label);
            members_.push_back({candidate.tuple, other < 0 ? OutsideRecord{} : outside_record(other)});
            if (work_.is_spent()) co_yield nullptr;
        }
        taken_tuples_.clear();
        if (work_.is_spent()) co_yield nullptr;
    }
    Coroutine last = assign_leftovers(label);
    while (!last.resume()) co_yield nullptr;
}

}  // namespace dbanon
