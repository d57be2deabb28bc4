// Compiled once per instruction set; DBANON_OPS names the table this build exports.
#include "search.hpp"

#include <limits>
#include <utility>

#include "lanes.hpp"

namespace {

using namespace dbanon;

constexpr int kBlockParts = kBlock / Lanes::width;
constexpr int kFanParts = kFan / Lanes::width;

bool before(const Found& a, const Found& b) {
    return a.distance < b.distance || (a.distance == b.distance && a.id < b.id);
}

void offer(Near& q, double distance, std::int32_t id) {
    if (id == q.exclude || distance > q.limit || (distance == q.limit && id > q.limit_id)) return;
    Found* heap = q.found;
    const Found entry{distance, id};
    std::int32_t at;
    if (q.count < q.k) {
        at = q.count++;
        while (at > 0 && before(heap[(at - 1) / 2], entry)) {
            heap[at] = heap[(at - 1) / 2];
            at = (at - 1) / 2;
        }
    } else {
        at = 0;
        for (std::int32_t next = 1; next < q.k; next = 2 * at + 1) {
            if (next + 1 < q.k && before(heap[next], heap[next + 1])) ++next;
            if (!before(entry, heap[next])) break;
            heap[at] = heap[next];
            at = next;
        }
    }
    heap[at] = entry;
    if (q.count == q.k) {
        q.limit = heap[0].distance;
        q.limit_id = heap[0].id;
    }
}

void offer(Far& q, double distance, std::int32_t id) {
    if (distance > q.best.distance || (distance == q.best.distance && id < q.best.id)) {
        q.best = {distance, id};
    }
}

template <int P>
int width(int p) {
    return P > 0 ? P : p;
}

template <int P>
void block_distances(const BlocksView& blocks, std::int32_t block, const double* point,
                     Lanes (&sum)[kBlockParts]) {
    const int p = width<P>(blocks.p);
    const double* at = blocks.points + static_cast<std::int64_t>(block) * p * kBlock;
    for (int part = 0; part < kBlockParts; ++part) sum[part] = Lanes::all(0.0);
    for (int j = 0; j < p; ++j) {
        const Lanes q = Lanes::all(point[j]);
        for (int part = 0; part < kBlockParts; ++part) {
            const Lanes gap = q - Lanes::load(at + j * kBlock + part * Lanes::width);
            sum[part] = sum[part] + gap * gap;
        }
    }
}

template <int P, bool Nearest, bool Farthest>
void scan_block(const BlocksView& blocks, std::int32_t block, const double* point, Near* near,
                Far* far) {
    Lanes sum[kBlockParts];
    block_distances<P>(blocks, block, point, sum);
    const unsigned used = (1u << blocks.count[block]) - 1u;
    unsigned close = 0;
    unsigned distant = 0;
    for (int part = 0; part < kBlockParts; ++part) {
        if constexpr (Nearest) {
            close |= at_most(sum[part], Lanes::all(near->limit)) << (part * Lanes::width);
        }
        if constexpr (Farthest) {
            distant |= at_most(Lanes::all(far->best.distance), sum[part]) << (part * Lanes::width);
        }
    }
    close &= used;
    distant &= used;
    if ((close | distant) == 0) return;
    double distance[kBlock];
    for (int part = 0; part < kBlockParts; ++part) sum[part].store(distance + part * Lanes::width);
    const std::int32_t* ids = blocks.ids + static_cast<std::int64_t>(block) * kBlock;
    for (; close != 0; close &= close - 1) {
        const int lane = __builtin_ctz(close);
        offer(*near, distance[lane], ids[lane]);
    }
    for (; distant != 0; distant &= distant - 1) {
        const int lane = __builtin_ctz(distant);
        offer(*far, distance[lane], ids[lane]);
    }
}

// Squared distances from the point to the children's boxes.
template <int P>
void near_bounds(const TreeView& tree, std::int32_t node, const double* point,
                 Lanes (&sum)[kFanParts]) {
    const int p = width<P>(tree.leaves.p);
    const double* lo = tree.boxes + static_cast<std::int64_t>(node) * (2 * p + 1) * kFan;
    const double* hi = lo + p * kFan;
    const Lanes zero = Lanes::all(0.0);
    for (int part = 0; part < kFanParts; ++part) sum[part] = zero;
    for (int j = 0; j < p; ++j) {
        const Lanes q = Lanes::all(point[j]);
        for (int part = 0; part < kFanParts; ++part) {
            const int at = j * kFan + part * Lanes::width;
            const Lanes gap = max(max(Lanes::load(lo + at) - q, q - Lanes::load(hi + at)), zero);
            sum[part] = sum[part] + gap * gap;
        }
    }
}

// The multiplier of the second bound explained in search.hpp: of those tried from 1 to 3 it opened the
// fewest boxes, two to four times fewer than 1, on normal and clustered data of 4 and 10 attributes.
constexpr double kMultiplier = 1.6;

// The smaller of the two upper bounds.
template <int P>
void far_bounds(const TreeView& tree, std::int32_t node, const Far& far, Lanes (&sum)[kFanParts]) {
    const int p = width<P>(tree.leaves.p);
    const double* lo = tree.boxes + static_cast<std::int64_t>(node) * (2 * p + 1) * kFan;
    const double* hi = lo + p * kFan;
    const double* reach = hi + p * kFan;
    const Lanes multiplier = Lanes::all(kMultiplier);
    Lanes inner[kFanParts];
    for (int part = 0; part < kFanParts; ++part) sum[part] = inner[part] = Lanes::all(0.0);
    for (int j = 0; j < p; ++j) {
        const Lanes q = Lanes::all(far.point[j]);
        const Lanes middle = Lanes::all(tree.middle[j]);
        const Lanes toward = Lanes::all(far.toward[j]);
        const Lanes vertex = Lanes::all(far.toward[j] / (kMultiplier - 1.0));
        for (int part = 0; part < kFanParts; ++part) {
            const int at = j * kFan + part * Lanes::width;
            const Lanes low = Lanes::load(lo + at);
            const Lanes high = Lanes::load(hi + at);
            const Lanes gap = max(q - low, high - q);
            sum[part] = sum[part] + gap * gap;
            const Lanes x = min(max(vertex, low - middle), high - middle);
            const Lanes length = x + toward;
            inner[part] = inner[part] + (length * length - multiplier * (x * x));
        }
    }
    const Lanes away = Lanes::all(far.away);
    // Every term is at most 2.6 (N + |q - o|)^2; the last part is for squares that underflow.
    const Lanes slack = Lanes::all(p * (p + 16) * 4.5e-16);
    for (int part = 0; part < kFanParts; ++part) {
        const Lanes out = Lanes::load(reach + part * Lanes::width);
        const Lanes both = out + away;
        const Lanes bound = inner[part] + multiplier * (out * out) + slack * (both * both) +
                            Lanes::all(1e-290);
        sum[part] = min(bound, sum[part]);
    }
}

// Among equal bounds the one with the smallest record: after it, ties end the search.
template <bool Nearest>
bool sooner(const Pending& a, const Pending& b) {
    if (a.bound != b.bound) return Nearest ? a.bound < b.bound : a.bound > b.bound;
    return a.first < b.first;
}

// Pushes the children in `open` so that the most promising one is popped first.
template <bool Nearest>
std::int32_t push(const TreeView& tree, std::int32_t node, unsigned open, const double* bound,
                  Pending* stack, std::int32_t pending) {
    const std::int32_t base = pending;
    for (; open != 0; open &= open - 1) {
        const int slot = __builtin_ctz(open);
        const Pending entry{bound[slot], tree.child[node * kFan + slot],
                            tree.first[node * kFan + slot]};
        std::int32_t at = pending++;
        while (at > base && sooner<Nearest>(stack[at - 1], entry)) {
            stack[at] = stack[at - 1];
            --at;
        }
        stack[at] = entry;
    }
    return pending;
}

template <int P>
bool nearest(const TreeView& tree, Near& q, Work& work) {
    while (q.pending > 0) {
        if (work.spent()) return false;
        const Pending top = q.stack[--q.pending];
        if (top.bound > q.limit || (top.bound == q.limit && top.first > q.limit_id)) continue;
        if (top.ref < 0) {
            scan_block<P, true, false>(tree.leaves, ~top.ref, q.point, &q, nullptr);
            work.left -= block_cost(tree.leaves.p);
            continue;
        }
        work.left -= block_cost(tree.leaves.p);
        Lanes sum[kFanParts];
        near_bounds<P>(tree, top.ref, q.point, sum);
        double bound[kFan];
        unsigned open = 0;
        for (int part = 0; part < kFanParts; ++part) {
            open |= at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        q.pending = push<true>(tree, top.ref, open & tree.live[top.ref], bound, q.stack, q.pending);
    }
    return true;
}

template <int P>
bool within(const TreeView& tree, Near& q, Work& work) {
    while (q.pending > 0 && q.count < q.k) {
        if (work.spent()) return false;
        const Pending top = q.stack[--q.pending];
        work.left -= block_cost(tree.leaves.p);
        if (top.ref < 0) {
            Lanes sum[kBlockParts];
            block_distances<P>(tree.leaves, ~top.ref, q.point, sum);
            unsigned close = 0;
            for (int part = 0; part < kBlockParts; ++part) {
                close |= at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            }
            close &= (1u << tree.leaves.count[~top.ref]) - 1u;
            const std::int32_t* ids = tree.leaves.ids + static_cast<std::int64_t>(~top.ref) * kBlock;
            for (; close != 0 && q.count < q.k; close &= close - 1) {
                q.found[q.count++] = {q.limit, ids[__builtin_ctz(close)]};
            }
            continue;
        }
        Lanes sum[kFanParts];
        near_bounds<P>(tree, top.ref, q.point, sum);
        double bound[kFan];
        unsigned open = 0;
        for (int part = 0; part < kFanParts; ++part) {
            open |= at_most(sum[part], Lanes::all(q.limit)) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        q.pending = push<true>(tree, top.ref, open & tree.live[top.ref], bound, q.stack, q.pending);
    }
    return true;
}

template <int P>
bool farthest(const TreeView& tree, Far& q, Work& work) {
    while (q.pending > 0) {
        if (work.spent()) return false;
        const Pending top = q.stack[--q.pending];
        if (top.bound < q.best.distance || (top.bound == q.best.distance && top.first > q.best.id)) {
            continue;
        }
        if (top.ref < 0) {
            scan_block<P, false, true>(tree.leaves, ~top.ref, q.point, nullptr, &q);
            work.left -= block_cost(tree.leaves.p);
            continue;
        }
        work.left -= block_cost(tree.leaves.p);
        Lanes sum[kFanParts];
        far_bounds<P>(tree, top.ref, q, sum);
        double bound[kFan];
        unsigned open = 0;
        for (int part = 0; part < kFanParts; ++part) {
            open |= at_most(Lanes::all(q.best.distance), sum[part]) << (part * Lanes::width);
            sum[part].store(bound + part * Lanes::width);
        }
        q.pending =
            push<false>(tree, top.ref, open & tree.live[top.ref], bound, q.stack, q.pending);
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
    for (std::int32_t block = first; block < last; ++block) {
        scan_block<P, true, false>(blocks, block, near.point, &near, nullptr);
    }
}

template <int P>
void scan_far(const BlocksView& blocks, std::int32_t first, std::int32_t last, Far& far) {
    for (std::int32_t block = first; block < last; ++block) {
        scan_block<P, false, true>(blocks, block, far.point, nullptr, &far);
    }
}

template <int P>
void scan_both(const BlocksView& blocks, std::int32_t first, std::int32_t last, Near& near,
               Far& far) {
    for (std::int32_t block = first; block < last; ++block) {
        scan_block<P, true, true>(blocks, block, near.point, &near, &far);
    }
}

template <int P>
void pairwise(const double* columns, int attributes, std::int32_t m, std::int32_t stride,
              double* out) {
    const int p = width<P>(attributes);
    for (std::int32_t x = 0; x < m; ++x) {
        for (std::int32_t y = 0; y < stride; y += kFan) {
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
        const unsigned here =
            at_most(Lanes::load(row + y) + Lanes::load(bar + y), Lanes::all(lowest));
        if (here != 0) return y + __builtin_ctz(here);
    }
    return 0;
}

template <int P>
constexpr Ops kOps = {nearest<P>,   within<P>,   farthest<P>,  child_bounds<P>, scan_near<P>,
                      scan_far<P>,  scan_both<P>, pairwise<P>, add_and_least};

template <int... P>
const Ops* table(std::integer_sequence<int, P...>) {
    static constexpr Ops ops[] = {kOps<P>...};
    return ops;
}

}  // namespace

namespace dbanon {

const Ops* DBANON_OPS() { return table(std::make_integer_sequence<int, kTemplated + 1>{}); }

}  // namespace dbanon
