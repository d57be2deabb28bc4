// Squared distances between records without coordinates: squared differences of numbers, plus for
// each tree the squared height of the lowest common ancestor. They are integers, so ties are exact
// and go to the smallest record.
//
// All leaves of a tree have the same depth: the caller treats a shallow leaf as if it were extended
// by a path (spaces/codes.py).
#pragma once

#include <algorithm>
#include <span>

#include "mixed/mixed.hpp"

namespace dbanon {

// Distances from one tuple. Box trees compute them attribute by attribute, as in reach.hpp.
class Square {
   public:
    // each: of a tree, the squared distance of leaves that meet one step up.
    Square(const MixedTable& table, std::span<const Cost> squared_step_costs)
        : table_(table), squared_step_costs_(squared_step_costs.begin(), squared_step_costs.end()) {}

    void start(std::int32_t tuple) { row_ = table_.row(tuple); }

    Code low(std::size_t a) const { return row_[a]; }
    Code high(std::size_t a) const { return row_[a]; }
    Cost cost_per_unit() const { return 0; }
    Cost cost_at_depth(std::size_t a, std::int32_t depth) const {
        const Cost height = table_.tree(a)->deepest() - depth;
        return squared_step_costs_[a] * height * height;
    }
    // For a tree in which leaves are farther apart the farther they are on either side.
    Cost distance(std::size_t a, Code code) const {
        return cost_at_depth(a, table_.tree(a)->common_depth(std::min(row_[a], code), std::max(row_[a], code)));
    }
    Cost lower_bound(std::size_t a, Code low, Code high) const {
        if (low <= row_[a] && row_[a] <= high) return 0;
        return distance(a, row_[a] < low ? low : high);
    }
    Cost upper_bound(std::size_t a, Code low, Code high) const {
        return std::max(distance(a, low), distance(a, high));
    }
    Cost distance(std::int32_t tuple) const {
        const Code* other = table_.row(tuple);
        Cost sum = 0;
        for (std::size_t a = 0; a < static_cast<std::size_t>(table_.n_attributes()); ++a) {
            const Cost gap = Cost{row_[a]} - other[a];
            sum += table_.tree(a) ? distance(a, other[a]) : gap * gap;
        }
        return sum;
    }

   private:
    const MixedTable& table_;
    const std::vector<Cost> squared_step_costs_;
    const Code* row_ = nullptr;
};

}  // namespace dbanon
