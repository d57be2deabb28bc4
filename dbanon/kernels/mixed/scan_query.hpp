// The preparation of a ScanQuery (lanes.hpp) from a measure, as of WideTree.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "mixed/columns.hpp"
#include "mixed/lanes.hpp"

namespace dbanon {

class ScanQueryBuilder {
   public:
    ScanQueryBuilder(const MixedTable& table, const Columns& columns)
        : table_(table),
          columns_(columns),
          low_(columns.numbers()),
          high_(columns.numbers()),
          other_costs_(columns.count() - columns.paths_end()) {
        query_.numbers = static_cast<std::int32_t>(columns.numbers());
    }

    // cost_at_depth: of the measure, or less. has_other_trees: whether trees without paths count.
    template <class Measure, class CostAtDepth>
    void set(const Measure& measure, const CostAtDepth& cost_at_depth, bool has_other_trees);
    // Counts costs in multiples of the returned unit from now on if scans compute these exactly:
    // sums of few multiples of one number. Otherwise returns 0.
    Cost use_exact_unit();

    const ScanQuery& query() const { return query_; }

    // A bound of the relative rounding errors of costs.
    double relative_error() const {
        const auto terms = static_cast<double>(columns_.count() + columns_.fields() + 8);
        return std::ldexp(terms, 1 - std::numeric_limits<float>::digits);
    }
    // The step between numbers of a column that are told apart, if that is more than 1; otherwise 0.
    double rounding_step(std::size_t column) const {
        const int bits = std::bit_width(static_cast<std::uint64_t>(table_.unit(columns_.attribute(column))));
        const int lost_bits = bits - std::numeric_limits<float>::digits;
        return lost_bits > 0 ? std::ldexp(1.0, lost_bits) : 0.0;
    }

   private:
    const MixedTable& table_;
    const Columns& columns_;
    ScanQuery query_{};
    Cost base_ = 0;
    std::vector<float> low_, high_;
    std::vector<QueryPath> query_paths_;
    std::vector<Cost> steps_;  // of levels_
    std::vector<ScanLevel> levels_;
    std::vector<std::vector<float>> other_costs_;
    std::vector<ScanLeafCosts> leaf_costs_;
};

template <class Measure, class CostAtDepth>
void ScanQueryBuilder::set(const Measure& measure, const CostAtDepth& cost_at_depth, bool has_other_trees) {
    base_ = 0;
    for (std::size_t c = 0; c < columns_.numbers(); ++c) {
        const std::size_t a = columns_.attribute(c);
        low_[c] = static_cast<float>(measure.low(a));
        high_[c] = static_cast<float>(measure.high(a));
        base_ += measure.cost_per_unit() * (measure.high(a) - measure.low(a));
    }
    query_paths_.clear();
    steps_.clear();
    levels_.clear();
    for (std::size_t c = columns_.numbers(); c < columns_.paths_end(); ++c) {
        const std::size_t a = columns_.attribute(c);
        const std::int32_t ancestor = table_.tree(a)->common_depth(measure.low(a), measure.high(a));
        const auto first = static_cast<std::int32_t>(levels_.size());
        const std::vector<Field>& fields = columns_.fields(c);
        for (std::size_t f = 0; f < fields.size() && fields[f].depth < ancestor; ++f) {
            const bool is_last = f + 1 == fields.size() || fields[f + 1].depth >= ancestor;
            const Cost below = cost_at_depth(a, is_last ? ancestor : fields[f + 1].depth);
            steps_.push_back(cost_at_depth(a, fields[f].depth) - below);
            levels_.push_back({static_cast<float>(steps_.back()), (Code{1} << fields[f].shift) - 1});
        }
        base_ += cost_at_depth(a, ancestor);
        query_paths_.push_back({static_cast<std::int32_t>(c), columns_.value(c, measure.low(a)), first,
                                static_cast<std::int32_t>(levels_.size())});
    }
    leaf_costs_.clear();
    for (std::size_t c = columns_.paths_end(); has_other_trees && c < columns_.count(); ++c) {
        const std::size_t a = columns_.attribute(c);
        std::vector<float>& costs = other_costs_[c - columns_.paths_end()];
        costs.resize(table_.tree(a)->leaves());
        for (std::size_t leaf = 0; leaf < costs.size(); ++leaf) {
            costs[leaf] = static_cast<float>(measure.distance(a, static_cast<Code>(leaf)));
        }
        leaf_costs_.push_back({static_cast<std::int32_t>(c), costs.data()});
    }
    query_.base = static_cast<float>(base_);
    query_.weight = static_cast<float>(measure.cost_per_unit());
    query_.trees = static_cast<std::int32_t>(query_paths_.size());
    query_.other_trees = static_cast<std::int32_t>(leaf_costs_.size());
    query_.low = low_.data();
    query_.high = high_.data();
    query_.query_paths = query_paths_.data();
    query_.levels = levels_.data();
    query_.leaf_costs = leaf_costs_.data();
}

inline Cost ScanQueryBuilder::use_exact_unit() {
    if (columns_.paths_end() < columns_.count() || columns_.numbers() > 0) return 0;
    Cost unit = base_, largest = base_;
    for (const Cost step : steps_) {
        unit = std::gcd(unit, step);
        largest += step;
    }
    unit = std::max(unit, Cost{1});
    if (largest / unit >= Cost{1} << std::numeric_limits<float>::digits) return 0;
    for (std::size_t l = 0; l < steps_.size(); ++l) levels_[l].step = static_cast<float>(steps_[l] / unit);
    query_.base = static_cast<float>(base_ / unit);
    return unit;
}

}  // namespace dbanon
