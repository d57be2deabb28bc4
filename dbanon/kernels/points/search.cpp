// Compiled once per instruction set; DBANON_OPS names the table that this build exports,
// DBANON_WIDTHS the number of attributes up to which there is specialized code.
#include "points/search.hpp"

#include <limits>
#include <utility>

#include "points/batch_walk.hpp"
#include "points/coarse_search.hpp"
#include "points/exact.hpp"
#include "points/lanes.hpp"
#include "points/walk.hpp"

namespace {

using namespace dbanon;

// How a nearest search checks leaves and nodes: in doubles, or in integer steps first.
template <int P>
struct NearExact {
    static constexpr bool kUseCoarse = false;
    explicit NearExact(const TreeView& view) : tree(view) {}

    void leaf(Near& q, std::int32_t block) const {
        scan_block<P, true, false>(tree.leaves, block, q.point, &q, nullptr);
    }
    unsigned open(const Near& q, std::int32_t node, double* bound) const {
        Lanes sum[kFanOutParts];
        near_bounds<P>(tree, node, q.point, sum);
        unsigned mask = 0;
        for (int part = 0; part < kFanOutParts; ++part) {
            mask |= lanes_at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        return mask & tree.live_children[node];
    }

    const TreeView& tree;
};

template <int P>
struct NearCoarse : NearExact<P> {
    static constexpr bool kUseCoarse = true;
    using NearExact<P>::tree;
    explicit NearCoarse(const TreeView& view) : NearExact<P>(view), threshold(view.leaves) {}

    void leaf(Near& q, std::int32_t block) const {
        if (coarse_near<P>(tree.leaves, block, q, threshold)) q.nodes_to_recheck = kNodesToRecheck;
    }
    unsigned open(Near& q, std::int32_t node, double* bound) const {
        Lanes least[kFanOutParts];
        coarse_near_bounds<P>(tree, node, q.coarse, least);
        unsigned mask = 0;
        for (int part = 0; part < kFanOutParts; ++part) {
            mask |= lanes_at_most(least[part], Lanes::all(q.limit)) << (part * Lanes::width);
            least[part].store(bound + part * Lanes::width);
        }
        mask &= tree.live_children[node];
        if (q.nodes_to_recheck == 0 || mask == 0) return mask;
        unsigned left = NearExact<P>::open(q, node, bound);
        for (unsigned bits = left; bits != 0; bits &= bits - 1) {
            const int slot = __builtin_ctz(bits);
            if (bound[slot] == q.limit && first_id_of(tree, node, slot) > q.limit_id) {
                left &= ~(1u << slot);
            }
        }
        q.nodes_to_recheck = left == mask ? q.nodes_to_recheck - 1 : kNodesToRecheck;
        return left;
    }

    CheckThreshold<P> threshold;
};

template <int P>
struct FarExact {
    static constexpr bool kUseCoarse = false;
    explicit FarExact(const TreeView& view) : tree(view) {}

    void leaf(Far& q, std::int32_t block) const {
        scan_block<P, false, true>(tree.leaves, block, q.point, nullptr, &q);
    }
    unsigned open(const Far& q, std::int32_t node, double* bound) const {
        Lanes sum[kFanOutParts];
        far_bounds<P>(tree, node, q, sum);
        unsigned mask = 0;
        for (int part = 0; part < kFanOutParts; ++part) {
            mask |= lanes_at_most(Lanes::all(q.best.distance), sum[part]) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        return mask & tree.live_children[node];
    }

    const TreeView& tree;
};

template <int P>
struct FarCoarse : FarExact<P> {
    static constexpr bool kUseCoarse = true;
    using FarExact<P>::tree;
    explicit FarCoarse(const TreeView& view) : FarExact<P>(view), threshold(view.leaves) {}

    void leaf(Far& q, std::int32_t block) const {
        if (coarse_far<P>(tree.leaves, block, q, threshold)) q.nodes_to_recheck = kNodesToRecheck;
    }
    unsigned open(Far& q, std::int32_t node, double* bound) const {
        if (!q.coarse.is_unclipped || tree.has_clipped[node] != 0) return FarExact<P>::open(q, node, bound);
        Lanes most[kFanOutParts];
        coarse_far_bounds<P>(tree, node, q.coarse, most);
        unsigned mask = 0;
        for (int part = 0; part < kFanOutParts; ++part) {
            mask |= lanes_at_most(Lanes::all(q.best.distance), most[part]) << (part * Lanes::width);
            most[part].store(bound + part * Lanes::width);
        }
        mask &= tree.live_children[node];
        if (q.nodes_to_recheck == 0 || mask == 0) return mask;
        unsigned left = FarExact<P>::open(q, node, bound);
        for (unsigned bits = left; bits != 0; bits &= bits - 1) {
            const int slot = __builtin_ctz(bits);
            if (bound[slot] == q.best.distance && first_id_of(tree, node, slot) > q.best.id) {
                left &= ~(1u << slot);
            }
        }
        q.nodes_to_recheck = left == mask ? q.nodes_to_recheck - 1 : kNodesToRecheck;
        return left;
    }

    CheckThreshold<P> threshold;
};

// For fewer attributes there are no integer steps (Coarse::pays), so no code.
template <int P>
constexpr bool kHasCoarse = P == 0 || P >= kMinCoarseAttributes;
// For more attributes integer steps are disabled if values are extreme, so one version serves all.
// Farthest searches check each clipped record in doubles, and have their own.
template <int P>
constexpr int kNearSpecialization = kHasCoarse<P> ? 0 : P;

template <int P>
bool nearest(const TreeView& tree, Near& q, Work& work) {
    if constexpr (kHasCoarse<P>) {
        if (q.coarse.steps != nullptr) return walk<true, NearCoarse<P>>(tree, q, work);
    }
    return walk<true, NearExact<kNearSpecialization<P>>>(tree, q, work);
}

template <int P>
bool farthest(const TreeView& tree, Far& q, Work& work) {
    if constexpr (kHasCoarse<P>) {
        if (q.coarse.is_unclipped) return walk<false, FarCoarse<P>>(tree, q, work);
    }
    return walk<false, FarExact<P>>(tree, q, work);
}

template <int P, template <int> class Exact, class Query>
constexpr auto walk_of_batch() -> bool (*)(const TreeView&, Batch<Query>&, Work&) {
    if constexpr (kHasBatches && kHasCoarse<P>) {
        return walk_together<P, Exact<P>, Query>;
    } else {
        return nullptr;
    }
}

template <int P>
bool within(const TreeView& tree, Near& q, Work& work) {
    while (q.pending > 0 && q.count < q.k) {
        if (work.is_spent()) return false;
        const PendingNode top = q.stack[--q.pending];
        work.left -= block_cost(tree.leaves.p);
        if (top.ref < 0) {
            Lanes sum[kBlockParts<P>];
            block_distances<P>(tree.leaves, ~top.ref, q.point, sum);
            unsigned close = 0;
            for (int part = 0; part < kBlockParts<P>; ++part) {
                close |= lanes_at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            }
            close &= used_lanes(tree.leaves, ~top.ref);
            const std::int32_t* ids =
                tree.leaves.ids + static_cast<std::int64_t>(~top.ref) * block_records(P);
            for (; close != 0 && q.count < q.k; close &= close - 1) {
                q.results[q.count++] = {q.limit, ids[__builtin_ctz(close)]};
            }
            continue;
        }
        Lanes sum[kFanOutParts];
        near_bounds<P>(tree, top.ref, q.point, sum);
        double bound[kFanOut];
        unsigned open = 0;
        for (int part = 0; part < kFanOutParts; ++part) {
            open |= lanes_at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        open &= tree.live_children[top.ref];
        const std::int32_t base = q.pending;
        for (; open != 0; open &= open - 1) {
            const PendingNode entry = pending_child(tree, top.ref, __builtin_ctz(open), bound);
            insert<true>(q, base, entry);
            fetch<false>(tree, entry.ref);
        }
    }
    return true;
}

template <int P>
void child_bounds(const TreeView& tree, std::int32_t node, const Far& far, double* out) {
    Lanes sum[kFanOutParts];
    far_bounds<P>(tree, node, far, sum);
    for (int part = 0; part < kFanOutParts; ++part) sum[part].store(out + part * Lanes::width);
}

template <int P>
void scan_near(const BlocksView& blocks, std::int32_t first, std::int32_t last, Near& near) {
    if constexpr (kHasCoarse<P>) {
        if (near.coarse.steps != nullptr) {
            const CheckThreshold<P> threshold(blocks);
            for (; first < last; ++first) coarse_near<P>(blocks, first, near, threshold);
            return;
        }
    }
    for (; first < last; ++first) {
        scan_block<kNearSpecialization<P>, true, false>(blocks, first, near.point, &near, nullptr);
    }
}

template <int P>
void scan_far(const BlocksView& blocks, std::int32_t first, std::int32_t last, Far& far) {
    if constexpr (kHasCoarse<P>) {
        if (far.coarse.is_unclipped) {
            const CheckThreshold<P> threshold(blocks);
            for (; first < last; ++first) coarse_far<P>(blocks, first, far, threshold);
            return;
        }
    }
    for (; first < last; ++first) {
        scan_block<P, false, true>(blocks, first, far.point, nullptr, &far);
    }
}

template <int P>
void scan_both(const BlocksView& blocks, std::int32_t first, std::int32_t last, Near& near,
               Far& far) {
    if constexpr (kHasCoarse<P>) {
        if (far.coarse.is_unclipped) {
            const CheckThreshold<P> threshold(blocks);
            for (; first < last; ++first) {
                coarse_both<P>(blocks, first, near, far, threshold);
            }
            return;
        }
    }
    for (; first < last; ++first) {
        scan_block<P, true, true>(blocks, first, near.point, &near, &far);
    }
}

template <int P>
void pairwise(const double* columns, int attributes, std::int32_t m, std::int32_t stride,
              double* out) {
    const int p = width<P>(attributes);
    for (std::int32_t x = 0; x < m; ++x) {
        for (std::int32_t y = 0; y < stride; y += kFanOut) {
            Lanes sum[kFanOutParts];
            for (int part = 0; part < kFanOutParts; ++part) sum[part] = Lanes::all(0.0);
            for (int j = 0; j < p; ++j) {
                const double* column = columns + std::int64_t{j} * stride;
                const Lanes x_values = Lanes::all(column[x]);
                for (int part = 0; part < kFanOutParts; ++part) {
                    const Lanes gap = x_values - Lanes::load(column + y + part * Lanes::width);
                    sum[part] = sum[part] + gap * gap;
                }
            }
            double* row = out + std::int64_t{x} * stride + y;
            for (int part = 0; part < kFanOutParts; ++part) sum[part].store(row + part * Lanes::width);
        }
    }
}

std::int32_t add_and_find_least(double* row, const double* gap, const double* penalty,
                           std::int32_t stride) {
    Lanes least = Lanes::all(std::numeric_limits<double>::infinity());
    for (std::int32_t y = 0; y < stride; y += Lanes::width) {
        const Lanes sum = Lanes::load(row + y) + Lanes::load(gap + y);
        sum.store(row + y);
        least = min(least, sum + Lanes::load(penalty + y));
    }
    double lane[Lanes::width];
    least.store(lane);
    double lowest = lane[0];
    for (int i = 1; i < Lanes::width; ++i) lowest = lane[i] < lowest ? lane[i] : lowest;
    for (std::int32_t y = 0; y < stride; y += Lanes::width) {
        const unsigned minima =
            lanes_at_most(Lanes::load(row + y) + Lanes::load(penalty + y), Lanes::all(lowest));
        if (minima != 0) return y + __builtin_ctz(minima);
    }
    return 0;
}

#ifdef DBANON_WIDTHS
constexpr int kSpecializedWidths = DBANON_WIDTHS;
#else
constexpr int kSpecializedWidths = kMaxTemplatedAttributes;
#endif
// Blocks of few attributes have another size than those of slot 0.
static_assert(kSpecializedWidths >= kMinCoarseAttributes - 1);

template <int P>
constexpr Ops kOps = {nearest<P>, within<P>, farthest<P>, walk_of_batch<P, NearExact, Near>(),
                      walk_of_batch<P, FarExact, Far>(), child_bounds<P>, scan_near<P>, scan_far<P>,
                      scan_both<P>, pairwise<P>, add_and_find_least};

template <int... P>
const Ops* table(std::integer_sequence<int, P...>) {
    static constexpr Ops ops[] = {kOps<(P <= kSpecializedWidths ? P : 0)>...};
    return ops;
}

}  // namespace

namespace dbanon {

const Ops* DBANON_OPS() { return table(std::make_integer_sequence<int, kMaxTemplatedAttributes + 1>{}); }

}  // namespace dbanon
