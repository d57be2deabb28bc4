// The distances that refinements of points need, for records without coordinates
// (common/pair_distances.hpp).
#pragma once

#include "common/pair_distances.hpp"
#include "mixed/square.hpp"
#include "mixed/wide_tree.hpp"

namespace dbanon {

class MixedDistances final : public PairDistances {
   public:
    // each: of a tree, the squared distance of leaves that meet one step up.
    MixedDistances(Mixed mixed, std::span<const Cost> squared_step_costs);

void fill_pairwise(const std::int32_t* ids, std::int32_t count, std::int32_t stride,
               double* out) override;
    void fill_row(std::int32_t id, const std::int32_t* ids, std::int32_t count, double* out) override;
    std::int64_t cost_per_distance() const override {
        return static_cast<std::int64_t>(columns_.numbers() + levels_.size());
    }
    void find_nearest(std::int32_t id, std::int32_t count, std::int32_t* ids_out, Work& work) override;

   private:
    // The distance of leaves that separate at one depth of a tree, and not above; a node is the
    // prefix of the paths below it.
    struct Level {
        std::size_t column;
        Cost step;
        std::int32_t shift;
    };

    void add_levels(std::size_t column);
    void load(const std::int32_t* ids, std::int32_t count);
    void row(std::int32_t tuple, std::int32_t count, double* out);

    const Mixed mixed_;
    const Columns columns_;
    Square square_;
    std::vector<Level> levels_;
    int shift_ = 0;  // of distances, so that their sums are exact
    WideTree near_;
    std::vector<std::int32_t> first_;  // by tuple: the position of its first copy
    // The current records: values column by column, and their distances from one record.
    std::vector<std::int32_t> tuples_, nearest_;
    Grid<Code> values_;
    std::vector<Cost> apart_;
};

}  // namespace dbanon
