// Distances to blocks and bounds of boxes in double arithmetic; search.hpp explains why they are
// exact. In an anonymous namespace for the same reason as lanes.hpp.
#pragma once

#include "points/lanes.hpp"
#include "points/search.hpp"

namespace {

using namespace dbanon;

template <int P>
constexpr int kBlockParts = block_records(P) / Lanes::width;
constexpr int kFanOutParts = kFanOut / Lanes::width;

bool before(const RecordDistance& a, const RecordDistance& b) {
    return a.distance < b.distance || (a.distance == b.distance && a.id < b.id);
}

void offer(Near& q, double distance, std::int32_t id) {
    if (id == q.excluded_id || distance > q.limit || (distance == q.limit && id > q.limit_id)) return;
    RecordDistance* heap = q.results;
    const RecordDistance entry{distance, id};
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

inline std::int32_t first_id_of(const TreeView& tree, std::int32_t node, int slot) {
    return tree.links[node * kLinksPerNode + kFanOut + slot];
}

// The lanes of a block that hold records.
inline unsigned used_lanes(const BlocksView& blocks, std::int32_t block) {
    return static_cast<unsigned>((std::uint64_t{1} << blocks.count[block]) - 1);
}

template <int P>
int width(int p) {
    return P > 0 ? P : p;
}

template <int P>
void block_distances(const BlocksView& blocks, std::int32_t block, const double* point,
                     Lanes (&sum)[kBlockParts<P>]) {
    const int p = width<P>(blocks.p);
    const double* at = blocks.points + static_cast<std::int64_t>(block) * p * block_records(P);
    for (int part = 0; part < kBlockParts<P>; ++part) sum[part] = Lanes::all(0.0);
    for (int j = 0; j < p; ++j) {
        const Lanes q = Lanes::all(point[j]);
        for (int part = 0; part < kBlockParts<P>; ++part) {
            const Lanes gap = q - Lanes::load(at + j * block_records(P) + part * Lanes::width);
            sum[part] = sum[part] + gap * gap;
        }
    }
}

template <int P, bool Nearest, bool Farthest>
void scan_block(const BlocksView& blocks, std::int32_t block, const double* point, Near* near,
                Far* far) {
    Lanes sum[kBlockParts<P>];
    block_distances<P>(blocks, block, point, sum);
    const unsigned used = used_lanes(blocks, block);
    unsigned close = 0;
    unsigned distant = 0;
    for (int part = 0; part < kBlockParts<P>; ++part) {
        if constexpr (Nearest) {
            close |= lanes_at_most(sum[part], Lanes::all(near->limit)) << (part * Lanes::width);
        }
        if constexpr (Farthest) {
            distant |= lanes_at_most(Lanes::all(far->best.distance), sum[part]) << (part * Lanes::width);
        }
    }
    close &= used;
    distant &= used;
    if ((close | distant) == 0) return;
    double distance[block_records(P)];
    for (int part = 0; part < kBlockParts<P>; ++part) {
        sum[part].store(distance + part * Lanes::width);
    }
    const std::int32_t* ids = blocks.ids + static_cast<std::int64_t>(block) * block_records(P);
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
                 Lanes (&sum)[kFanOutParts]) {
    const int p = width<P>(tree.leaves.p);
    const double* lo = tree.boxes + static_cast<std::int64_t>(node) * (2 * p + 1) * kFanOut;
    const double* hi = lo + p * kFanOut;
    const Lanes zero = Lanes::all(0.0);
    for (int part = 0; part < kFanOutParts; ++part) sum[part] = zero;
    for (int j = 0; j < p; ++j) {
        const Lanes q = Lanes::all(point[j]);
        for (int part = 0; part < kFanOutParts; ++part) {
            const int at = j * kFanOut + part * Lanes::width;
            const Lanes gap = max(max(Lanes::load(lo + at) - q, q - Lanes::load(hi + at)), zero);
            sum[part] = sum[part] + gap * gap;
        }
    }
}

// The smaller of the two upper bounds. As a separate function MDAV took a thirtieth longer
// (clustered, 1,000,000 records of 4).
template <int P>
[[gnu::always_inline]] inline void far_bounds(const TreeView& tree, std::int32_t node,
                                              const Far& far, Lanes (&sum)[kFanOutParts]) {
    const int p = width<P>(tree.leaves.p);
    const double* lo = tree.boxes + static_cast<std::int64_t>(node) * (2 * p + 1) * kFanOut;
    const double* hi = lo + p * kFanOut;
    const double* reach = hi + p * kFanOut;
    const Lanes multiplier = Lanes::all(kReachMultiplier);
    Lanes inner[kFanOutParts], corner[kFanOutParts];
    for (int part = 0; part < kFanOutParts; ++part) corner[part] = inner[part] = Lanes::all(0.0);
    for (int j = 0; j < p; ++j) {
        const Lanes q = Lanes::all(far.point[j]);
        const Lanes middle = Lanes::all(tree.middle[j]);
        const Lanes toward = Lanes::all(far.to_middle[j]);
        const Lanes vertex = Lanes::all(far.vertex[j]);
        for (int part = 0; part < kFanOutParts; ++part) {
            const int at = j * kFanOut + part * Lanes::width;
            const Lanes low = Lanes::load(lo + at);
            const Lanes high = Lanes::load(hi + at);
            const Lanes gap = max(q - low, high - q);
            corner[part] = corner[part] + gap * gap;
            const Lanes x = min(max(vertex, low - middle), high - middle);
            const Lanes length = x + toward;
            inner[part] = inner[part] + (length * length - multiplier * (x * x));
        }
    }
    const Lanes away = Lanes::all(far.middle_distance);
    // Every term is at most 2.6 (N + |q - o|)^2; the last summand covers squares that underflow.
    const Lanes slack = Lanes::all(p * (p + 16) * 4.5e-16);
    for (int part = 0; part < kFanOutParts; ++part) {
        const Lanes out = Lanes::load(reach + part * Lanes::width);
        const Lanes both = out + away;
        const Lanes bound = inner[part] + multiplier * (out * out) + slack * (both * both) +
                            Lanes::all(1e-290);
        sum[part] = min(bound, corner[part]);
    }
}

}  // namespace
