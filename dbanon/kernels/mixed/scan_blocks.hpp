// Tuples in blocks, stored by column, for scans in single precision (lanes.hpp).
#pragma once

#include "common/pages.hpp"
#include "mixed/columns.hpp"
#include "mixed/lanes.hpp"

namespace dbanon {

class ScanBlocks {
   public:
    ScanBlocks(const MixedTable& table, const Columns& columns)
        : table_(table), columns_(columns), index_(table.tuples(), 0) {}

    std::int32_t count() const { return static_cast<std::int32_t>(tuples_.size()); }
    std::int32_t blocks() const { return (count() + kScanTuples - 1) / kScanTuples; }
    std::int32_t tuple(std::int32_t index) const { return tuples_[index]; }
    // The number of tuples in a block.
    std::int32_t n_filled(std::int32_t block) const {
        return std::min(kScanTuples, count() - block * kScanTuples);
    }
    const float* numbers(std::int32_t block) const { return numbers_.data() + block * number_width(); }
    const Code* codes(std::int32_t block) const { return codes_.data() + block * code_width(); }

    void clear() { tuples_.clear(); }
    void reserve(std::size_t count) {
        const std::size_t blocks = (count + kScanTuples - 1) / kScanTuples;
        tuples_.reserve(count);
        numbers_.reserve(blocks * number_width());
        codes_.reserve(blocks * code_width());
    }
    void add(std::int32_t tuple) {
        const std::int32_t index = count();
        tuples_.push_back(tuple);
        if (blocks() * number_width() > numbers_.size()) numbers_.resize(blocks() * number_width(), 0.0F);
        if (blocks() * code_width() > codes_.size()) codes_.resize(blocks() * code_width(), 0);
        index_[tuple] = index;
        const Code* row = table_.row(tuple);
        for (std::size_t c = 0; c < columns_.numbers(); ++c) {
            *number(index, c) = static_cast<float>(row[columns_.attribute(c)]);
        }
        for (std::size_t c = columns_.numbers(); c < columns_.count(); ++c) {
            *code(index, c) = columns_.value(c, row[columns_.attribute(c)]);
        }
    }
    // Removes a tuple if it is here: the last one takes its index, which is returned; otherwise -1.
    std::int32_t remove(std::int32_t tuple) {
        const std::int32_t index = index_[tuple];
        if (index >= count() || tuples_[index] != tuple) return -1;
        const std::int32_t last = count() - 1;
        for (std::size_t c = 0; c < columns_.numbers(); ++c) *number(index, c) = *number(last, c);
        for (std::size_t c = columns_.numbers(); c < columns_.count(); ++c) *code(index, c) = *code(last, c);
        tuples_[index] = tuples_[last];
        index_[tuples_[index]] = index;
        tuples_.pop_back();
        return index;
    }

   private:
    std::size_t number_width() const { return columns_.numbers() * kScanTuples; }
    std::size_t code_width() const { return (columns_.count() - columns_.numbers()) * kScanTuples; }
    float* number(std::int32_t index, std::size_t column) {
        return numbers_.data() + index / kScanTuples * number_width() + column * kScanTuples + index % kScanTuples;
    }
    Code* code(std::int32_t index, std::size_t column) {
        return codes_.data() + index / kScanTuples * code_width() + (column - columns_.numbers()) * kScanTuples +
               index % kScanTuples;
    }

    const MixedTable& table_;
    const Columns& columns_;
    std::vector<std::int32_t> tuples_, index_;  // by index; by tuple
    HugePageVector<float> numbers_;
    HugePageVector<Code> codes_;
};

}  // namespace dbanon
