// Nearest and farthest search by a scan of all remaining tuples, for tables whose boxes do not
// prune: with many attributes a tree visits most of its leaves.
//
// Scans compute costs in single precision. A bound of the rounding error selects the tuples that can
// have the best cost; their integer costs decide, so results equal those of WideTree.
//
// One scan serves all steps of a class that grows. Part of a tuple's cost cannot decrease while the
// class grows: the class's extent with this tuple, per record. The scan computes it for the first
// member and keeps the tuples where it is least as candidates; what it is beyond them bounds the
// costs of all others from then on.
#pragma once

#include <span>

#include "common/table.hpp"
#include "mixed/reach.hpp"
#include "mixed/scan_blocks.hpp"
#include "mixed/scan_query.hpp"
#include "mixed/square.hpp"

namespace dbanon {

class TupleScan {
   public:
    // record: by tuple, its smallest remaining record; read whenever costs are equal.
    TupleScan(const MixedTable& table, const Columns& columns, NumberPenalty number_penalty,
              const std::vector<std::int32_t>& record);

    // Replaces all tuples.
    void build(std::span<const std::int32_t> tuples);
    void remove(std::int32_t tuple);

    // As in WideTree. is_new_class: false if the last call was for the same class with fewer members.
    template <class Measure>
    std::int32_t nearest(const Measure& measure, bool is_new_class, Work& work);
    template <class Measure>
    std::int32_t farthest(const Measure& measure, Work& work);
    // Both for the distances from one tuple.
    std::int32_t farthest(const Square& square, std::int32_t from, Work& work);
    void around(const Square& square, std::int32_t from, std::int32_t k,
                const std::vector<std::int32_t>& next, std::vector<std::int32_t>& records_out, Work& work);

    std::int32_t count() const { return blocks_.count(); }

   private:
    struct Best {
        Cost cost = 0;
        std::int32_t tuple = -1;
    };
    // Bounds of the difference between costs in single precision and integer costs. If `unit` is not
    // 0, scanned costs are exact, in multiples of it.
    struct Rounding {
        double relative = 0, absolute = 0, root = 0;
        Cost unit = 0;

        double difference(double cost) const;
        // Tuples with a larger scanned cost have a larger integer cost, those with a smaller one
        // than the latter a smaller one.
        float largest_scanned(double cost) const;
        float smallest_scanned(double cost) const;
        // A bound of the integer costs of tuples with a larger scanned cost.
        double least_cost_above(float scanned) const;
    };

    // For the query that is set, and its weight.
    Rounding rounding(Cost weight) const;
    template <class Measure>
    Cost cost_of(const Measure& measure, std::int32_t tuple, float scanned) const {
        return unit_ ? unit_ * static_cast<Cost>(scanned) : measure.distance(tuple);
    }
    template <class Measure>
    void set_query(const Measure& measure);
    template <class Measure>
    void set_lasting_query(const Measure& measure);
    void add(ScanBlocks& blocks, std::int32_t tuple) const;
    // Keeps the costs of all tuples for the query that is set.
    void compute_costs(Work& work);
    void compute_distances(const Square& square, std::int32_t from, Work& work);
    template <class Measure>
    void choose_candidates(const Measure& measure, Work& work);
    // Calls visit(tuple, cost) for the tuples whose kept cost is above `from` and at most `to`.
    template <class Visit>
    void visit_costs(float from, float to, const Visit& visit) const;
    // A cost up to which there are about `count` tuples.
    float low_cost(std::int64_t count) const;
    template <bool is_nearest, class Measure>
    Best best_of(const ScanBlocks& blocks, const Measure& measure, Work& work) const;
    // Replaces a result by a tuple that is better, or equal with a smaller record.
    template <bool is_nearest>
    bool improve(Best& best, Cost cost, std::int32_t tuple) const;

    const MixedTable& table_;
    const Columns& columns_;
    const LaneOps& ops_;
    const std::vector<std::int32_t>& record_;
    Rounding unit_rounding_;  // for a weight of 1
    ScanBlocks blocks_, candidates_;

    // Of the last scan of all tuples: costs by index in blocks_, and extremes by subset. After a
    // removal the extremes are bounds.
    std::vector<float> costs_, least_, most_;
    std::int32_t distances_from_ = -1;  // a tuple, if these costs and the query are distances from it
    bool has_candidates_ = false, is_scan_current_ = false;  // of the class as it is now
    Cost scanned_weight_ = 1;
    Rounding scanned_rounding_;
    float candidate_limit_ = 0;  // candidates are the tuples with costs up to it
    std::vector<std::int32_t> more_;

    ScanQueryBuilder builder_;
    Cost unit_ = 0;  // of the query, as in Rounding
};

}  // namespace dbanon
