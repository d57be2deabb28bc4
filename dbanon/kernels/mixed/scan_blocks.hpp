// Items in blocks, stored by column, for scans in single precision (lanes.hpp). Items are tuples or
// classes, by id.
#pragma once

#include "common/pages.hpp"
#include "mixed/lanes.hpp"
#include "mixed/mixed.hpp"

namespace dbanon {

class ScanBlocks {
   public:
    // numbers, codes: columns of each type. Ids are below `ids`.
    ScanBlocks(std::size_t ids, std::size_t numbers, std::size_t codes)
        : number_width_(numbers * kScanItems), code_width_(codes * kScanItems), index_(ids, 0) {}

    std::int32_t count() const { return static_cast<std::int32_t>(ids_.size()); }
    std::int32_t blocks() const { return (count() + kScanItems - 1) / kScanItems; }
    std::int32_t id(std::int32_t index) const { return ids_[index]; }
    std::int32_t index(std::int32_t id) const { return index_[id]; }
    // The number of items in a block.
    std::int32_t n_filled(std::int32_t block) const { return std::min(kScanItems, count() - block * kScanItems); }
    const float* numbers(std::int32_t block) const { return numbers_.data() + block * number_width_; }
    const Code* codes(std::int32_t block) const { return codes_.data() + block * code_width_; }
    float& number(std::int32_t index, std::size_t column) {
        return numbers_[index / kScanItems * number_width_ + column * kScanItems + index % kScanItems];
    }
    Code& code(std::int32_t index, std::size_t column) {
        return codes_[index / kScanItems * code_width_ + column * kScanItems + index % kScanItems];
    }

    void clear() { ids_.clear(); }
    void reserve(std::size_t count) {
        const std::size_t blocks = (count + kScanItems - 1) / kScanItems;
        ids_.reserve(count);
        numbers_.reserve(blocks * number_width_);
        codes_.reserve(blocks * code_width_);
    }
    // Returns the index of the item, whose numbers and codes follow.
    std::int32_t add(std::int32_t id) {
        index_[id] = count();
        ids_.push_back(id);
        if (blocks() * number_width_ > numbers_.size()) numbers_.resize(blocks() * number_width_, 0.0F);
        if (blocks() * code_width_ > codes_.size()) codes_.resize(blocks() * code_width_, 0);
        return index_[id];
    }
    // Removes an item if it is here: the last one takes its index, which is returned; otherwise -1.
    std::int32_t remove(std::int32_t id) {
        const std::int32_t index = index_[id];
        if (index >= count() || ids_[index] != id) return -1;
        const std::int32_t last = count() - 1;
        for (std::size_t c = 0; c < number_width_ / kScanItems; ++c) number(index, c) = number(last, c);
        for (std::size_t c = 0; c < code_width_ / kScanItems; ++c) code(index, c) = code(last, c);
        ids_[index] = ids_[last];
        index_[ids_[index]] = index;
        ids_.pop_back();
        return index;
    }

   private:
    std::size_t number_width_, code_width_;  // of a block
    std::vector<std::int32_t> ids_, index_;  // by index; by id
    HugePageVector<float> numbers_;
    HugePageVector<Code> codes_;
};

}  // namespace dbanon
