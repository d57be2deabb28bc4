// The walk of the tree that nearest and farthest searches share: the most promising child first.
// In an anonymous namespace as lanes.hpp is, and for the same reason.
//
// Memory is slower than arithmetic, and which child is opened next is known only at the end of a
// node. Hence children are asked for as soon as they are known, and leaves do not go to the stack
// but wait, first come, first served, while other nodes are opened. A leaf is compared once more
// before it is looked at. Any order gives the same answer: a child is left out only where its bound
// says so.
#pragma once

#include "points/search.hpp"

namespace {

using namespace dbanon;

// Lines of the cache that are asked for ahead.
constexpr int kFetched = 8;

// Among equal bounds the one with the smallest record: after it, ties end the search.
template <bool Nearest>
bool sooner(const Pending& a, const Pending& b) {
    if (a.bound != b.bound) return Nearest ? a.bound < b.bound : a.bound > b.bound;
    return a.first < b.first;
}

// Whether nothing below can be part of the answer.
inline bool beaten(const Near& q, const Pending& at) {
    return at.bound > q.limit || (at.bound == q.limit && at.first > q.limit_id);
}
inline bool beaten(const Far& q, const Pending& at) {
    return at.bound < q.best.distance || (at.bound == q.best.distance && at.first > q.best.id);
}

// Whether there is nothing yet that could rule others out.
inline bool blank(const Near& q) { return q.count < q.k; }
inline bool blank(const Far& q) { return q.best.id < 0; }

inline Pending child_of(const TreeView& tree, std::int32_t node, int slot, const double* bound) {
    return {bound[slot], tree.links[node * kLinks + slot], first_of(tree, node, slot)};
}

// Asks for what a child has before it is looked at.
template <bool Rough>
void fetch(const TreeView& tree, std::int32_t ref) {
    const int p = tree.leaves.p;
    const std::int64_t at = ref < 0 ? ~ref : ref;
    const char* from;
    int size;
    if constexpr (Rough) {
        size = (p + 1) / 2 * (ref < 0 ? 2 * kBlock : 4 * kFan);
        const std::int16_t* steps = ref < 0 ? tree.leaves.coarse : tree.coarse;
        from = reinterpret_cast<const char*>(steps + at * size);
        size *= sizeof(std::int16_t);
    } else {
        size = ref < 0 ? p * block_size(p) : (2 * p + 1) * kFan;
        const double* numbers = ref < 0 ? tree.leaves.points : tree.boxes;
        from = reinterpret_cast<const char*>(numbers + at * size);
        size *= sizeof(double);
    }
    const int lines = size / 64 < kFetched ? size / 64 : kFetched;
    for (int line = 0; line < lines; ++line) __builtin_prefetch(from + line * 64);
    if (ref >= 0) __builtin_prefetch(tree.links + at * kLinks);
}

// Puts a child among those on the stack from `base` on, the most promising on top.
template <bool Nearest, class Query>
void insert(Query& q, std::int32_t base, const Pending& entry) {
    std::int32_t at = q.pending++;
    for (; at > base && sooner<Nearest>(q.stack[at - 1], entry); --at) {
        q.stack[at] = q.stack[at - 1];
    }
    q.stack[at] = entry;
}

// Leaves that wait to be looked at.
class Waiting {
   public:
    unsigned count() const { return count_; }
    void add(const Pending& leaf) { at(count_++) = leaf; }
    // Before those behind the first `old` that are less promising.
    void add_nearest(const Pending& leaf, unsigned old) {
        unsigned to = count_++;
        for (; to > old && sooner<true>(leaf, at(to - 1)); --to) at(to) = at(to - 1);
        at(to) = leaf;
    }
    Pending take() {
        const Pending leaf = entry_[first_];
        first_ = (first_ + 1) % kWaiting;
        --count_;
        return leaf;
    }

   private:
    Pending& at(unsigned i) { return entry_[(first_ + i) % kWaiting]; }

    Pending entry_[kWaiting];
    unsigned first_ = 0, count_ = 0;
};

// How many leaves still wait when the next node is opened; the best of those tried (1,000,000 records
// of 4 and 10 attributes). A nearest search looks sooner: each look may draw its limit closer.
template <bool Nearest, bool Rough>
constexpr unsigned kLeft = Nearest ? (Rough ? 2 : 1) : (Rough ? 4 : 3);

// `Look` says how leaves are looked at and nodes opened. Returns false when the slice is spent.
template <bool Nearest, class Look, class Query>
bool walk(const TreeView& tree, Query& q, Work& work) {
    constexpr unsigned left = kLeft<Nearest, Look::kRough>;
    static_assert(left + kFan <= kWaiting);
    const std::int64_t cost = block_cost(tree.leaves.p);
    Look look(tree, q);
    Waiting waiting;
    const auto scan = [&] {
        const Pending leaf = waiting.take();
        if (beaten(q, leaf)) return;
        work.left -= cost;
        look.leaf(~leaf.ref);
    };
    while (q.pending > 0 || waiting.count() > 0) {
        if (work.spent()) {
            while (waiting.count() > 0) q.stack[q.pending++] = waiting.take();
            return false;
        }
        if (q.pending == 0) {
            scan();
            continue;
        }
        const Pending top = q.stack[--q.pending];
        if (beaten(q, top)) continue;
        if (top.ref < 0) {  // put there when a slice was spent
            waiting.add(top);
            scan();
            continue;
        }
        work.left -= cost;
        double bound[kFan];
        const std::int32_t base = q.pending;
        const unsigned old = waiting.count();
        for (unsigned open = look.open(top.ref, bound); open != 0; open &= open - 1) {
            const Pending entry = child_of(tree, top.ref, __builtin_ctz(open), bound);
            fetch<Look::kRough>(tree, entry.ref);
            if (entry.ref >= 0) {
                insert<Nearest>(q, base, entry);
            } else if constexpr (Nearest) {
                if (~entry.ref != q.seen) waiting.add_nearest(entry, old);
            } else {
                waiting.add(entry);
            }
        }
        const unsigned keep = blank(q) ? 0 : left;
        while (waiting.count() > keep) scan();
    }
    return true;
}

}  // namespace
