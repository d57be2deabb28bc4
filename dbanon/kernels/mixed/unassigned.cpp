#include "mixed/unassigned.hpp"

namespace dbanon {

namespace {

// Smaller trees are not rebuilt.
constexpr std::int32_t kSmall = 1000;

}  // namespace

Unassigned::Unassigned(const MixedTable& table, Outside outside, int bits)
    : table_(table),
      columns_(table, bits),
      count_(table.records()),
      tuples_(table.tuples()),
      next_(tuples_),
      record_(tuples_),
      near_(table, columns_, CutBy::kGain, outside),
      far_(table, columns_, CutBy::kRange, outside) {
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
        if (record_[t] != WideTree::kNone) remaining.push_back(t);
    }
    near_.build(remaining, record_);
    far_.build(remaining, record_);
    built_ = tuples_;
}

bool Unassigned::tidy(Work& work) {
    if (tuples_ < kSmall || tuples_ > built_ / 2) return false;
    build();
    work.left -= std::int64_t{tuples_} * table_.d();
    return true;
}

std::int32_t Unassigned::take(std::int32_t tuple) {
    const std::int32_t record = record_[tuple];
    --count_;
    const bool last = ++next_[tuple] == table_.end(tuple);
    tuples_ -= last;
    record_[tuple] = last ? WideTree::kNone : table_.copy(next_[tuple]);
    near_.update(tuple, record_[tuple]);
    far_.update(tuple, record_[tuple]);
    return record;
}

}  // namespace dbanon
