#include "points/moving_farthest.hpp"

#include <algorithm>
#include <cmath>

#include "points/distance.hpp"

namespace dbanon {

namespace {

// Above the error of squares that underflow, below any relevant difference of doubles.
constexpr double kTiny = 1e-150;
// With many exact ties (coarse grids, identical records) the heap degenerates, unlike the tree with
// its smallest-index rule: give up after this number of repeated visits of leaves, and pause for a
// while. The first visit of a leaf is not counted.
constexpr std::int32_t kLooks = 256;
constexpr std::int32_t kLongestPause = 4096;
// Values of a leaf to prefetch; the hardware prefetches the following ones.
constexpr int kFetched = 64;

double up(double x) { return x + std::fabs(x) * 4.5e-16; }

}  // namespace

MovingFarthest::Entry MovingFarthest::entry(double squared, std::int32_t ref, bool looked) const {
    const double slack = (tree_.attributes() + 8) * 2.3e-16;
    const double distance = std::sqrt(squared * (1.0 + slack)) * (1.0 + 4.5e-16) + kTiny;
    return {up(distance - path_), ref, looked};
}

void MovingFarthest::begin(FarQuery& q) {
    const std::size_t p = static_cast<std::size_t>(tree_.attributes());
    if (!heap_.empty()) {
        double squared = 0.0;
        for (std::size_t j = 0; j < p; ++j) {
            const double gap = q.point[j] - last_[j];
            squared += gap * gap;
        }
        const double slack = (tree_.attributes() + 8) * 2.3e-16;
        path_ = up(path_ + up(std::sqrt(squared * (1.0 + slack)) + kTiny));
        if (!(path_ < 1e300)) heap_.clear();
    }
    if (heap_.empty()) {
        path_ = 0.0;
        heap_.push_back({kInf, 0, false});
    }
    last_.assign(q.point, q.point + p);
    seen_.clear();
    looked_ = 0;
    tree_.begin(q);
    in_heap_ = pause_ == 0;
    if (!in_heap_) --pause_;
}

bool MovingFarthest::find(FarQuery& q, Work& work) {
    if (in_heap_) {
        if (!walk(q, work)) return false;
        put_back();
        if (looked_ < kLooks) {
            next_pause_ = 1;
            return true;
        }
        pause_ = next_pause_;
        next_pause_ = std::min(2 * next_pause_, kLongestPause);
        in_heap_ = false;
        // The best so far stays in q and prunes the search of the tree.
    }
    return tree_.farthest(q, work);
}

// Prefetches the records of the leaf that is likely to be next.
void MovingFarthest::fetch(std::int32_t ref) const {
    if (ref >= 0) return;
    const BlocksView& leaves = tree_.view().leaves;
    const int room = block_size(leaves.p);
    const double* block = leaves.points + std::int64_t{~ref} * leaves.p * room;
    constexpr int line = 64 / sizeof(double);
    const int size = std::min(leaves.p * room, kFetched);
    for (int at = 0; at < size; at += line) __builtin_prefetch(block + at);
    __builtin_prefetch(leaves.ids + std::int64_t{~ref} * room);
}

bool MovingFarthest::walk(FarQuery& q, Work& work) {
    const TreeView& view = tree_.view();
    const double slack = (tree_.attributes() + 8) * 2.3e-16;
    while (!heap_.empty() && looked_ < kLooks) {
        if (work.is_spent()) return false;
        const Entry top = heap_.front();
        const double bound = up(top.key + path_);
        if (bound * bound * (1.0 + slack) < q.best.distance) break;
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.pop_back();
        if (!heap_.empty()) fetch(heap_.front().ref);
        work.left -= 2 * block_cost(tree_.attributes());
        if (top.ref >= 0) {
            double bounds[kFanOut];
            tree_.ops().far_bounds(view, top.ref, q, bounds);
            for (int slot = 0; slot < kFanOut; ++slot) {
                if ((view.live[top.ref] >> slot & 1) == 0) continue;
                heap_.push_back(entry(bounds[slot], view.links[top.ref * kLinksPerNode + slot], false));
                std::push_heap(heap_.begin(), heap_.end());
            }
            continue;
        }
        const std::int32_t leaf = ~top.ref;
        if (view.leaves.count[leaf] == 0) continue;
        if (top.looked) ++looked_;
        Far inside{q.point, nullptr, nullptr, 0.0, {-1.0, -1}, nullptr, 0};
        tree_.ops().scan_far(view.leaves, leaf, leaf + 1, inside);
        seen_.push_back(entry(inside.best.distance, top.ref, true));
        if (inside.best.distance > q.best.distance ||
            (inside.best.distance == q.best.distance && inside.best.id < q.best.id)) {
            q.best = inside.best;
        }
    }
    return true;
}

void MovingFarthest::put_back() {
    for (const Entry& seen : seen_) {
        heap_.push_back(seen);
        std::push_heap(heap_.begin(), heap_.end());
    }
    seen_.clear();
}

}  // namespace dbanon
