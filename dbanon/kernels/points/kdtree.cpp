#include "points/kdtree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "points/distance.hpp"

namespace dbanon {

namespace {

constexpr std::int32_t kNoRecord = std::numeric_limits<std::int32_t>::max();

}  // namespace

void KdTree::begin(NearQuery& q) const {
    q.stack_storage.resize(static_cast<std::size_t>((depth_ + 1) * kFanOut + kQueueCapacity));
    q.stack = q.stack_storage.data();
    q.pending = 0;
    q.coarse = {};
    if (coarse_.is_enabled()) coarse_.convert_query(q.point, q.coarse_storage, q.coarse);
    q.visited_leaf = -1;
    if (q.k == 0 || size_ == 0) return;
    q.stack[q.pending++] = {0.0, 0, 0};
    // The record's own leaf tightens the limit before any node is opened.
    if (q.excluded_id >= 0 && is_alive(q.excluded_id)) {
        q.visited_leaf = position_[static_cast<std::size_t>(q.excluded_id)] / block_;
        ops_.scan_near(view_.leaves, q.visited_leaf, q.visited_leaf + 1, q);
    }
}

void KdTree::begin(FarQuery& q) const {
    q.stack_storage.resize(static_cast<std::size_t>((depth_ + 1) * kFanOut + kQueueCapacity));
    q.stack = q.stack_storage.data();
    q.pending = 0;
    q.coarse = {};
    if (coarse_.is_enabled()) coarse_.convert_query(q.point, q.coarse_storage, q.coarse);
    if (size_ > 0) q.stack[q.pending++] = {kInf, 0, 0};
    q.direction_storage.resize(static_cast<std::size_t>(2 * p_));
    double squared = 0.0;
    for (int j = 0; j < p_; ++j) {
        const double gap = middle_[static_cast<std::size_t>(j)] - q.point[j];
        q.direction_storage[static_cast<std::size_t>(j)] = gap;
        q.direction_storage[static_cast<std::size_t>(p_ + j)] = gap / (kReachMultiplier - 1.0);
        squared += gap * gap;
    }
    q.to_middle = q.direction_storage.data();
    q.vertex = q.to_middle + p_;
    q.middle_distance = std::sqrt(squared);
}

// An empty slot: neutral for minima and maxima, and not alive.
void KdTree::close_slot(std::int32_t node, int slot) {
    for (int j = 0; j < p_; ++j) {
        low(node)[j * kFanOut + slot] = kInf;
        high(node)[j * kFanOut + slot] = -kInf;
    }
    reach(node)[slot] = 0.0;
    first_ids(node)[slot] = kNoRecord;
    live_children_[static_cast<std::size_t>(node)] &= static_cast<std::uint8_t>(~(1u << slot));
    has_clipped_[static_cast<std::size_t>(node)] &= static_cast<std::uint8_t>(~(1u << slot));
}

// A child's box in integer steps, from its box.
void KdTree::update_coarse_box(std::int32_t node, int slot) {
    if (!coarse_.is_enabled()) return;
    std::int16_t* at = coarse_boxes_.data() + std::int64_t{node} * coarse_.pairs() * kFanOut * 4;
    bool beyond = false;
    for (int j = 0; j < p_; ++j) {
        const double lowest = low(node)[j * kFanOut + slot];
        const double highest = high(node)[j * kFanOut + slot];
        std::int16_t* pair = at + (j / 2 * 2 * kFanOut + slot) * 2 + j % 2;
        pair[0] = coarse_.steps(lowest, j);
        pair[kFanOut * 2] = coarse_.steps(highest, j);
        beyond |= coarse_.is_clipped(lowest, j) || coarse_.is_clipped(highest, j);
    }
    const double reached = reach(node)[slot] / coarse_.step();
    coarse_reach_[static_cast<std::size_t>(node * kFanOut + slot)] =
        kReachMultiplier * reached * reached * (1.0 + 1e-9) + 1.0;
    const std::uint8_t bit = static_cast<std::uint8_t>(1u << slot);
    std::uint8_t& bits = has_clipped_[static_cast<std::size_t>(node)];
    bits = static_cast<std::uint8_t>(beyond ? bits | bit : bits & ~bit);
    const std::int32_t below = child(node)[slot];
    if (below < 0) leaf_has_clipped_[static_cast<std::size_t>(~below)] = beyond;
}

void KdTree::erase(std::int32_t id) {
    std::int32_t& position = position_[static_cast<std::size_t>(id)];
    const std::int32_t leaf = position / block_;
    const std::int32_t lane = position % block_;
    position = -1;
    --size_;
    const std::int32_t last = --leaf_count_[static_cast<std::size_t>(leaf)];
    double* block = leaf_points_.data() + std::int64_t{leaf} * block_ * p_;
    std::int32_t* ids = leaf_ids_.data() + std::int64_t{leaf} * block_;
    double* reaches = leaf_reach_.data() + std::int64_t{leaf} * block_;
    const double reached = reaches[lane];
    if (lane != last) {
        reaches[lane] = reaches[last];
        for (int j = 0; j < p_; ++j) block[j * block_ + lane] = block[j * block_ + last];
        ids[lane] = ids[last];
        if (coarse_.is_enabled()) {
            std::int16_t* steps = leaf_coarse_.data() + leaf * coarse_.block();
            Coarse::move(steps, lane, steps, last, coarse_.pairs());
            if (view_.leaves.codes != nullptr) coarse_.move_codes(leaf_codes_.data() + leaf * coarse_.code_block(), lane, last);
        }
        position_[static_cast<std::size_t>(ids[lane])] = leaf * block_ + lane;
    }
    if (!shrink_leaf(leaf, id, reached)) return;
    std::int32_t node = leaf_parent_slots_[static_cast<std::size_t>(leaf)] / kFanOut;
    while (node != 0) {
        const std::int32_t up = parent_slots_[static_cast<std::size_t>(node)];
        if (!shrink_node(node, up / kFanOut, up % kFanOut)) return;
        node = up / kFanOut;
    }
}

// Both return whether anything changed that an ancestor could depend on.
bool KdTree::shrink_leaf(std::int32_t leaf, std::int32_t id, double reached) {
    const double* removed_row = row(id);
    const std::int32_t up = leaf_parent_slots_[static_cast<std::size_t>(leaf)];
    const std::int32_t node = up / kFanOut;
    const int slot = up % kFanOut;
    const std::int32_t count = leaf_count_[static_cast<std::size_t>(leaf)];
    if (count == 0) {
        close_slot(node, slot);
        return true;
    }
    bool changed = false;
    const double* block = leaf_points_.data() + std::int64_t{leaf} * block_ * p_;
    double* lo = low(node) + slot;
    double* hi = high(node) + slot;
    for (int j = 0; j < p_; ++j) {
        const double* from = block + j * block_;
        if (removed_row[j] == lo[j * kFanOut]) {
            const double least = *std::min_element(from, from + count);
            changed |= least != lo[j * kFanOut];
            lo[j * kFanOut] = least;
        }
        if (removed_row[j] == hi[j * kFanOut]) {
            const double most = *std::max_element(from, from + count);
            changed |= most != hi[j * kFanOut];
            hi[j * kFanOut] = most;
        }
    }
    if (reached == reach(node)[slot]) {
        const double* reaches = leaf_reach_.data() + std::int64_t{leaf} * block_;
        reach(node)[slot] = *std::max_element(reaches, reaches + count);
        changed |= reached != reach(node)[slot];
    }
    std::int32_t& least_id = first_ids(node)[slot];
    if (least_id == id) {
        const std::int32_t* ids = leaf_ids_.data() + std::int64_t{leaf} * block_;
        least_id = *std::min_element(ids, ids + count);
        changed = true;
    }
    if (changed) update_coarse_box(node, slot);
    return changed;
}

bool KdTree::shrink_node(std::int32_t node, std::int32_t parent, int slot) {
    if (live_children_[static_cast<std::size_t>(node)] == 0) {
        close_slot(parent, slot);
        return true;
    }
    bool changed = false;
    for (int j = 0; j < p_; ++j) {
        const double* lo = low(node) + j * kFanOut;
        const double* hi = high(node) + j * kFanOut;
        double& least = low(parent)[j * kFanOut + slot];
        double& most = high(parent)[j * kFanOut + slot];
        const double new_least = *std::min_element(lo, lo + kFanOut);
        const double new_most = *std::max_element(hi, hi + kFanOut);
        changed |= new_least != least || new_most != most;
        least = new_least;
        most = new_most;
    }
    const double farthest = *std::max_element(reach(node), reach(node) + kFanOut);
    changed |= farthest != reach(parent)[slot];
    reach(parent)[slot] = farthest;
    std::int32_t& least_id = first_ids(parent)[slot];
    const std::int32_t new_least_id = *std::min_element(first_ids(node), first_ids(node) + kFanOut);
    changed |= new_least_id != least_id;
    least_id = new_least_id;
    if (changed) update_coarse_box(parent, slot);
    return changed;
}

}  // namespace dbanon
