// The nearest tuples of each tuple, by def. 5 of GAA-CP, ties by tuple.
#pragma once

#include <numeric>

#include "mixed/wide_tree.hpp"

namespace dbanon {

class NearTuples {
   public:
    explicit NearTuples(const MixedTable& table)
        : columns_(table), tree_(table, columns_, SplitCriterion::kGain, NumberPenalty::kWidth), reach_(table) {
        order_.resize(table.tuples());
        std::iota(order_.begin(), order_.end(), 0);
        // Tuples are numbered by their first records.
        tree_.build(order_, std::vector<std::int32_t>(order_));
    }

    // All tuples in an order that keeps neighbours together, for cache locality of searches.
    const std::vector<std::int32_t>& order() const { return order_; }
    // The `count` nearest other tuples, nearest first; there must be that many.
    void nearest(std::int32_t tuple, std::int32_t count, std::int32_t* ids_out, Work& work) {
        reach_.start(tuple);
        tree_.nearest(reach_, tuple, count, ids_out, work);
    }

   private:
    const Columns columns_;
    std::vector<std::int32_t> order_;
    WideTree tree_;
    Reach reach_;
};

}  // namespace dbanon
