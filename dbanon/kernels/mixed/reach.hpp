// The cost of a tuple relative to a class: def. 5 of GAA-CP, and the loss of k-member.
//
// Box trees compute both attribute by attribute. `cost_at_depth`, for a tree with all leaves at
// one depth: the cost if tuple and class have their lowest common ancestor at a depth.
#pragma once

#include <limits>

#include "mixed/mixed.hpp"

namespace dbanon {

// Twice the sum over the attributes of the distance (def. 5) between a tuple and a class's
// generalized record (def. 6).
class Reach {
   public:
    explicit Reach(const MixedTable& table)
        : table_(table), low_(table.n_attributes()), high_(low_), depth_(low_) {}

    void start(std::int32_t tuple);
    void add(std::int32_t tuple);

    Cost distance(std::int32_t tuple, Cost limit) const;
    Cost distance(std::int32_t tuple) const { return distance(tuple, std::numeric_limits<Cost>::max()); }
    // A bound for the tuples in a box, given its smallest and largest codes.
    Cost lower_bound(const Code* low, const Code* high, Cost limit) const;

    // For one attribute.
    Code low(std::size_t a) const { return low_[a]; }
    Code high(std::size_t a) const { return high_[a]; }
    Cost cost_per_unit() const { return 2; }
    Cost distance(std::size_t a, Code code) const;
    Cost lower_bound(std::size_t a, Code low, Code high) const;
    Cost upper_bound(std::size_t a, Code low, Code high) const;
    Cost cost_at_depth(std::size_t a, std::int32_t depth) const {
        const Tree* tree = table_.tree(a);
        return lasting_cost_at_depth(a, depth) + tree->climb(depth_[a], depth);
    }
    // The part that does not decrease when the class grows.
    Cost lasting_cost_at_depth(std::size_t a, std::int32_t depth) const {
        const Tree* tree = table_.tree(a);
        return tree->climb(tree->deepest(), depth);
    }

   private:
    void settle();

    const MixedTable& table_;
    std::vector<Code> low_, high_;
    std::vector<std::int32_t> depth_;  // of the class's node
};

// The loss of a class with one more record (k-member): the increase up to a constant.
class Growth {
   public:
    explicit Growth(const MixedTable& table) : table_(table) {}

    void start(std::int32_t tuple) { extent_.start(table_, tuple); }
    void start(const Extent& extent) { extent_ = extent; }
    void add(std::int32_t tuple) { extent_.add(table_, tuple); }

    Code low(std::size_t a) const { return extent_.low[a]; }
    Code high(std::size_t a) const { return extent_.high[a]; }
    Cost cost_per_unit() const { return extent_.size + 1; }
    Cost distance(std::size_t a, Code code) const { return lower_bound(a, code, code); }
    Cost distance(std::int32_t tuple) const;
    Cost lower_bound(std::size_t a, Code low, Code high) const;
    Cost cost_at_depth(std::size_t a, std::int32_t depth) const {
        const Tree* tree = table_.tree(a);
        if (depth == tree->deepest()) return 0;
        return (extent_.size + 1) * table_.unit(a) -
               depth * (extent_.share[a] + tree->largest_share());
    }
    // In trees with all leaves at one depth costs per record do not decrease when the class grows.
    Cost lasting_cost_at_depth(std::size_t a, std::int32_t depth) const { return cost_at_depth(a, depth); }

   private:
    const MixedTable& table_;
    Extent extent_;
};

}  // namespace dbanon
