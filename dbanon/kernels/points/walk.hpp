// The tree walk shared by nearest and farthest searches: the most promising child first. In an
// anonymous namespace for the same reason as lanes.hpp.
//
// Memory is slower than arithmetic, and the next child is only known at the end of a node. Hence
// children are prefetched as soon as they are known, and leaves wait in a FIFO queue while other
// nodes are opened. A leaf's bound is checked again before its visit. The result does not depend on
// the order: children are only skipped by their bounds.
#pragma once

#include "points/search.hpp"

namespace {

using namespace dbanon;

// Number of cache lines to prefetch.
constexpr int kPrefetchedLines = 8;

// Among equal bounds the one with the smallest record comes first: after it, ties end the search.
template <bool Nearest>
bool is_more_promising(const PendingNode& a, const PendingNode& b) {
    if (a.bound != b.bound) return Nearest ? a.bound < b.bound : a.bound > b.bound;
    return a.first_id < b.first_id;
}

// Whether no record below can be in the result.
inline bool cannot_improve(const Near& q, const PendingNode& at) {
    return at.bound > q.limit || (at.bound == q.limit && at.first_id > q.limit_id);
}
inline bool cannot_improve(const Far& q, const PendingNode& at) {
    return at.bound < q.best.distance || (at.bound == q.best.distance && at.first_id > q.best.id);
}

// Whether there is no result yet that could prune.
inline bool has_no_bound(const Near& q) { return q.count < q.k; }
inline bool has_no_bound(const Far& q) { return q.best.id < 0; }

inline PendingNode pending_child(const TreeView& tree, std::int32_t node, int slot, const double* bound) {
    return {bound[slot], tree.links[node * kLinksPerNode + slot], first_id_of(tree, node, slot)};
}

// Prefetches the data of a child.
template <bool UseCoarse>
void fetch(const TreeView& tree, std::int32_t ref) {
    const int p = tree.leaves.p;
    const std::int64_t at = ref < 0 ? ~ref : ref;
    const char* from;
    int size;
    if constexpr (UseCoarse) {
        size = (p + 1) / 2 * (ref < 0 ? 2 * kBlock : 4 * kFanOut);
        const std::int16_t* steps = ref < 0 ? tree.leaves.coarse : tree.coarse;
        from = reinterpret_cast<const char*>(steps + at * size);
        size *= sizeof(std::int16_t);
    } else {
        size = ref < 0 ? p * block_records(p) : (2 * p + 1) * kFanOut;
        const double* numbers = ref < 0 ? tree.leaves.points : tree.boxes;
        from = reinterpret_cast<const char*>(numbers + at * size);
        size *= sizeof(double);
    }
    const int lines = size / 64 < kPrefetchedLines ? size / 64 : kPrefetchedLines;
    for (int line = 0; line < lines; ++line) __builtin_prefetch(from + line * 64);
    if (ref >= 0) __builtin_prefetch(tree.links + at * kLinksPerNode);
}

// Inserts a child into the stack from `base`, most promising on top.
template <bool Nearest, class Query>
void insert(Query& q, std::int32_t base, const PendingNode& entry) {
    std::int32_t at = q.pending++;
    for (; at > base && is_more_promising<Nearest>(q.stack[at - 1], entry); --at) {
        q.stack[at] = q.stack[at - 1];
    }
    q.stack[at] = entry;
}

// Queue of leaves to visit.
class LeafQueue {
   public:
    unsigned count() const { return count_; }
    void add(const PendingNode& leaf) { at(count_++) = leaf; }
    // Inserts a leaf before less promising ones, but after the first `old` ones.
    void add_nearest(const PendingNode& leaf, unsigned old) {
        unsigned to = count_++;
        for (; to > old && is_more_promising<true>(leaf, at(to - 1)); --to) at(to) = at(to - 1);
        at(to) = leaf;
    }
    PendingNode take() {
        const PendingNode leaf = entry_[first_];
        first_ = (first_ + 1) % kQueueCapacity;
        --count_;
        return leaf;
    }

   private:
    PendingNode& at(unsigned i) { return entry_[(first_ + i) % kQueueCapacity]; }

    PendingNode entry_[kQueueCapacity];
    unsigned first_ = 0, count_ = 0;
};

// The number of leaves that may wait when the next node is opened, tuned on 1,000,000 records of 4
// and 10 attributes. Nearest searches visit leaves earlier, since each visit may reduce the limit.
template <bool Nearest, bool UseCoarse>
constexpr unsigned kQueuedLeaves = Nearest ? (UseCoarse ? 2 : 1) : (UseCoarse ? 4 : 3);

// `Visitor` defines how to visit leaves and open nodes. Returns false when the slice is spent.
template <bool Nearest, class Visitor, class Query>
bool walk(const TreeView& tree, Query& q, Work& work) {
    constexpr unsigned left = kQueuedLeaves<Nearest, Visitor::kUseCoarse>;
    static_assert(left + kFanOut <= kQueueCapacity);
    const std::int64_t cost = block_cost(tree.leaves.p);
    const Visitor look(tree);
    LeafQueue waiting;
    const auto scan = [&] {
        const PendingNode leaf = waiting.take();
        if (cannot_improve(q, leaf)) return;
        work.left -= cost;
        look.leaf(q, ~leaf.ref);
    };
    while (q.pending > 0 || waiting.count() > 0) {
        if (work.is_spent()) {
            while (waiting.count() > 0) q.stack[q.pending++] = waiting.take();
            return false;
        }
        if (q.pending == 0) {
            scan();
            continue;
        }
        const PendingNode top = q.stack[--q.pending];
        if (cannot_improve(q, top)) continue;
        if (top.ref < 0) {  // pushed when a slice was spent
            waiting.add(top);
            scan();
            continue;
        }
        work.left -= cost;
        double bound[kFanOut];
        const std::int32_t base = q.pending;
        const unsigned old = waiting.count();
        for (unsigned open = look.open(q, top.ref, bound); open != 0; open &= open - 1) {
            const PendingNode entry = pending_child(tree, top.ref, __builtin_ctz(open), bound);
            fetch<Visitor::kUseCoarse>(tree, entry.ref);
            if (entry.ref >= 0) {
                insert<Nearest>(q, base, entry);
            } else if constexpr (Nearest) {
                if (~entry.ref != q.visited_leaf) waiting.add_nearest(entry, old);
            } else {
                waiting.add(entry);
            }
        }
        const unsigned keep = has_no_bound(q) ? 0 : left;
        while (waiting.count() > keep) scan();
    }
    return true;
}

inline bool is_visited(const Near& q, std::int32_t ref) { return ~ref == q.visited_leaf; }
inline bool is_visited(const Far&, std::int32_t) { return false; }

}  // namespace
