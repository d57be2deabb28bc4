#include "mixed/unassigned.hpp"

namespace dbanon {

namespace {

// Smaller trees are not rebuilt.
constexpr std::int32_t kSmall = 1000;

}  // namespace

Unassigned::Unassigned(const MixedTable& table, NumberPenalty number_penalty, int bits)
    : table_(table),
      columns_(table, bits),
      count_(table.records()),
      tuples_(table.tuples()),
      next_(tuples_),
      record_(tuples_),
      near_(table, columns_, SplitCriterion::kGain, number_penalty),
      far_(table, columns_, SplitCriterion::kRange, number_penalty),
      number_penalty_(number_penalty) {
    for (std::int32_t t = 0; t < tuples_; ++t) {
        next_[t] = table.begin(t);
        record_[t] = table.copy(next_[t]);
    }
    build();
}

std::vector<std::int32_t> Unassigned::remaining_tuples() const {
    std::vector<std::int32_t> remaining;
    remaining.reserve(tuples_);
    for (std::int32_t t = 0; t < table_.tuples(); ++t) {
        if (record_[t] != WideTree::kNoRecord) remaining.push_back(t);
    }
    return remaining;
}

void Unassigned::build() {
    std::vector<std::int32_t> remaining = remaining_tuples();
    if (uses_near_tree()) near_.build(remaining, record_);
    if (uses_far_tree()) far_.build(remaining, record_);
    n_built_ = tuples_;
}

TupleScan& Unassigned::scan() {
    if (!uses_near_tree()) near_.clear();
    if (!uses_far_tree()) far_.clear();
    if (!scan_) {
        scan_.emplace(table_, columns_, number_penalty_, record_);
        scan_->build(remaining_tuples());
    }
    return *scan_;
}

const WideTree& Unassigned::farthest_tree() {
    if (!uses_far_tree()) {
        std::vector<std::int32_t> remaining = remaining_tuples();
        far_.build(remaining, record_);
    }
    keeps_far_tree_ = true;
    return far_;
}

bool Unassigned::rebuild_if_sparse(Work& work) {
    if (tuples_ < kSmall || tuples_ > n_built_ / 2) return false;
    if (!uses_near_tree() && !uses_far_tree()) return false;
    build();
    work.left -= std::int64_t{tuples_} * table_.n_attributes();
    return true;
}

std::int32_t Unassigned::take(std::int32_t tuple) {
    const std::int32_t record = record_[tuple];
    --count_;
    const bool last = ++next_[tuple] == table_.end(tuple);
    tuples_ -= last;
    record_[tuple] = last ? WideTree::kNoRecord : table_.copy(next_[tuple]);
    if (uses_near_tree()) near_.update(tuple, record_[tuple]);
    if (uses_far_tree()) far_.update(tuple, record_[tuple]);
    if (scan_ && last) scan_->remove(tuple);
    return record;
}

void Unassigned::around(const Square& square, std::int32_t tuple, std::int32_t k,
                        std::vector<std::int32_t>& ids_out, Work& work) {
    if (near_choice_.is_scan()) return scan().around(square, tuple, k, next_, ids_out, work);
    const std::int64_t budget = work.left;
    near_.around(square, tuple, k, next_, ids_out, work);
    near_choice_.add(budget - work.left, tuples_, true);
}

std::int32_t Unassigned::farthest(const Square& square, std::int32_t tuple, Work& work) {
    // The scan for the nearest records serves both.
    if (near_choice_.is_scan() || far_choice_.is_scan()) return scan().farthest(square, tuple, work);
    const std::int64_t budget = work.left;
    const std::int32_t farthest = far_.farthest(square, work);
    far_choice_.add(budget - work.left, tuples_, true);
    return farthest;
}

}  // namespace dbanon
