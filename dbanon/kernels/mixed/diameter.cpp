#include "mixed/diameter.hpp"

#include <algorithm>

namespace dbanon {

void MixedDiameter::look_for_partner(Entry& entry) {
    square_.start(entry.tuple);
    const std::int32_t far = unassigned_.farthest(square_, entry.tuple, work_);
    entry.bound = square_.distance(far);
    entry.partner = unassigned_.record(far);
}

void MixedDiameter::push(const Entry& entry) {
    heap_.push_back(entry);
    std::push_heap(heap_.begin(), heap_.end());
}

Coroutine MixedDiameter::run() {
    for (std::int32_t t = 0; t < mixed_->tuples(); ++t) {
        Entry entry{0, unassigned_.record(t), t, -1};
        look_for_partner(entry);
        push(entry);
        if (work_.is_spent()) co_yield nullptr;
    }
    std::int32_t label = 0;
    while (unassigned_.count() >= 2 * std::int64_t{k_}) {
        unassigned_.rebuild_if_sparse(work_);
        Entry best{-1, WideTree::kNoRecord, -1, -1};
        examined_.clear();
        while (!heap_.empty() && best < heap_.front()) {
            if (work_.is_spent()) co_yield nullptr;
            --work_.left;
            Entry top = heap_.front();
            std::pop_heap(heap_.begin(), heap_.end());
            heap_.pop_back();
            const std::int32_t record = unassigned_.record(top.tuple);
            if (record == WideTree::kNoRecord) continue;
            if (record != top.record) {
                // A copy takes its place, after smaller records with the same distance.
                top.record = record;
                push(top);
                continue;
            }
            if (is_assigned(top.partner)) look_for_partner(top);
            examined_.push_back(top);
            if (best < top) best = top;
        }
        for (const Entry& entry : examined_) push(entry);
        take_class(best.tuple, label++);
        const std::int32_t partner = mixed_->tuple_of(best.partner);
        if (is_assigned(best.partner)) {
            take_around(partner, k_, label++);
        } else {
            take_class(partner, label++);
        }
        if (work_.is_spent()) co_yield nullptr;
    }
    if (unassigned_.count() >= k_) {
        assign_remaining(label);
        co_return;
    }
    Coroutine last = assign_leftovers(label);
    while (!last.resume()) co_yield nullptr;
}

}  // namespace dbanon
