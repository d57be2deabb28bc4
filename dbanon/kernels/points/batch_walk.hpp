// Searches that walk the tree together: each part of it is read once for all searches that need it. In an
// anonymous namespace for the same reason as lanes.hpp.
//
// What the searches read at every node lies together in `words` (search.hpp), and boxes and codes decide by
// integers. A search keeps to the children that its own limit leaves, so limits should be near the final ones
// before. Records that codes do not rule out wait until their coordinates are in the cache.
//
// Codes. Rounded to the nearest code, each difference of a record is off by at most 1/2, and a point by the
// length that is known (`code_error`); the sum of products is at most 1/2 too large. Boxes are bounded as in
// coarse_search.hpp. Clipped records, and all for a clipped point, are checked in doubles by farthest searches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "points/coarse_search.hpp"
#include "points/walk.hpp"

namespace {

#if defined(__AVX512F__)
constexpr bool kHasBatches = true;

template <int P, class Exact, class Query>
class BatchWalk {
   public:
    static constexpr bool kIsNear = requires(Query q) { q.limit; };

    BatchWalk(const TreeView& view, Batch<Query>& searches)
        : tree(view),
          blocks(view.leaves),
          batch(searches),
          exact(view),
          per_step(1.0 / blocks.step),
          per_code(1.0 / blocks.code_step),
          code_slack(0.5 * std::sqrt(static_cast<double>(width<P>(blocks.p))) + 1e-3) {}

    [[gnu::target("avx512vnni")]] bool run(Work& work) {
        const std::int64_t cost = block_cost(blocks.p);
        for (std::int32_t i = 0; i < batch.count; ++i) fill(i);
        while (batch.pending > 0) {
            if (work.is_spent()) break;
            const PendingQueries top = batch.stack[--batch.pending];
            work.left -= (top.end - top.begin) * cost;
            if (gather_leaves(top.ref)) {
                if (batch.pending > 0) fetch_ids(batch.stack[batch.pending - 1].ref);
                scan(batch.entries + top.begin, batch.entries + top.end);
            } else {
                open(top);
            }
        }
        check_all();
        return batch.pending == 0;
    }

   private:
    struct Check {
        std::int32_t query, id;
    };
    static constexpr int kMaxChecks = 64;
    static constexpr std::int32_t kMost = 0x7fffffff;
    static constexpr int kScansAtOnce = 4;  // searches for which codes are loaded once (measured)
    static constexpr int kCodesAt = 3;  // in words; before are the thresholds of boxes (two words) and of codes

    int groups() const { return (width<P>(blocks.p) + 3) / 4; }
    int pairs() const { return (width<P>(blocks.p) + 1) / 2; }
    std::int32_t* words(std::int32_t query) const { return batch.words + std::int64_t{query} * batch.n_words; }
    static std::int32_t clamp(double x) {
        return x < -2147483000.0 ? -2147483647 : x > 2147483000.0 ? kMost : static_cast<std::int32_t>(std::floor(x));
    }

    void fill(std::int32_t query) {
        const CoarsePoint& point = batch.queries[query]->coarse;
        std::int32_t* to = words(query) + kCodesAt;
        const std::size_t size = static_cast<std::size_t>(pairs()) * sizeof(std::int32_t);
        std::memcpy(to, point.codes, static_cast<std::size_t>(groups()) * sizeof(std::int32_t));
        std::memcpy(to + groups(), kIsNear ? point.above : point.steps, size);
        std::memcpy(to + groups() + pairs(), kIsNear ? point.below : point.vertex, size);
        set_thresholds(query);
    }

    // Of sums of squared steps and of products of codes, for the search's limit.
    //
    // In codes, the distance of a record differs from the exact one by at most `slack`, the length of both
    // roundings; where codes are clipped it is smaller at most, since clipping moves no two points apart. With the
    // point's code_norm |q|^2, the sum for a record x is q.x - |x|^2 / 2, and so (|q|^2 - |q - x|^2) / 2, or up to
    // 1/2 more. Hence a record within the limit has at least the sum that belongs to `length`, and one as far as
    // the farthest so far at most that sum. The 3 covers the 1/2 and the rounding of this arithmetic.
    void set_thresholds(std::int32_t query) {
        const Query& q = *batch.queries[query];
        const double slack = q.coarse.code_error + code_slack;
        double box, sum;
        if constexpr (kIsNear) {
            const double length = std::sqrt(q.limit) * per_code * (1.0 + kRoundingMargin) + slack;
            box = q.limit * per_step * per_step * (1.0 + 2.0 * kRoundingMargin) + 1.0;
            sum = (q.coarse.code_norm - length * length) * 0.5 - 3.0;
        } else {
            const double squared = q.best.distance > 0.0 ? q.best.distance : 0.0;
            const double length = std::sqrt(squared) * per_code * (1.0 - kRoundingMargin) - slack;
            box = squared * per_step * per_step * (1.0 - 2.0 * kRoundingMargin) - 2.0 - q.coarse.slack;
            sum = length > 0.0 && q.coarse.is_unclipped ? (q.coarse.code_norm - length * length) * 0.5 + 3.0 : kMost;
        }
        std::int32_t* to = words(query);
        std::memcpy(to, &box, sizeof(box));
        to[2] = clamp(sum);
    }

    // The children that the search has to open, as bits.
    unsigned children(std::int32_t node, std::int32_t query) const {
        const std::int32_t* at = words(query);
        double threshold;
        std::memcpy(&threshold, at, sizeof(threshold));
        const std::int16_t* a = reinterpret_cast<const std::int16_t*>(at + kCodesAt + groups());
        const std::int16_t* b = a + 2 * pairs();
        const std::int16_t* faces = tree.coarse + std::int64_t{node} * pairs() * kFanOut * 4;
        Sums first = Sums::zero(), second = Sums::zero();
        for (int i = 0; i < pairs(); ++i, faces += kFanOut * 4) {
            const Pairs low = Pairs::load(faces);
            const Pairs high = Pairs::load(faces + kFanOut * 2);
            const Pairs above_or_point = Pairs::all(a + 2 * i);
            const Pairs below_or_vertex = Pairs::all(b + 2 * i);
            if constexpr (kIsNear) {
                first = first + squares(max(max(low - above_or_point, below_or_vertex - high), Pairs::zero()));
            } else {
                const Pairs x = min(max(below_or_vertex, low), high);
                first = first + squares(x - above_or_point);
                second = second + squares(x);
            }
        }
        const Lanes sum{_mm512_cvtepi32_pd(first.v)};
        if constexpr (kIsNear) {
            return lanes_at_most(sum, Lanes::all(threshold));
        } else {
            const Lanes bound = sum - Lanes::all(kReachMultiplier - 1.0 / 1024) * Lanes{_mm512_cvtepi32_pd(second.v)} +
                                Lanes::load(tree.coarse_reach + std::int64_t{node} * kFanOut);
            return lanes_at_most(Lanes::all(threshold), bound);
        }
    }

    // Distributes the searches of a node to its children. Each child's searches get room for all of them, above
    // those of this node.
    void open(const PendingQueries& top) {
        const std::int64_t count = top.end - top.begin;
        const std::int32_t* entries = batch.entries + top.begin;
        const unsigned live = tree.live_children[top.ref];
        for (std::int64_t i = 0; i < count; ++i) {
            const Query& q = *batch.queries[entries[i]];
            bool uses_steps = true;
            if constexpr (!kIsNear) uses_steps = tree.has_clipped[top.ref] == 0 && q.coarse.is_unclipped;
            double bound[kFanOut];
            batch.masks[i] = static_cast<std::int32_t>(
                live & (uses_steps ? children(top.ref, entries[i]) : exact.open(q, top.ref, bound)));
        }
        for (int slot = 0; slot < kFanOut; ++slot) {
            const std::int64_t begin = top.end + slot * count;
            std::int32_t* to = batch.entries + begin;
            for (std::int64_t i = 0; i < count; i += 16) {
                const __mmask16 used = static_cast<__mmask16>(count - i < 16 ? (1u << (count - i)) - 1 : 0xffffu);
                const __mmask16 opens = _mm512_mask_test_epi32_mask(used, _mm512_loadu_si512(batch.masks + i),
                                                                    _mm512_set1_epi32(1 << slot));
                _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(opens, _mm512_loadu_si512(entries + i)));
                to += __builtin_popcount(opens);
            }
            if (to == batch.entries + begin) continue;
            const std::int32_t ref = tree.links[std::int64_t{top.ref} * kLinksPerNode + slot];
            batch.stack[batch.pending++] = {ref, begin, to - batch.entries};
            if (ref >= 0) fetch<true>(tree, ref);
        }
    }

    // Sets the blocks to scan: a leaf, or all children of a node if all of them are leaves.
    bool gather_leaves(std::int32_t ref) {
        n_blocks = 0;
        has_clipped = false;
        if (ref < 0) {
            add_leaf(~ref);
            return true;
        }
        const std::int32_t* links = tree.links + std::int64_t{ref} * kLinksPerNode;
        for (unsigned live = tree.live_children[ref]; live != 0; live &= live - 1) {
            const std::int32_t child = links[__builtin_ctz(live)];
            if (child >= 0) return false;
            add_leaf(~child);
        }
        return true;
    }
    void add_leaf(std::int32_t leaf) {
        codes[n_blocks] = blocks.codes + std::int64_t{leaf} * (1 + groups()) * kBlock * 4;
        used[n_blocks] = static_cast<__mmask16>(used_lanes(blocks, leaf));
        has_clipped = has_clipped || blocks.has_clipped[leaf] != 0;
        number[n_blocks++] = leaf;
    }
    // With their codes it took longer: those are read in order.
    void fetch_ids(std::int32_t ref) const {
        if (ref < 0 || tree.links[std::int64_t{ref} * kLinksPerNode] >= 0) return;
        const std::int32_t* ids = blocks.ids + std::int64_t{~tree.links[std::int64_t{ref} * kLinksPerNode]} * kBlock;
        for (int leaf = 0; leaf < kFanOut; ++leaf) __builtin_prefetch(ids + leaf * kBlock);
    }

    // The sums of N searches, given by their words, for the records of a block.
    template <int N>
    [[gnu::target("avx512vnni")]] void products(const std::int32_t* const (&at)[N], int block,
                                                __m512i (&sum)[N]) const {
        for (int n = 0; n < N; ++n) sum[n] = _mm512_loadu_si512(codes[block]);
        for (int i = 0; i < groups(); ++i) {
            const __m512i four = _mm512_loadu_si512(codes[block] + (1 + i) * kBlock * 4);
            for (int n = 0; n < N; ++n) {
                sum[n] = _mm512_dpbusd_epi32(sum[n], _mm512_set1_epi32(at[n][kCodesAt + i]), four);
            }
        }
    }

    [[gnu::target("avx512vnni")]] void scan(const std::int32_t* query, const std::int32_t* end) {
        for (; end - query >= kScansAtOnce; query += kScansAtOnce) scan_at_once<kScansAtOnce>(query);
        for (; query < end; ++query) scan_at_once<1>(query);
    }

    template <int N>
    [[gnu::target("avx512vnni")]] void scan_at_once(const std::int32_t* query) {
        const std::int32_t* at[N];
        __m512i best[N];
        for (int n = 0; n < N; ++n) {
            at[n] = words(query[n]);
            best[n] = _mm512_set1_epi32(kIsNear ? -kMost : kMost);
        }
        for (int block = 0; block < n_blocks; ++block) {
            __m512i sum[N];
            products(at, block, sum);
            for (int n = 0; n < N; ++n) {
                best[n] = kIsNear ? _mm512_mask_max_epi32(best[n], used[block], best[n], sum[n])
                                  : _mm512_mask_min_epi32(best[n], used[block], best[n], sum[n]);
            }
        }
        for (int n = 0; n < N; ++n) {
            const __m512i limit = _mm512_set1_epi32(at[n][2]);
            const __mmask16 lanes =
                kIsNear ? _mm512_cmpgt_epi32_mask(best[n], limit) : _mm512_cmple_epi32_mask(best[n], limit);
            if (lanes != 0 || (!kIsNear && has_clipped)) collect(query[n]);
        }
    }

    // The records of these blocks that may matter to the search.
    [[gnu::target("avx512vnni"), gnu::noinline]] void collect(std::int32_t query) {
        Query& q = *batch.queries[query];
        const std::int32_t* at = words(query);
        const __m512i limit = _mm512_set1_epi32(at[2]);
        for (int block = 0; block < n_blocks; ++block) {
            if (is_visited(q, ~number[block])) continue;
            if constexpr (!kIsNear) {
                if (!q.coarse.is_unclipped || blocks.has_clipped[number[block]] != 0) {
                    scan_block<P, false, true>(blocks, number[block], q.point, nullptr, &q);
                    set_thresholds(query);
                    continue;
                }
            }
            __m512i sum[1];
            products({at}, block, sum);
            unsigned lanes = kIsNear ? _mm512_mask_cmpgt_epi32_mask(used[block], sum[0], limit)
                                     : _mm512_mask_cmple_epi32_mask(used[block], sum[0], limit);
            const std::int32_t* ids = blocks.ids + std::int64_t{number[block]} * kBlock;
            for (; lanes != 0; lanes &= lanes - 1) {
                if (n_checks == kMaxChecks) check_all();
                const std::int32_t id = ids[__builtin_ctz(lanes)];
                const double* row = blocks.rows + std::int64_t{id} * blocks.p;
                __builtin_prefetch(row);
                __builtin_prefetch(row + blocks.p - 1);
                checks[n_checks++] = {query, id};
            }
        }
    }

    void check_all() {
        for (int i = 0; i < n_checks; ++i) {
            Query& q = *batch.queries[checks[i].query];
            const double squared = distance_of<P>(blocks, checks[i].id, q.point);
            if constexpr (kIsNear) {
                const double before = q.limit;
                offer(q, squared, checks[i].id);
                if (q.limit != before) set_thresholds(checks[i].query);
            } else {
                const double before = q.best.distance;
                offer(q, squared, checks[i].id);
                if (q.best.distance != before) set_thresholds(checks[i].query);
            }
        }
        n_checks = 0;
    }

    const TreeView& tree;
    const BlocksView& blocks;
    Batch<Query>& batch;
    const Exact exact;
    const double per_step, per_code, code_slack;
    int n_blocks = 0, n_checks = 0;
    bool has_clipped = false;  // any of the blocks
    std::int32_t number[kFanOut];
    const std::int8_t* codes[kFanOut];
    __mmask16 used[kFanOut];
    Check checks[kMaxChecks];
};

template <int P, class Exact, class Query>
bool walk_together(const TreeView& tree, Batch<Query>& batch, Work& work) {
    return BatchWalk<P, Exact, Query>(tree, batch).run(work);
}
#else
constexpr bool kHasBatches = false;
template <int P, class Exact, class Query>
bool walk_together(const TreeView&, Batch<Query>&, Work&);
#endif

}  // namespace
