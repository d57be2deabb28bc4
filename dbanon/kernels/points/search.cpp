// Compiled once per instruction set; DBANON_OPS names the table that this build exports,
// DBANON_WIDTHS the number of attributes up to which there is specialized code.
#include "points/search.hpp"

#include <limits>
#include <utility>

#include "points/coarse_search.hpp"
#include "points/exact.hpp"
#include "points/lanes.hpp"
#include "points/walk.hpp"

namespace {

using namespace dbanon;

// How a nearest search checks leaves and nodes: in doubles, or in integer steps first.
template <int P>
struct NearExact {
    static constexpr bool kRough = false;
    NearExact(const TreeView& over, Near& near) : tree(over), q(near) {}

    void leaf(std::int32_t at) { scan_block<P, true, false>(tree.leaves, at, q.point, &q, nullptr); }
    unsigned open(std::int32_t node, double* bound) const {
        Lanes sum[kFanParts];
        near_bounds<P>(tree, node, q.point, sum);
        unsigned mask = 0;
        for (int part = 0; part < kFanParts; ++part) {
            mask |= at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        return mask & tree.live[node];
    }

    const TreeView& tree;
    Near& q;
};

template <int P>
struct NearRough : NearExact<P> {
    static constexpr bool kRough = true;
    using NearExact<P>::q;
    using NearExact<P>::tree;
    NearRough(const TreeView& over, Near& near) : NearExact<P>(over, near), border(over.leaves) {}

    void leaf(std::int32_t at) {
        if (coarse_near<P>(tree.leaves, at, q, border)) q.doubts = kDoubts;
    }
    unsigned open(std::int32_t node, double* bound) {
        Lanes least[kFanParts];
        coarse_near_bounds<P>(tree, node, q.coarse, least);
        unsigned mask = 0;
        for (int part = 0; part < kFanParts; ++part) {
            mask |= at_most(least[part], Lanes::all(q.limit)) << (part * Lanes::width);
            least[part].store(bound + part * Lanes::width);
        }
        mask &= tree.live[node];
        if (q.doubts == 0 || mask == 0) return mask;
        unsigned left = NearExact<P>::open(node, bound);
        for (unsigned bits = left; bits != 0; bits &= bits - 1) {
            const int slot = __builtin_ctz(bits);
            if (bound[slot] == q.limit && first_of(tree, node, slot) > q.limit_id) {
                left &= ~(1u << slot);
            }
        }
        q.doubts = left == mask ? q.doubts - 1 : kDoubts;
        return left;
    }

    Border<P> border;
};

template <int P>
struct FarExact {
    static constexpr bool kRough = false;
    FarExact(const TreeView& over, Far& far) : tree(over), q(far) {}

    void leaf(std::int32_t at) { scan_block<P, false, true>(tree.leaves, at, q.point, nullptr, &q); }
    unsigned open(std::int32_t node, double* bound) const {
        Lanes sum[kFanParts];
        far_bounds<P>(tree, node, q, sum);
        unsigned mask = 0;
        for (int part = 0; part < kFanParts; ++part) {
            mask |= at_most(Lanes::all(q.best.distance), sum[part]) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        return mask & tree.live[node];
    }

    const TreeView& tree;
    Far& q;
};

template <int P>
struct FarRough : FarExact<P> {
    static constexpr bool kRough = true;
    using FarExact<P>::q;
    using FarExact<P>::tree;
    FarRough(const TreeView& over, Far& far) : FarExact<P>(over, far), border(over.leaves) {}

    void leaf(std::int32_t at) {
        if (coarse_far<P>(tree.leaves, at, q, border)) q.doubts = kDoubts;
    }
    unsigned open(std::int32_t node, double* bound) {
        if (tree.beyond[node] != 0) return FarExact<P>::open(node, bound);
        Lanes most[kFanParts];
        coarse_far_bounds<P>(tree, node, q.coarse, most);
        unsigned mask = 0;
        for (int part = 0; part < kFanParts; ++part) {
            mask |= at_most(Lanes::all(q.best.distance), most[part]) << (part * Lanes::width);
            most[part].store(bound + part * Lanes::width);
        }
        mask &= tree.live[node];
        if (q.doubts == 0 || mask == 0) return mask;
        unsigned left = FarExact<P>::open(node, bound);
        for (unsigned bits = left; bits != 0; bits &= bits - 1) {
            const int slot = __builtin_ctz(bits);
            if (bound[slot] == q.best.distance && first_of(tree, node, slot) > q.best.id) {
                left &= ~(1u << slot);
            }
        }
        q.doubts = left == mask ? q.doubts - 1 : kDoubts;
        return left;
    }

    Border<P> border;
};

// For fewer attributes there are no integer steps (Coarse::pays), so no code.
template <int P>
constexpr bool kSteps = P == 0 || P >= kMinCoarseAttributes;
// For more attributes integer steps are disabled if values are extreme, so one version serves all.
// Farthest searches check each clipped record in doubles, and have their own.
template <int P>
constexpr int kNearWidth = kSteps<P> ? 0 : P;

template <int P>
bool nearest(const TreeView& tree, Near& q, Work& work) {
    if constexpr (kSteps<P>) {
        if (q.coarse.at != nullptr) return walk<true, NearRough<P>>(tree, q, work);
    }
    return walk<true, NearExact<kNearWidth<P>>>(tree, q, work);
}

template <int P>
bool farthest(const TreeView& tree, Far& q, Work& work) {
    if constexpr (kSteps<P>) {
        if (q.coarse.inside) return walk<false, FarRough<P>>(tree, q, work);
    }
    return walk<false, FarExact<P>>(tree, q, work);
}

template <int P>
bool within(const TreeView& tree, Near& q, Work& work) {
    while (q.pending > 0 && q.count < q.k) {
        if (work.is_spent()) return false;
        const Pending top = q.stack[--q.pending];
        work.left -= block_cost(tree.leaves.p);
        if (top.ref < 0) {
            Lanes sum[kBlockParts<P>];
            block_distances<P>(tree.leaves, ~top.ref, q.point, sum);
            unsigned close = 0;
            for (int part = 0; part < kBlockParts<P>; ++part) {
                close |= at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            }
            close &= used_in(tree.leaves, ~top.ref);
            const std::int32_t* ids =
                tree.leaves.ids + static_cast<std::int64_t>(~top.ref) * block_size(P);
            for (; close != 0 && q.count < q.k; close &= close - 1) {
                q.found[q.count++] = {q.limit, ids[__builtin_ctz(close)]};
            }
            continue;
        }
        Lanes sum[kFanParts];
        near_bounds<P>(tree, top.ref, q.point, sum);
        double bound[kFanOut];
        unsigned open = 0;
        for (int part = 0; part < kFanParts; ++part) {
            open |= at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        open &= tree.live[top.ref];
        const std::int32_t base = q.pending;
        for (; open != 0; open &= open - 1) {
            const Pending entry = child_of(tree, top.ref, __builtin_ctz(open), bound);
            insert<true>(q, base, entry);
            fetch<false>(tree, entry.ref);
        }
    }
    return true;
}

template <int P>
void child_bounds(const TreeView& tree, std::int32_t node, const Far& far, double* out) {
    Lanes sum[kFanParts];
    far_bounds<P>(tree, node, far, sum);
    for (int part = 0; part < kFanParts; ++part) sum[part].store(out + part * Lanes::width);
}

template <int P>
void scan_near(const BlocksView& blocks, std::int32_t first, std::int32_t last, Near& near) {
    if constexpr (kSteps<P>) {
        if (near.coarse.at != nullptr) {
            Border<P> border(blocks);
            for (; first < last; ++first) coarse_near<P>(blocks, first, near, border);
            return;
        }
    }
    for (; first < last; ++first) {
        scan_block<kNearWidth<P>, true, false>(blocks, first, near.point, &near, nullptr);
    }
}

template <int P>
void scan_far(const BlocksView& blocks, std::int32_t first, std::int32_t last, Far& far) {
    if constexpr (kSteps<P>) {
        if (far.coarse.inside) {
            Border<P> border(blocks);
            for (; first < last; ++first) coarse_far<P>(blocks, first, far, border);
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
    if constexpr (kSteps<P>) {
        if (far.coarse.inside) {
            Border<P> near_border(blocks), far_border(blocks);
            for (; first < last; ++first) {
                coarse_both<P>(blocks, first, near, near_border, far, far_border);
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
            Lanes sum[kFanParts];
            for (int part = 0; part < kFanParts; ++part) sum[part] = Lanes::all(0.0);
            for (int j = 0; j < p; ++j) {
                const double* column = columns + std::int64_t{j} * stride;
                const Lanes at = Lanes::all(column[x]);
                for (int part = 0; part < kFanParts; ++part) {
                    const Lanes gap = at - Lanes::load(column + y + part * Lanes::width);
                    sum[part] = sum[part] + gap * gap;
                }
            }
            double* row = out + std::int64_t{x} * stride + y;
            for (int part = 0; part < kFanParts; ++part) sum[part].store(row + part * Lanes::width);
        }
    }
}

std::int32_t add_and_least(double* row, const double* gap, const double* bar,
                           std::int32_t stride) {
    Lanes least = Lanes::all(std::numeric_limits<double>::infinity());
    for (std::int32_t y = 0; y < stride; y += Lanes::width) {
        const Lanes sum = Lanes::load(row + y) + Lanes::load(gap + y);
        sum.store(row + y);
        least = min(least, sum + Lanes::load(bar + y));
    }
    double lane[Lanes::width];
    least.store(lane);
    double lowest = lane[0];
    for (int i = 1; i < Lanes::width; ++i) lowest = lane[i] < lowest ? lane[i] : lowest;
    for (std::int32_t y = 0; y < stride; y += Lanes::width) {
        const unsigned minima =
            at_most(Lanes::load(row + y) + Lanes::load(bar + y), Lanes::all(lowest));
        if (minima != 0) return y + __builtin_ctz(minima);
    }
    return 0;
}

#ifdef DBANON_WIDTHS
constexpr int kWidths = DBANON_WIDTHS;
#else
constexpr int kWidths = kMaxTemplatedAttributes;
#endif
// Blocks of few attributes have another size than those of slot 0.
static_assert(kWidths >= kMinCoarseAttributes - 1);

template <int P>
constexpr Ops kOps = {nearest<P>,   within<P>,   farthest<P>,  child_bounds<P>, scan_near<P>,
                      scan_far<P>,  scan_both<P>, pairwise<P>, add_and_least};

template <int... P>
const Ops* table(std::integer_sequence<int, P...>) {
    static constexpr Ops ops[] = {kOps<(P <= kWidths ? P : 0)>...};
    return ops;
}

}  // namespace

namespace dbanon {

const Ops* DBANON_OPS() { return table(std::make_integer_sequence<int, kMaxTemplatedAttributes + 1>{}); }

}  // namespace dbanon
