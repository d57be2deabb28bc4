#include "mixed/tfrp.hpp"

#include <algorithm>

namespace dbanon {

void MixedTfrp::order_records() {
    const auto d = static_cast<std::size_t>(mixed_->n_attributes());
    std::vector<std::array<Code, 2>> corners(d);
    for (std::size_t a = 0; a < d; ++a) {
        corners[a].fill(mixed_->row(0)[a]);
        for (std::int32_t t = 0; t < mixed_->tuples(); ++t) {
            corners[a][0] = std::min(corners[a][0], mixed_->row(t)[a]);
            corners[a][1] = std::max(corners[a][1], mixed_->row(t)[a]);
        }
    }
    std::vector<std::pair<Cost, std::int32_t>> keys(table_.n);
    for (std::size_t corner = 0; corner < 2; ++corner) {
        for (std::int32_t id = 0; id < table_.n; ++id) {
            const Code* row = mixed_->row(mixed_->tuple_of(id));
            Cost squared = 0;
            for (std::size_t a = 0; a < d; ++a) {
                if (mixed_->tree(a)) continue;
                const Cost gap = Cost{row[a]} - corners[a][corner];
                squared += gap * gap;
            }
            keys[id] = {-squared, id};
        }
        std::sort(keys.begin(), keys.end());
        for (const auto& key : keys) order_[corner].push_back(key.second);
    }
}

std::int32_t MixedTfrp::farthest(std::int32_t label) {
    const std::vector<std::int32_t>& order = order_[label % 2];
    std::size_t& next = next_in_order_[label % 2];
    while (is_assigned(order[next])) ++next;
    return order[next];
}

Coroutine MixedTfrp::run() {
    order_records();
    std::int32_t label = 0;
    for (; unassigned_.count() >= k_; ++label) {
        unassigned_.rebuild_if_sparse(work_);
        const std::int32_t record = farthest(label);
        take_class(mixed_->tuple_of(record), label);
        if (second_stage_) {
            classes_.push_back({{record}, {}, 0});
            std::vector<std::int32_t>& records = classes_.back().records;
            records.insert(records.end(), neighbours_.begin(), neighbours_.end());
        }
        if (work_.is_spent()) co_yield nullptr;
    }
    std::vector<std::int32_t> leftover;
    for (std::int32_t id = 0; second_stage_ && unassigned_.count() > 0 && id < table_.n; ++id) {
        if (!is_assigned(id)) leftover.push_back(id);
    }
    Coroutine last = assign_leftovers(label);
    while (!last.resume()) co_yield nullptr;
    if (!second_stage_ || label < 2) co_return;
    for (const std::int32_t id : leftover) classes_[labels_[id]].records.push_back(id);
    Coroutine stage = dissolve_classes();
    while (!stage.resume()) co_yield nullptr;
    renumber();
}

Coroutine MixedTfrp::dissolve_classes() {
    std::vector<std::pair<Sum, std::int32_t>> order;
    for (Class& entry : classes_) {
        for (const std::int32_t id : entry.records) entry.tuples.push_back(mixed_->tuple_of(id));
        entry.pairs = centroid_.sum_of_pair_distances(entry.tuples);
        order.emplace_back(-entry.squares(), static_cast<std::int32_t>(order.size()));
        work_.left -= k_;
        if (work_.is_spent()) co_yield nullptr;
    }
    std::sort(order.begin(), order.end());
    std::size_t left = classes_.size();
    for (const auto& [negated, label] : order) {
        if (left < 2) break;
        Class& dissolved = classes_[label];
        const Sum present = dissolved.squares();
        Sum cost = 0;
        joined_classes_.clear();
        for (const std::int32_t record : dissolved.records) {
            Coroutine search = find_class(mixed_->tuple_of(record), label);
            while (!search.resume()) co_yield nullptr;
            cost += join_class(record, nearest_);
            if (cost >= present) break;
        }
        if (cost < present) {
            dissolved.records.clear();
            dissolved.tuples.clear();
            --left;
        } else {
            undo_joins();
        }
    }
}

// The class whose mean is nearest, but its own; of equal ones the first.
Coroutine MixedTfrp::find_class(std::int32_t tuple, std::int32_t own_label) {
    square_.start(tuple);
    nearest_ = -1;
    DistanceFromMean least{};
    for (std::size_t c = 0; c < classes_.size(); ++c) {
        const Class& entry = classes_[c];
        if (entry.records.empty() || static_cast<std::int32_t>(c) == own_label) continue;
        Sum sum = 0;
        for (const std::int32_t t : entry.tuples) sum += square_.distance(t);
        const DistanceFromMean distance = DistanceFromMean::of(sum, entry.pairs, entry.tuples.size());
        if (nearest_ < 0 || distance < least) {
            nearest_ = static_cast<std::int32_t>(c);
            distance_sum_to_nearest_ = sum;
            least = distance;
        }
        work_.left -= static_cast<std::int64_t>(entry.tuples.size());
        if (work_.is_spent()) co_yield nullptr;
    }
}

// Returns by how much the sum of squares of the class grows.
MixedTfrp::Sum MixedTfrp::join_class(std::int32_t record, std::int32_t label) {
    Class& entry = classes_[label];
    const Sum previous_pairs = entry.squares();
    joined_classes_.push_back({label, entry.pairs});
    entry.records.push_back(record);
    entry.tuples.push_back(mixed_->tuple_of(record));
    entry.pairs += distance_sum_to_nearest_;
    return entry.squares() - previous_pairs;
}

void MixedTfrp::undo_joins() {
    for (; !joined_classes_.empty(); joined_classes_.pop_back()) {
        Class& joined = classes_[joined_classes_.back().label];
        joined.records.pop_back();
        joined.tuples.pop_back();
        joined.pairs = joined_classes_.back().previous_pairs;
    }
}

// The classes left keep their order.
void MixedTfrp::renumber() {
    std::int32_t next = 0;
    for (const Class& entry : classes_) {
        for (const std::int32_t id : entry.records) labels_[id] = next;
        next += !entry.records.empty();
    }
}

}  // namespace dbanon
