// The tuples that remain, in a tree of boxes over their codes: nearest and farthest by def. 5 of
// GAA-CP, with its ties, without looking at most of them.
#pragma once

#include "common/kernel.hpp"
#include "mixed/cutting.hpp"
#include "mixed/mixed.hpp"

namespace dbanon {

// Twice the sum over the attributes of the distance (def. 5) between a tuple and a class's
// generalized record (def. 6).
class Reach {
   public:
    explicit Reach(const MixedTable& table)
        : table_(table), low_(table.d()), high_(low_), depth_(low_) {}

    void start(std::int32_t tuple);
    void add(std::int32_t tuple);

    Cost distance(std::int32_t tuple, Cost limit) const;
    // Bounds over the tuples in a box: its smallest and its largest codes.
    Cost at_least(const Code* low, const Code* high, Cost limit) const;
    Cost at_most(const Code* low, const Code* high) const;

   private:
    void settle();

    const MixedTable& table_;
    std::vector<Code> low_, high_;
    std::vector<std::int32_t> depth_;  // of the class's node
};

// The loss of a class with one more record (k-member): its increase but for a constant.
class Growth {
   public:
    explicit Growth(const MixedTable& table) : table_(table) {}

    void start(std::int32_t tuple) { extent_.start(table_, tuple); }
    void add(std::int32_t tuple) { extent_.add(table_, tuple); }

    Cost distance(std::int32_t tuple, Cost) const { return extent_.loss_with(table_, tuple); }
    Cost at_least(const Code* low, const Code* high, Cost limit) const;

   private:
    const MixedTable& table_;
    Extent extent_;
};

class TupleTree {
   public:
    TupleTree(const MixedTable& table, CutBy by);

    std::int32_t remaining() const { return remaining_; }
    // The record of smallest index among the copies of a tuple that remain.
    std::int32_t next(std::int32_t tuple) const {
        return table_.copy(next_[tuple]);
    }
    bool gone(std::int32_t tuple) const {
        return next_[tuple] == table_.end(tuple);
    }
    // Removes and returns next(tuple).
    std::int32_t take(std::int32_t tuple);

    // By (distance, index of the next record); `hint` is a tuple to look around first, or -1.
    template <class Measure>
    std::int32_t nearest(const Measure& measure, std::int32_t hint, Work& work);
    // The `count` nearest tuples but `tuple`, nearest first, ties by tuple; with all remaining.
    void nearest(const Reach& reach, std::int32_t tuple, std::int32_t count, std::int32_t* found,
                 Work& work);
    std::int32_t farthest(const Reach& reach, Work& work);

   private:
    struct Node {
        std::int32_t first, last;  // tuples order_[first] to order_[last - 1]
        std::int32_t left, right;  // -1: a leaf
        std::int32_t parent;
        std::int32_t least;        // smallest next record below; INT32_MAX when nothing remains
    };

    std::int32_t build(std::int32_t first, std::int32_t last, std::int32_t parent);
    void summarize(std::int32_t node);
    Code* low(std::int32_t node) { return boxes_.row(node); }
    Code* high(std::int32_t node) { return low(node) + table_.d(); }
    // Offers an answer the tuples of a leaf, or of all boxes that it wants, by their bounds.
    template <class Answer>
    void look(const Node& leaf, Answer& answer, Work& work) const;
    template <class Answer>
    void walk(Answer& answer, Work& work);

    const MixedTable& table_;
    Cutting cutting_;
    std::int32_t remaining_;
    std::vector<std::int32_t> next_;   // by tuple: position among its copies
    std::vector<std::int32_t> order_;  // tuples, leaf by leaf
    std::vector<std::int32_t> leaf_;   // by tuple
    std::vector<Node> nodes_;
    Grid<Code> boxes_;  // by node: smallest codes, then largest
    struct Open {
        Cost bound;
        std::int32_t node;
    };
    std::vector<Open> open_;
    std::vector<std::pair<Cost, std::int32_t>> heap_;
};

}  // namespace dbanon
