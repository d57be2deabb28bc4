// Compiled once per instruction set, with DBANON_LANES as the name of the table below.
#include "mixed/lanes.hpp"

namespace dbanon {

namespace {

using Code = std::int32_t;
using Cost = std::int64_t;

Code larger(Code a, Code b) { return a > b ? a : b; }
Code smaller(Code a, Code b) { return a < b ? a : b; }

template <int lanes>
void start(Cost base, Cost* __restrict costs_out) {
    for (int i = 0; i < lanes; ++i) costs_out[i] = base;
}

// The cost of a number at this distance outside: an unsigned product of 32 bits each, which every
// instruction set has.
template <NumberPenalty by>
Cost number(Code number_penalty, std::uint32_t weight) {
    const auto far = static_cast<std::uint32_t>(number_penalty);
    return static_cast<Cost>(std::uint64_t{far} * (by == NumberPenalty::kSquaredWidth ? far : weight));
}

template <NumberPenalty by>
void costs(const ClassQuery& to, const Code* __restrict columns, Cost* __restrict costs_out) {
    start<kLanes>(to.base, costs_out);
    for (int j = 0; j < to.numbers; ++j) {
        const Code* x = columns + j * kLanes;
        const Code low = to.low[j], high = to.high[j];
        for (int i = 0; i < kLanes; ++i) {
            costs_out[i] += number<by>(larger(larger(low - x[i], x[i] - high), 0), to.weight);
        }
    }
    for (int t = 0; t < to.trees; ++t) {
        const QueryPath in = to.query_paths[t];
        const Code* x = columns + in.column * kLanes;
        for (int l = in.first; l < in.last; ++l) {
            const Code shift = to.levels[l].shift;
            const Cost step = to.levels[l].step;
            for (int i = 0; i < kLanes; ++i) {
                costs_out[i] += ((x[i] ^ in.path) >> shift) != 0 ? step : 0;
            }
        }
    }
}

template <NumberPenalty by>
void lower_bounds(const ClassQuery& to, const Code* __restrict boxes,
              const std::uint64_t* __restrict masks, Cost* __restrict costs_out) {
    start<kBranches>(to.base, costs_out);
    for (int j = 0; j < to.numbers; ++j) {
        const Code *low = boxes + 2 * j * kBranches, *high = low + kBranches;
        const Code from = to.low[j], end = to.high[j];
        for (int i = 0; i < kBranches; ++i) {
            costs_out[i] += number<by>(larger(larger(low[i] - end, from - high[i]), 0), to.weight);
        }
    }
    for (int t = 0; t < to.trees; ++t) {
        const QueryPath in = to.query_paths[t];
        if (in.first == in.last) continue;
        const Code *low = boxes + 2 * in.column * kBranches, *high = low + kBranches;
        // The path separates at the nearest end of the box; inside the box the bound is 0.
        Code differs[kBranches], cost_at_depth[kBranches];
        for (int i = 0; i < kBranches; ++i) {
            const Code nearest = smaller(low[i] ^ in.path, high[i] ^ in.path);
            differs[i] = low[i] <= in.path && in.path <= high[i] ? 0 : nearest;
            cost_at_depth[i] = 0;
        }
        for (int l = in.first; l < in.last; ++l) {
            const Level level = to.levels[l];
            if (masks) {
                const std::uint64_t* mask = masks + level.mask * kBranches;
                for (int i = 0; i < kBranches; ++i) {
                    cost_at_depth[i] |= (mask[i] & level.bit) == 0 ? 1 : 0;
                }
            }
            for (int i = 0; i < kBranches; ++i) {
                cost_at_depth[i] |= differs[i] >> level.shift;
                costs_out[i] += cost_at_depth[i] != 0 ? level.step : 0;
            }
        }
    }
}

template <NumberPenalty by>
void upper_bounds(const ClassQuery& to, const Code* __restrict boxes, Cost* __restrict bounds_out) {
    start<kBranches>(to.base, bounds_out);
    for (int j = 0; j < to.numbers; ++j) {
        const Code *low = boxes + 2 * j * kBranches, *high = low + kBranches;
        const Code from = to.low[j], end = to.high[j];
        // A single tuple extends the class on one side only.
        for (int i = 0; i < kBranches; ++i) {
            bounds_out[i] += number<by>(larger(larger(from - low[i], high[i] - end), 0), to.weight);
        }
    }
    for (int t = 0; t < to.trees; ++t) {
        const QueryPath in = to.query_paths[t];
        const Code *low = boxes + 2 * in.column * kBranches, *high = low + kBranches;
        for (int l = in.first; l < in.last; ++l) {
            const Code shift = to.levels[l].shift;
            const Cost step = to.levels[l].step;
            for (int i = 0; i < kBranches; ++i) {
                const Code differs = (low[i] ^ in.path) | (high[i] ^ in.path);
                bounds_out[i] += differs >> shift != 0 ? step : 0;
            }
        }
    }
}

// Costs are sums of terms that are not negative, in the same order on all instruction sets.
template <NumberPenalty by>
void scan(const ScanQuery& to, const float* __restrict numbers, const Code* __restrict codes,
          float* __restrict costs_out, float* __restrict least_out, float* __restrict most_out) {
    for (int i = 0; i < kScanItems; ++i) costs_out[i] = 0;
    for (int j = 0; j < to.numbers; ++j) {
        const float* x = numbers + j * kScanItems;
        const float low = to.low[j], high = to.high[j];
        for (int i = 0; i < kScanItems; ++i) {
            const float below = low - x[i], above = x[i] - high;
            const float one_sided = below > above ? below : above;
            const float gap = one_sided > 0 ? one_sided : 0;
            costs_out[i] += by == NumberPenalty::kSquaredWidth ? gap * gap : gap;
        }
    }
    for (int i = 0; i < kScanItems; ++i) {
        costs_out[i] = (by == NumberPenalty::kSquaredWidth ? costs_out[i] : costs_out[i] * to.weight) + to.base;
    }
    for (int t = 0; t < to.trees; ++t) {
        const QueryPath in = to.query_paths[t];
        const Code* x = codes + (in.column - to.numbers) * kScanItems;
        for (int l = in.first; l < in.last; ++l) {
            const Code within = to.levels[l].within;
            const float step = to.levels[l].step;
            for (int i = 0; i < kScanItems; ++i) {
                costs_out[i] += (x[i] ^ in.path) > within ? step : 0.0F;
            }
        }
    }
    for (int t = 0; t < to.other_trees; ++t) {
        const Code* x = codes + (to.leaf_costs[t].column - to.numbers) * kScanItems;
        const float* costs = to.leaf_costs[t].costs;
        for (int i = 0; i < kScanItems; ++i) costs_out[i] += costs[x[i]];
    }
    for (int j = 0; j < kScanSubsets; ++j) least_out[j] = most_out[j] = costs_out[j];
    for (int i = kScanSubsets; i < kScanItems; i += kScanSubsets) {
        for (int j = 0; j < kScanSubsets; ++j) {
            const float cost = costs_out[i + j];
            least_out[j] = cost < least_out[j] ? cost : least_out[j];
            most_out[j] = cost > most_out[j] ? cost : most_out[j];
        }
    }
}

// The records of this class lose the width of the merged class, those of the other one the
// difference to their own width.
void scan_classes(const MergeQuery& to, const float* __restrict numbers, const Code* __restrict codes,
                  float* __restrict bounds_out, float* __restrict least_out) {
    const ScanQuery& widths = to.widths;
    for (int i = 0; i < kScanItems; ++i) bounds_out[i] = widths.base;
    for (int j = 0; j < widths.numbers; ++j) {
        const float *from = numbers + 2 * j * kScanItems, *end = from + kScanItems;
        const float low = widths.low[j], high = widths.high[j];
        for (int i = 0; i < kScanItems; ++i) {
            const float below = low - from[i], above = end[i] - high;
            bounds_out[i] += (below > 0 ? below : 0) + (above > 0 ? above : 0);
        }
    }
    for (int t = 0; t < widths.trees; ++t) {
        const QueryPath in = widths.query_paths[t];
        const Code *x = codes + 2 * t * kScanItems, *differences = x + kScanItems;
        for (int l = in.first; l < in.last; ++l) {
            const Code within = widths.levels[l].within;
            const float step = widths.levels[l].step;
            for (int i = 0; i < kScanItems; ++i) {
                bounds_out[i] += ((x[i] ^ in.path) | differences[i]) > within ? step : 0.0F;
            }
        }
    }
    const float *size = numbers + 2 * widths.numbers * kScanItems, *own_width = size + kScanItems;
    for (int i = 0; i < kScanItems; ++i) {
        const float width = bounds_out[i] * to.share - to.slack, growth = width - own_width[i];
        bounds_out[i] = to.size * width + size[i] * (growth > 0 ? growth : 0);
    }
    for (int t = 0; t < widths.other_trees; ++t) {
        const Code* x = codes + (2 * widths.trees + t) * kScanItems;
        const float* costs = widths.leaf_costs[t].costs;
        for (int i = 0; i < kScanItems; ++i) bounds_out[i] += costs[x[i]];
    }
    for (int j = 0; j < kScanSubsets; ++j) least_out[j] = bounds_out[j];
    for (int i = kScanSubsets; i < kScanItems; i += kScanSubsets) {
        for (int j = 0; j < kScanSubsets; ++j) {
            least_out[j] = bounds_out[i + j] < least_out[j] ? bounds_out[i + j] : least_out[j];
        }
    }
}

}  // namespace

extern const LaneOps DBANON_LANES[2];
const LaneOps DBANON_LANES[2] = {
    {costs<NumberPenalty::kWidth>, lower_bounds<NumberPenalty::kWidth>, upper_bounds<NumberPenalty::kWidth>,
     scan<NumberPenalty::kWidth>, scan_classes},
    {costs<NumberPenalty::kSquaredWidth>, lower_bounds<NumberPenalty::kSquaredWidth>, upper_bounds<NumberPenalty::kSquaredWidth>,
     scan<NumberPenalty::kSquaredWidth>, scan_classes},
};

}  // namespace dbanon
