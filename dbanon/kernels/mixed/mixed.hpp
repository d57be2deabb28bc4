// Records with numeric and categorical attributes as fixed-point integers: sums do not depend on
// the order of addition, so all builds and the reference implementation agree exactly.
//
// A numeric value is its distance from the table's minimum, 0 to `unit`. A categorical value is the
// position of its leaf, depth first, so that the leaves below a node are a range of positions and a
// class is described by its smallest and largest position, as it is for numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/grid.hpp"

namespace dbanon {

using Code = std::int32_t;
using Cost = std::int64_t;

// A hierarchy, reduced to the depths that the computation of costs needs.
class Tree {
   public:
    // depths: of each leaf. gaps[i]: depth of the lowest common ancestor of leaves i and i + 1.
    Tree(std::vector<std::int32_t> depths, std::vector<std::int32_t> gaps, Cost unit);

    std::int32_t leaves() const { return static_cast<std::int32_t>(depth_.size()); }
    std::int32_t depth(Code leaf) const { return depth_[leaf]; }
    bool has_even_depth() const { return shallowest_ == deepest_; }
    std::int32_t shallowest() const { return shallowest_; }
    std::int32_t deepest() const { return deepest_; }

    // Depth of the lowest common ancestor of the leaves low to high.
    std::int32_t common_depth(Code low, Code high) const {
        if (table_.width()) {
            return table_.row(low)[high];
        }
        return low == high ? depth(low) : lowest_gap(low, high);
    }
    // Cost of climbing from one depth to another one above it: climbed edges over all edges.
    Cost climb(std::int32_t from, std::int32_t to) const {
        return from == to ? 0 : unit_ - to * share_[from];
    }
    // Share lost by a leaf per level: unit / depth.
    Cost largest_share() const { return share_[shallowest_]; }
    Cost smallest_share() const { return share_[deepest_]; }
    Cost share(Code leaf) const { return share_[depth(leaf)]; }

   private:
    std::int32_t lowest_gap(Code low, Code high) const;

    Cost unit_;
    std::int32_t shallowest_, deepest_;
    std::vector<std::int32_t> depth_;
    std::vector<Cost> share_;                        // by depth
    Grid<std::uint8_t> table_;                       // small trees: common() of every pair
    std::vector<std::vector<std::int32_t>> minima_;  // large trees: minima of 2^i gaps
};

// Distinct records, each with its copies in ascending order.
class MixedTable {
   public:
    // codes: (n, d) row by row, only read during construction. trees[a]: of attribute a, null if it
    // is numeric. extra_columns: (n, width) row by row: they distinguish records, but do not count for
    // costs.
    MixedTable(const Code* codes, std::int32_t n, std::vector<Cost> units,
               std::vector<std::unique_ptr<Tree>> trees, const Code* extra_columns = nullptr,
               std::size_t width = 0);
    MixedTable(const MixedTable&) = delete;
    MixedTable& operator=(const MixedTable&) = delete;

    std::int32_t records() const { return static_cast<std::int32_t>(tuple_of_.size()); }
    std::int32_t tuples() const { return static_cast<std::int32_t>(starts_.size()) - 1; }
    int n_attributes() const { return static_cast<int>(units_.size()); }
    std::size_t width() const { return rows_.width() - units_.size(); }  // of the extra columns
    const Code* row(std::int32_t tuple) const { return rows_.row(tuple); }
    const Code* extra_columns(std::int32_t tuple) const { return row(tuple) + units_.size(); }
    std::int32_t tuple_of(std::int32_t record) const {
        return tuple_of_[record];
    }
    std::int32_t count(std::int32_t tuple) const { return end(tuple) - begin(tuple); }
    // Copies of a tuple: copy(begin) to copy(end - 1).
    std::int32_t begin(std::int32_t tuple) const { return starts_[tuple]; }
    std::int32_t end(std::int32_t tuple) const {
        return starts_[static_cast<std::size_t>(tuple) + 1];
    }
    std::int32_t copy(std::int32_t at) const { return copies_[at]; }

    const Tree* tree(std::size_t a) const { return trees_[a].get(); }
    Cost unit(std::size_t a) const { return units_[a]; }

   private:
    std::vector<Cost> units_;
    std::vector<std::unique_ptr<Tree>> trees_;
    Grid<Code> rows_;  // codes, then the extra columns
    std::vector<std::int32_t> tuple_of_, starts_, copies_;
};
// Shared by kernels and immutable.
using Mixed = std::shared_ptr<const MixedTable>;

// A class: the smallest and largest code of each attribute, and further values that determine its loss.
struct Extent {
    std::vector<Code> low, high;
    std::vector<Cost> share;  // sum of the leaves' shares; categorical attributes
    Cost size = 0;

    void start(const MixedTable& table, std::int32_t tuple, Cost copies = 1);
    void add(const MixedTable& table, std::int32_t tuple, Cost copies = 1);
    // The loss of the class if its records are released as one.
    Cost loss(const MixedTable& table) const;
    // The loss with another record.
    Cost loss_with(const MixedTable& table, std::int32_t tuple) const;
};

}  // namespace dbanon
