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
      far_(table, columns_, SplitCriterion::kRange, number_penalty) {
    for (std::int32_t t = 0; t < tuples_; ++t) {
        next_[t] = table.begin(t);
        record_[t] = table.copy(next_[t]);
    }
    build();
}

void Unassigned::build() {
    std::vector<std::int32_t> remaining;
    remaining.reserve(tuples_);
    for (std::int32_t t = 0; t < table_.tuples(); ++t) {
        if (record_[t] != WideTree::kNoRecord) remaining.push_back(t);
    }
    near_.build(remaining, record_);
    far_.build(remaining, record_);
    n_built_ = tuples_;
}

bool Unassigned::rebuild_if_sparse(Work& work) {
    if (tuples_ < kSmall || tuples_ > n_built_ / 2) return false;
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
    near_.update(tuple, record_[tuple]);
    far_.update(tuple, record_[tuple]);
    return record;
}

}  // namespace dbanon
