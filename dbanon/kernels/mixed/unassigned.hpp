// The unassigned records, with searches for the nearest to a class and the farthest from it.
#pragma once

#include "mixed/wide_tree.hpp"

namespace dbanon {

class Unassigned {
   public:
    // outside: how the measures treat numbers outside a class. bits: limit of path lengths, as in
    // Columns.
    explicit Unassigned(const MixedTable& table, NumberPenalty number_penalty = NumberPenalty::kWidth,
                        int bits = kPathBits);

    std::int32_t count() const { return count_; }
    const Columns& columns() const { return columns_; }
    // The record of a tuple that take() would remove.
    std::int32_t record(std::int32_t tuple) const { return record_[tuple]; }
    // Removes the smallest remaining record among the copies of a tuple.
    std::int32_t take(std::int32_t tuple);

    template <class Measure>
    std::int32_t nearest(const Measure& measure, std::int32_t hint, Work& work) {
        return near_.nearest(measure, hint, work);
    }
    // The k nearest records, or all, by (cost, record).
    template <class Measure>
    void around(const Measure& measure, std::int32_t hint, std::int32_t k,
                std::vector<std::int32_t>& ids_out, Work& work) {
        near_.around(measure, hint, k, next_, ids_out, work);
    }
    template <class Measure>
    std::int32_t farthest(const Measure& measure, Work& work) {
        return far_.farthest(measure, work);
    }
    // The tree for farthest searches.
    const WideTree& farthest_tree() const { return far_; }

    // Rebuilds the trees, between two classes, once half of the tuples are gone, which makes boxes
    // tight again. Earlier hints are then invalid. Returns whether trees were rebuilt.
    bool rebuild_if_sparse(Work& work);

   private:
    void build();

    const MixedTable& table_;
    const Columns columns_;
    std::int32_t count_, tuples_, n_built_ = 0;  // records, tuples; tuples of the trees when built
    std::vector<std::int32_t> next_;           // by tuple: position among its copies
    std::vector<std::int32_t> record_;         // by tuple: the record there; kNone: none remains
    // Separate trees, split for nearest and farthest searches.
    WideTree near_, far_;
};

}  // namespace dbanon
