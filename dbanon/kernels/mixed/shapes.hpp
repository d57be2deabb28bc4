// Classes as shapes (smallest and largest code of each attribute), laid out for many cheap merges.
//
// Attributes with at most 256 values whose cost depends only on the ends use a table of costs per
// record; eight such attributes are merged at once. Other numbers subtract. Other hierarchies with
// all leaves at the same depth use the field where the paths of both ends separate (lanes.hpp);
// uneven trees add the shares of their leaves.
//
// A number released as a label costs the mean of the label's loss and of the class's range: the
// label alone is too coarse to guide growing classes. The label's loss is looked up by the pieces
// that contain the ends of the class; no label has a border inside a piece.
#pragma once

#include <array>

#include "mixed/mixed.hpp"

namespace dbanon {

// Losses of number labels; no pieces if the range of values is the loss.
struct LabelCosts {
    std::vector<Code> first;          // the first code of each piece, ascending; at most 256
    std::vector<std::int32_t> costs;  // by the pieces of both ends, per record

    bool empty() const { return first.empty(); }
    std::size_t piece(Code code) const {
        const auto after = std::upper_bound(first.begin() + 1, first.end(), code);
        return static_cast<std::size_t>(after - first.begin()) - 1;
    }
};

class Shapes {
   public:
    // labels: by attribute, or none at all.
    explicit Shapes(const MixedTable& table, const std::vector<LabelCosts>& labels = {});

    void resize(std::size_t count);
    std::size_t count() const { return sizes_.size(); }
    Cost size(std::size_t i) const { return sizes_[i]; }
    void resize_class(std::size_t i, Cost size) { sizes_[i] = size; }  // identical records only

    // Shape i: copies of one tuple.
    void set(std::size_t i, std::int32_t tuple, Cost copies);
    void add(std::size_t i, std::int32_t tuple, Cost copies);
    void merge(std::size_t i, std::size_t j);  // j into i
    void copy(std::size_t to, std::size_t from);
    bool same(std::size_t i, std::size_t j) const;

    // A lower bound of the loss of one more record, independent of the record.
    Cost each(std::size_t i) const { return per_record(i, i); }
    Cost loss(std::size_t i) const { return merged(i, i, sizes_[i], 1); }
    Cost loss(std::size_t i, std::size_t j) const { return merged(i, j, sizes_[i] + sizes_[j], 2); }
    // Of shape i with `copies` records of the single tuple of shape j.
    Cost loss_with(std::size_t i, std::size_t j, Cost copies) const;
    // Of shape i when it loses `copies` of a tuple without becoming smaller.
    Cost loss_without(std::size_t i, std::int32_t tuple, Cost copies) const;
    void take_copies(std::size_t i, std::int32_t tuple, Cost copies);

   private:
    using Short = std::uint16_t;
    static constexpr std::size_t kLanes = 8;
    // The loss per record of an even tree, by the highest bit in which the paths of both ends
    // differ.
    using CostByBit = std::array<std::int32_t, 33>;

    Cost per_record(std::size_t i, std::size_t j) const;
    std::pair<Code, Code> leaves(std::size_t i, std::size_t j, std::size_t a) const;
    Cost merged(std::size_t i, std::size_t j, Cost size, int shapes) const;
    // Of a leaf of an uneven tree.
    Cost share(std::int32_t tuple, std::size_t a) const {
        return table_.tree(uneven_[a])->share(table_.row(tuple)[uneven_[a]]);
    }
    // The index of the first uneven tree among wide columns.
    std::size_t uneven_from() const { return numeric_.size() + costs_by_bit_.size(); }
    // A lookup table of w by w costs.
    template <class Price>
    void tabulate(std::size_t w, const Price& price);

    const MixedTable& table_;
    std::size_t tabled_ = 0, padded_ = 0;
    std::vector<int> numeric_, uneven_;       // attributes
    std::vector<int> range_shift_;                    // by index in numeric_: the shift of the range
    std::vector<CostByBit> costs_by_bit_;            // of trees by paths, after the numbers
    std::vector<Short> width_;                // values of each tabled attribute, padded with 1
    std::vector<std::size_t> offset_;         // of its table in costs_
    std::vector<std::int32_t> costs_;
    Grid<Short> tuple_shorts_;         // (tuples, padded_)
    Grid<Code> tuple_wide_;            // (tuples, numbers, paths and leaves of uneven trees)
    Grid<Short> low_, high_;           // (count, padded_)
    Grid<Code> wide_low_, wide_high_;  // (count, as of tuples)
    Grid<Cost> shares_;                // (count, uneven)
    std::vector<Cost> sizes_;
};

}  // namespace dbanon
