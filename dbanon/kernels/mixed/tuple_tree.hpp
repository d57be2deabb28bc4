// All tuples in a tree of boxes over their codes: several nearest by def. 5 of GAA-CP without
// looking at most of them.
#pragma once

#include "common/table.hpp"
#include "mixed/reach.hpp"

namespace dbanon {

class TupleTree {
   public:
    explicit TupleTree(const MixedTable& table);

    // The `count` nearest tuples but `tuple`, nearest first, ties by tuple.
    void nearest(const Reach& reach, std::int32_t tuple, std::int32_t count, std::int32_t* found,
                 Work& work);

   private:
    using Pair = std::pair<Cost, std::int32_t>;
    struct Node {
        std::int32_t first, last;  // tuples order_[first] to order_[last - 1]
        std::int32_t left, right;  // -1: a leaf
    };
    struct Open {
        Cost bound;
        std::int32_t node;
    };

    std::int32_t build(std::int32_t first, std::int32_t last);
    void enclose(std::int32_t node);
    Code* low(std::int32_t node) { return boxes_.row(node); }
    Code* high(std::int32_t node) { return low(node) + table_.d(); }
    void offer(const Reach& reach, std::int32_t tuple);

    const MixedTable& table_;
    std::vector<std::int32_t> order_;  // tuples, leaf by leaf
    std::vector<Node> nodes_;
    Grid<Code> boxes_;  // by node: smallest codes, then largest
    std::vector<Open> open_;
    std::vector<Pair> heap_;  // those found, the one to replace on top
};

}  // namespace dbanon
