#include "mixed/density.hpp"

#include <algorithm>

namespace dbanon {

MixedDensity::MixedDensity(Mixed mixed, std::span<const Cost> squared_step_costs, std::int32_t k, bool lowest_first)
    : MixedSequentialKernel(std::move(mixed), squared_step_costs, k),
      lowest_first_(lowest_first),
      max_neighbours_(k - 1 + std::clamp(k - 1, 4, 16)),
      neighbour_lists_(mixed_->tuples(), max_neighbours_),
      list_length_(mixed_->tuples(), 0),
      version_(mixed_->tuples(), 0),
      holders_(mixed_->records()),
      is_marked_(mixed_->tuples(), false) {}

bool MixedDensity::comes_after(const Entry& a, const Entry& b) const {
    if (a.sum_of_pair_distances != b.sum_of_pair_distances) return lowest_first_ ? a.sum_of_pair_distances < b.sum_of_pair_distances : a.sum_of_pair_distances > b.sum_of_pair_distances;
    return a.record > b.record;
}

// The nearest neighbours of a tuple's smallest record.
void MixedDensity::store_neighbours(std::int32_t tuple) {
    square_.start(tuple);
    unassigned_.around(square_, tuple, max_neighbours_ + 1, neighbours_, work_);
    const std::int32_t record_of_tuple = unassigned_.record(tuple);
    std::int32_t length = 0;
    for (const std::int32_t record : neighbours_) {
        if (record != record_of_tuple && length < max_neighbours_) neighbours(tuple)[length++] = record;
    }
    list_length_[tuple] = length;
}

// Drops removed neighbours, and the record that has become the smallest of the tuple; returns how
// many records of the candidate remain.
std::int32_t MixedDensity::drop_assigned(std::int32_t tuple) {
    std::int32_t* from = neighbours(tuple);
    const std::int32_t record_of_tuple = unassigned_.record(tuple), length = list_length_[tuple];
    std::int32_t left = 0, n_remaining = 0;
    for (std::int32_t i = 0; i < length; ++i) {
        if (is_assigned(from[i]) || from[i] == record_of_tuple) continue;
        n_remaining += i < k_ - 1;
        from[left++] = from[i];
    }
    list_length_[tuple] = left;
    return n_remaining;
}

// The first `n_remaining` neighbours belonged to the candidate before; removals keep their order.
void MixedDensity::rate_candidate(std::int32_t tuple, std::int32_t n_remaining) {
    members_.assign(1, tuple);
    for (std::int32_t i = 0; i + 1 < k_; ++i) {
        const std::int32_t record = neighbours(tuple)[i];
        members_.push_back(mixed_->tuple_of(record));
        if (i >= n_remaining) holders_[record].push_back(tuple);
    }
    heap_.push_back({centroid_.sum_of_pair_distances(members_), unassigned_.record(tuple), tuple, ++version_[tuple]});
    std::push_heap(heap_.begin(), heap_.end(),
                   [&](const Entry& a, const Entry& b) { return comes_after(a, b); });
    work_.left -= k_;
}

MixedDensity::Entry MixedDensity::pop_next() {
    const auto order = [&](const Entry& a, const Entry& b) { return comes_after(a, b); };
    for (;;) {
        const Entry top = heap_.front();
        std::pop_heap(heap_.begin(), heap_.end(), order);
        heap_.pop_back();
        if (!is_assigned(top.record) && top.version == version_[top.tuple]) return top;
    }
}

// Collects tuples whose candidates change when a record is removed: those that hold it, and its own
// tuple, of which it was the smallest record.
void MixedDensity::mark_affected_candidates(std::int32_t removed) {
    const auto hit = [&](std::int32_t tuple) {
        if (unassigned_.record(tuple) == WideTree::kNoRecord || is_marked_[tuple]) return;
        is_marked_[tuple] = true;
        candidates_to_rate_.push_back(tuple);
    };
    hit(mixed_->tuple_of(removed));
    for (const std::int32_t tuple : holders_[removed]) hit(tuple);
    holders_[removed] = {};
}

Coroutine MixedDensity::run() {
    for (std::int32_t t = 0; t < mixed_->tuples(); ++t) {
        store_neighbours(t);
        rate_candidate(t, 0);
        if (work_.is_spent()) co_yield nullptr;
    }
    std::int32_t label = 0;
    std::vector<std::int32_t> members;
    for (; unassigned_.count() >= k_; ++label) {
        unassigned_.rebuild_if_sparse(work_);
        const Entry top = pop_next();
        members.assign(neighbours(top.tuple), neighbours(top.tuple) + k_ - 1);
        members.push_back(top.record);
        for (const std::int32_t record : members) take(mixed_->tuple_of(record), label);
        if (unassigned_.count() < k_) continue;
        candidates_to_rate_.clear();
        for (const std::int32_t record : members) mark_affected_candidates(record);
        for (const std::int32_t tuple : candidates_to_rate_) {
            is_marked_[tuple] = false;
            const std::int32_t n_remaining = drop_assigned(tuple);
            if (list_length_[tuple] < k_ - 1) store_neighbours(tuple);
            rate_candidate(tuple, n_remaining);
            if (work_.is_spent()) co_yield nullptr;
        }
    }
    Coroutine last = assign_leftovers(label);
    while (!last.resume()) co_yield nullptr;
}

}  // namespace dbanon
