// The unassigned records, with searches for the nearest to a class and the farthest from it.
//
// Both searches begin in trees. A kind of search whose queries visit so many tuples that a scan of
// all would be faster turns to scans, for good.
#pragma once

#include <optional>

#include "mixed/search_choice.hpp"
#include "mixed/tuple_scan.hpp"
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

    // is_new_class: false if the last search was for the same class with fewer members.
    template <class Measure>
    std::int32_t nearest(const Measure& measure, std::int32_t hint, bool is_new_class, Work& work) {
        if (near_choice_.is_scan()) return scan().nearest(measure, is_new_class, work);
        const std::int64_t budget = work.left;
        const std::int32_t tuple = near_.nearest(measure, hint, work);
        // With trees, lasting costs say less, so that a class needs more scans.
        const std::int64_t scans = columns_.numbers() < columns_.count() ? kScansPerClass : 1;
        near_choice_.add(budget - work.left, scans * tuples_, is_new_class);
        return tuple;
    }
    // The k records nearest to a tuple, or all, by (cost, record).
    void around(const Square& square, std::int32_t tuple, std::int32_t k, std::vector<std::int32_t>& ids_out,
                Work& work);
    template <class Measure>
    std::int32_t farthest(const Measure& measure, Work& work) {
        if (far_choice_.is_scan()) return scan().farthest(measure, work);
        const std::int64_t budget = work.left;
        const std::int32_t tuple = far_.farthest(measure, work);
        far_choice_.add(budget - work.left, tuples_, true);
        return tuple;
    }
    // The tuple farthest from another one.
    std::int32_t farthest(const Square& square, std::int32_t tuple, Work& work);
    // The tree for farthest searches. From now on it is kept up to date whatever else is scanned.
    const WideTree& farthest_tree();

    // Rebuilds the trees, between two classes, once half of the tuples are gone, which makes boxes
    // tight again. Earlier hints are then invalid. Returns whether trees were rebuilt.
    bool rebuild_if_sparse(Work& work);

   private:
    static constexpr std::int64_t kScansPerClass = 5;

    void build();
    std::vector<std::int32_t> remaining_tuples() const;
    bool uses_near_tree() const { return !near_choice_.is_scan(); }
    bool uses_far_tree() const { return keeps_far_tree_ || !far_choice_.is_scan(); }
    TupleScan& scan();

    const MixedTable& table_;
    const Columns columns_;
    std::int32_t count_, tuples_, n_built_ = 0;  // records, tuples; tuples of the trees when built
    std::vector<std::int32_t> next_;           // by tuple: position among its copies
    std::vector<std::int32_t> record_;         // by tuple: the record there; kNone: none remains
    // Separate trees, split for nearest and farthest searches.
    WideTree near_, far_;
    bool keeps_far_tree_ = false;
    SearchChoice near_choice_, far_choice_;
    const NumberPenalty number_penalty_;
    std::optional<TupleScan> scan_;
};

}  // namespace dbanon
