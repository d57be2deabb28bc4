#include "points/moving_farthest.hpp"

#include <algorithm>
#include <cmath>

#include "points/distance.hpp"

namespace dbanon {

namespace {

// Above the error of squares that underflow, below any relevant difference of doubles.
constexpr double kUnderflowMargin = 1e-150;
// With many exact ties (coarse grids, identical records) the heap degenerates, unlike the tree with
// its smallest-index rule: give up after this number of repeated visits of leaves, and pause for a
// while. The first visit of a leaf is not counted.
constexpr std::int32_t kMaxRepeatedVisits = 256;
constexpr std::int32_t kLongestPause = 4096;
// Values of a leaf to prefetch; the hardware prefetches the following ones.
constexpr int kPrefetchedValues = 64;

double round_up(double x) { return x + std::fabs(x) * 4.5e-16; }

}  // namespace

MovingFarthest::Entry MovingFarthest::make_entry(double squared, std::int32_t ref, bool is_exact) const {
    const double slack = (tree_.attributes() + 8) * 2.3e-16;
    const double distance = std::sqrt(squared * (1.0 + slack)) * (1.0 + 4.5e-16) + kUnderflowMargin;
    return {round_up(distance - path_length_), ref, is_exact};
}

void MovingFarthest::begin(FarQuery& q, std::int32_t n_candidates) {
    n_candidates_ = n_candidates;
    candidates_.clear();
    const std::size_t p = static_cast<std::size_t>(tree_.attributes());
    if (!heap_.empty()) {
        double squared = 0.0;
        for (std::size_t j = 0; j < p; ++j) {
            const double gap = q.point[j] - last_point_[j];
            squared += gap * gap;
        }
        const double slack = (tree_.attributes() + 8) * 2.3e-16;
        path_length_ = round_up(path_length_ + round_up(std::sqrt(squared * (1.0 + slack)) + kUnderflowMargin));
        if (!(path_length_ < 1e300)) heap_.clear();
    }
    if (heap_.empty()) {
        path_length_ = 0.0;
        heap_.push_back({kInf, 0, false});
    }
    last_point_.assign(q.point, q.point + p);
    visited_.clear();
    n_repeated_visits_ = 0;
    tree_.begin(q);
    uses_heap_ = pause_queries_ == 0;
    if (!uses_heap_ && n_candidates == 0) --pause_queries_;
}

bool MovingFarthest::find(FarQuery& q, Work& work) {
    if (uses_heap_) {
        if (!walk(q, work)) return false;
        restore_visited();
        if (n_candidates_ > 0) return true;
        if (n_repeated_visits_ < kMaxRepeatedVisits) {
            next_pause_queries_ = 1;
            return true;
        }
        pause_queries_ = next_pause_queries_;
        next_pause_queries_ = std::min(2 * next_pause_queries_, kLongestPause);
        uses_heap_ = false;
        // The best so far stays in q and prunes the search of the tree.
    }
    return n_candidates_ > 0 || tree_.farthest(q, work);
}

// Prefetches the records of the leaf that is likely to be next.
void MovingFarthest::prefetch_leaf(std::int32_t ref) const {
    if (ref >= 0) return;
    const BlocksView& leaves = tree_.view().leaves;
    const int room = block_records(leaves.p);
    const double* block = leaves.points + std::int64_t{~ref} * leaves.p * room;
    constexpr int line = 64 / sizeof(double);
    const int size = std::min(leaves.p * room, kPrefetchedValues);
    for (int at = 0; at < size; at += line) __builtin_prefetch(block + at);
    __builtin_prefetch(leaves.ids + std::int64_t{~ref} * room);
}

// Adds the records of a leaf to the candidates. Their distances need not be exact.
void MovingFarthest::collect(const double* point, std::int32_t leaf) {
    const BlocksView& leaves = tree_.view().leaves;
    const int room = block_records(leaves.p);
    const double* block = leaves.points + std::int64_t{leaf} * leaves.p * room;
    double distances[2 * kBlock] = {};
    for (int j = 0; j < leaves.p; ++j) {
        for (int lane = 0; lane < room; ++lane) {
            const double gap = block[j * room + lane] - point[j];
            distances[lane] += gap * gap;
        }
    }
    const auto is_farther = [](const RecordDistance& a, const RecordDistance& b) { return a.distance > b.distance; };
    for (int lane = 0; lane < leaves.count[leaf]; ++lane) {
        const bool is_full = static_cast<std::int32_t>(candidates_.size()) == n_candidates_;
        if (is_full && distances[lane] <= candidates_.front().distance) continue;
        if (is_full) {
            std::pop_heap(candidates_.begin(), candidates_.end(), is_farther);
            candidates_.pop_back();
        }
        candidates_.push_back({distances[lane], leaves.ids[std::int64_t{leaf} * room + lane]});
        std::push_heap(candidates_.begin(), candidates_.end(), is_farther);
    }
}

bool MovingFarthest::walk(FarQuery& q, Work& work) {
    const TreeView& view = tree_.view();
    const double slack = (tree_.attributes() + 8) * 2.3e-16;
    while (!heap_.empty() && n_repeated_visits_ < kMaxRepeatedVisits + 16 * n_candidates_) {
        if (work.is_spent()) return false;
        const Entry top = heap_.front();
        const double bound = round_up(top.key + path_length_);
        const bool is_full = static_cast<std::int32_t>(candidates_.size()) == n_candidates_;
        const double least = n_candidates_ == 0 ? q.best.distance : is_full ? candidates_.front().distance : -1.0;
        if (bound * bound * (1.0 + slack) < least) break;
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.pop_back();
        if (!heap_.empty()) prefetch_leaf(heap_.front().ref);
        work.left -= 2 * block_cost(tree_.attributes());
        if (top.ref >= 0) {
            double bounds[kFanOut];
            tree_.ops().far_bounds(view, top.ref, q, bounds);
            for (int slot = 0; slot < kFanOut; ++slot) {
                if ((view.live_children[top.ref] >> slot & 1) == 0) continue;
                heap_.push_back(make_entry(bounds[slot], view.links[top.ref * kLinksPerNode + slot], false));
                std::push_heap(heap_.begin(), heap_.end());
            }
            continue;
        }
        const std::int32_t leaf = ~top.ref;
        if (view.leaves.count[leaf] == 0) continue;
        if (top.is_exact) ++n_repeated_visits_;
        Far leaf_query{q.point, nullptr, nullptr, 0.0, {-1.0, -1}, nullptr, 0};
        tree_.ops().scan_far(view.leaves, leaf, leaf + 1, leaf_query);
        if (n_candidates_ > 0) collect(q.point, leaf);
        visited_.push_back(make_entry(leaf_query.best.distance, top.ref, true));
        if (leaf_query.best.distance > q.best.distance ||
            (leaf_query.best.distance == q.best.distance && leaf_query.best.id < q.best.id)) {
            q.best = leaf_query.best;
        }
    }
    return true;
}

void MovingFarthest::restore_visited() {
    for (const Entry& visited : visited_) {
        heap_.push_back(visited);
        std::push_heap(heap_.begin(), heap_.end());
    }
    visited_.clear();
}

}  // namespace dbanon
