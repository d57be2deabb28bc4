// Prefilters blocks and boxes in integer steps; exact.hpp checks the remaining ones.
//
// Coordinates and point are rounded to the nearest step, so that each difference is off by at most 1
// and the length of all by at most the root of p; 1e-3 of a step more and 1e-9 of each length are
// above the errors of rounding doubles. Boxes hold the rounded coordinates of their records, hence a
// gap to a face less 1 is not too long and one more 1 not too short.
//
// For the bound by the reach (see search.hpp), with Q, x in steps from the middle, t = m - 1: the term
// (x - Q)^2 - m x^2 is concave in x and largest at -Q/t. The x taken, the rounded -Q/t clamped to the box's
// whole steps, is within 2 of the true place (1/2 of the face, 1/2 / t + 1/2 of the vertex), where the
// slope is at most 2 |Q + t x|, and half a step of Q changes it by |Q| + |x| + 1/4: in all less than
// 5 |Q| + 3.4 |x| + 3. Summed, root p (5 |Q| + 3.4 |x|) + 3 p by Cauchy and Schwarz; the part of
// x is at most |x|^2 / 1024 + 2960 p, taken off the multiplier.
#pragma once

#include <cmath>

#include "points/coarse_lanes.hpp"
#include "points/exact.hpp"

namespace {

constexpr int kBlockSums = kBlock / Pairs::width;
constexpr int kFanOutSums = kFanOut / Pairs::width;
constexpr double kRoundingMargin = 1e-9;
// From this number of candidate records on, checking the complete block in doubles is faster.
constexpr int kMinBlockCheck = 5;
// If boxes differ by less than a step, doubles can prune more than integer steps. They are used after a
// leaf without results, and for this number of nodes after each success.
constexpr std::int32_t kNodesToRecheck = 64;

// The lengths in steps, or in codes, that records need for an exact check. Without always_inline MDAV took a
// twentieth longer (clustered, 400,000 records of 10).
struct CheckLengths {
    CheckLengths(double step, int p)
        : per_step(1.0 / step), slack(std::sqrt(static_cast<double>(p)) * (1.0 + kRoundingMargin) + 1e-3) {}

    // The largest length of a record within the squared distance.
    [[gnu::always_inline]] double longest(double squared) const {
        return std::sqrt(squared) * per_step * (1.0 + kRoundingMargin) + slack;
    }
    // The least length of a record beyond the squared distance; 0 or less for any length.
    [[gnu::always_inline]] double shortest(double squared) const {
        return squared > 0.0 ? std::sqrt(squared) * per_step * (1.0 - kRoundingMargin) - slack : 0.0;
    }

    double per_step, slack;
};

// The largest sum in steps for which a record needs an exact check.
template <int P>
struct CheckThreshold {
    explicit CheckThreshold(const BlocksView& blocks) : lengths(blocks.step, width<P>(blocks.p)) {}

    std::int32_t near(Near& q) const {
        CoarsePoint& point = q.coarse;
        if (q.limit != point.threshold_of) {
            point.threshold_of = q.limit;
            const double length = lengths.longest(q.limit);
            point.threshold = length < 46340.0 ? static_cast<std::int32_t>(length * length) + 1 : kAll;
        }
        return point.threshold;
    }
    // One below the least.
    std::int32_t far(Far& q) const {
        CoarsePoint& point = q.coarse;
        if (q.best.distance != point.threshold_of) {
            point.threshold_of = q.best.distance;
            const double length = lengths.shortest(q.best.distance);
            point.threshold = length <= 0.0      ? -1
                              : length < 46340.0 ? static_cast<std::int32_t>(length * length) - 1
                                                 : kAll;
        }
        return point.threshold;
    }

    static constexpr std::int32_t kAll = 0x7fffffff;
    CheckLengths lengths;
};

template <int P>
void coarse_distances(const BlocksView& blocks, std::int32_t block, const CoarsePoint& point,
                      Sums (&sum)[kBlockSums]) {
    const int pairs = (width<P>(blocks.p) + 1) / 2;
    const std::int16_t* at = blocks.coarse + std::int64_t{block} * pairs * kBlock * 2;
    for (int part = 0; part < kBlockSums; ++part) sum[part] = Sums::zero();
    for (int i = 0; i < pairs; ++i) {
        const Pairs q = Pairs::all(point.steps + 2 * i);
        for (int part = 0; part < kBlockSums; ++part) {
            const Pairs x = Pairs::load(at + (i * kBlock + part * Pairs::width) * 2);
            sum[part] = sum[part] + squares(x - q);
        }
    }
}

template <int P>
double distance_of(const BlocksView& blocks, std::int32_t id, const double* point) {
    const int p = width<P>(blocks.p);
    const double* row = blocks.rows + std::int64_t{id} * p;
    double sum = 0.0;
    for (int j = 0; j < p; ++j) {
        const double gap = point[j] - row[j];
        sum += gap * gap;
    }
    return sum;
}

// Returns whether many exact checks were unnecessary.
template <int P>
bool check_near(const BlocksView& blocks, std::int32_t block, unsigned close, Near& near) {
    const double before = near.limit;
    const bool many = __builtin_popcount(close) >= kMinBlockCheck;
    if (many) {
        scan_block<P, true, false>(blocks, block, near.point, &near, nullptr);
    } else {
        const std::int32_t* ids = blocks.ids + std::int64_t{block} * block_records(P);
        for (; close != 0; close &= close - 1) {
            const std::int32_t id = ids[__builtin_ctz(close)];
            offer(near, distance_of<P>(blocks, id, near.point), id);
        }
    }
    return many && near.count == near.k && near.limit == before;
}

template <int P>
bool check_far(const BlocksView& blocks, std::int32_t block, unsigned distant, Far& far) {
    const double before = far.best.distance;
    const bool many = __builtin_popcount(distant) >= kMinBlockCheck;
    if (many) {
        scan_block<P, false, true>(blocks, block, far.point, nullptr, &far);
    } else {
        const std::int32_t* ids = blocks.ids + std::int64_t{block} * block_records(P);
        for (; distant != 0; distant &= distant - 1) {
            const std::int32_t id = ids[__builtin_ctz(distant)];
            offer(far, distance_of<P>(blocks, id, far.point), id);
        }
    }
    return many && far.best.distance == before;
}

inline unsigned above(const Sums (&sum)[kBlockSums], std::int32_t threshold) {
    unsigned mask = 0;
    for (int part = 0; part < kBlockSums; ++part) {
        mask |= Sums::above(sum[part], threshold) << (part * Pairs::width);
    }
    return mask;
}

// The records of the block that may be near enough.
template <int P>
bool coarse_near(const BlocksView& blocks, std::int32_t block, Near& near, const CheckThreshold<P>& threshold) {
    Sums sum[kBlockSums];
    coarse_distances<P>(blocks, block, near.coarse, sum);
    const unsigned used = used_lanes(blocks, block);
    const unsigned close = ~above(sum, threshold.near(near)) & used;
    return close != 0 && check_near<P>(blocks, block, close, near);
}

template <int P>
bool coarse_far(const BlocksView& blocks, std::int32_t block, Far& far, const CheckThreshold<P>& threshold) {
    const unsigned used = used_lanes(blocks, block);
    unsigned distant = used;
    if (far.coarse.is_unclipped && blocks.has_clipped[block] == 0) {
        Sums sum[kBlockSums];
        coarse_distances<P>(blocks, block, far.coarse, sum);
        distant &= above(sum, threshold.far(far));
    }
    return distant != 0 && check_far<P>(blocks, block, distant, far);
}

// Both queries for the same point.
template <int P>
void coarse_both(const BlocksView& blocks, std::int32_t block, Near& near, Far& far,
                 const CheckThreshold<P>& threshold) {
    Sums sum[kBlockSums];
    coarse_distances<P>(blocks, block, near.coarse, sum);
    const unsigned used = used_lanes(blocks, block);
    const unsigned close = ~above(sum, threshold.near(near)) & used;
    unsigned distant = used;
    if (blocks.has_clipped[block] == 0) distant &= above(sum, threshold.far(far));
    if (close != 0) check_near<P>(blocks, block, close, near);
    if (distant != 0) check_far<P>(blocks, block, distant, far);
}

// Lower bounds of the squared distances to the children's records, in doubles. Like the next one it
// stays a separate function: inlined into a walk it took a twentieth longer.
template <int P>
[[gnu::noinline]] void coarse_near_bounds(const TreeView& tree, std::int32_t node,
                                          const CoarsePoint& point, Lanes (&out)[kFanOutParts]) {
    const int pairs = (width<P>(tree.leaves.p) + 1) / 2;
    const std::int16_t* at = tree.coarse + std::int64_t{node} * pairs * kFanOut * 4;
    Sums sum[kFanOutSums];
    for (int part = 0; part < kFanOutSums; ++part) sum[part] = Sums::zero();
    for (int i = 0; i < pairs; ++i, at += kFanOut * 4) {
        const Pairs over = Pairs::all(point.above + 2 * i);
        const Pairs under = Pairs::all(point.below + 2 * i);
        for (int part = 0; part < kFanOutSums; ++part) {
            const Pairs low = Pairs::load(at + part * Pairs::width * 2);
            const Pairs high = Pairs::load(at + kFanOut * 2 + part * Pairs::width * 2);
            sum[part] = sum[part] + squares(max(max(low - over, under - high), Pairs::zero()));
        }
    }
    std::int32_t whole[kFanOut];
    for (int part = 0; part < kFanOutSums; ++part) sum[part].store(whole + part * Pairs::width);
    const Lanes unit = Lanes::all(tree.leaves.step * tree.leaves.step * (1.0 - kRoundingMargin));
    for (int part = 0; part < kFanOutParts; ++part) {
        out[part] = Lanes::load(whole + part * Lanes::width) * unit;
    }
}

// Upper bounds of the squared distances to the children's records; no record may be clipped.
template <int P>
[[gnu::noinline]] void coarse_far_bounds(const TreeView& tree, std::int32_t node,
                                         const CoarsePoint& point, Lanes (&out)[kFanOutParts]) {
    const int pairs = (width<P>(tree.leaves.p) + 1) / 2;
    const std::int16_t* at = tree.coarse + std::int64_t{node} * pairs * kFanOut * 4;
    Sums corner[kFanOutSums], from_point[kFanOutSums], from_middle[kFanOutSums];
    for (int part = 0; part < kFanOutSums; ++part) {
        corner[part] = from_point[part] = from_middle[part] = Sums::zero();
    }
    for (int i = 0; i < pairs; ++i, at += kFanOut * 4) {
        const Pairs q = Pairs::all(point.steps + 2 * i);
        const Pairs over = Pairs::all(point.above + 2 * i);
        const Pairs under = Pairs::all(point.below + 2 * i);
        const Pairs vertex = Pairs::all(point.vertex + 2 * i);
        for (int part = 0; part < kFanOutSums; ++part) {
            const Pairs low = Pairs::load(at + part * Pairs::width * 2);
            const Pairs high = Pairs::load(at + kFanOut * 2 + part * Pairs::width * 2);
            corner[part] = corner[part] + squares(max(over - low, high - under));
            const Pairs x = min(max(vertex, low), high);
            from_point[part] = from_point[part] + squares(x - q);
            from_middle[part] = from_middle[part] + squares(x);
        }
    }
    std::int32_t whole[3][kFanOut];
    for (int part = 0; part < kFanOutSums; ++part) {
        corner[part].store(whole[0] + part * Pairs::width);
        from_point[part].store(whole[1] + part * Pairs::width);
        from_middle[part].store(whole[2] + part * Pairs::width);
    }
    const double* reach = tree.coarse_reach + std::int64_t{node} * kFanOut;
    for (int part = 0; part < kFanOutParts; ++part) {
        const int at = part * Lanes::width;
        const Lanes inner = Lanes::load(whole[1] + at) -
                            Lanes::all(kReachMultiplier - 1.0 / 1024) * Lanes::load(whole[2] + at) +
                            Lanes::load(reach + at) + Lanes::all(point.slack);
        const Lanes steps = min(inner, Lanes::load(whole[0] + at));
        out[part] = (steps * Lanes::all(1.0 + kRoundingMargin) + Lanes::all(1.0)) *
                    Lanes::all(tree.leaves.step * tree.leaves.step);
    }
}

}  // namespace
