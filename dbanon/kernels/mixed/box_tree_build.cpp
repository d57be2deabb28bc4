// Building the tree.
#include <algorithm>
#include <numeric>

#include "mixed/box_tree.hpp"

namespace dbanon {

namespace {

std::size_t levels_of(const std::vector<BoxColumn>& columns) {
    std::size_t levels = 0;
    for (const BoxColumn& column : columns) levels += static_cast<std::size_t>(column.levels());
    return levels;
}

}  // namespace

BoxTree::BoxTree(const std::vector<BoxColumn>& columns, const Boxes& boxes,
                 const std::int64_t* weights)
    : columns_(columns),
      boxes_(boxes),
      weights_(weights),
      has_inner_nodes_(static_cast<std::size_t>(boxes.trees), false),
      splitter_(columns, boxes),
      members_(static_cast<std::size_t>(boxes.n)),
      ends_(static_cast<std::size_t>(boxes.numbers) * 2 * kLanes),
      codes_((levels_of(columns) + static_cast<std::size_t>(boxes.trees)) * kLanes),
      weight_(kLanes),
      child_ends_(static_cast<std::size_t>(boxes.numbers) * 2 * kBranches),
      child_masks_(levels_of(columns) * kBranches),
      highest_(static_cast<std::size_t>(boxes.trees) * kBranches),
      query_levels_(levels_of(columns)) {
    std::iota(members_.begin(), members_.end(), 0);
    std::size_t tree = 0;
    for (const BoxColumn& column : columns_) {
        if (column.is_number()) continue;
        for (std::int32_t box = 0; box < boxes.n && !has_inner_nodes_[tree]; ++box) {
            has_inner_nodes_[tree] = column.height(boxes.nodes_of(box)[tree]) > 0;
        }
        ++tree;
    }
    pending_parts_.push_back({members_, -1});
}

bool BoxTree::build(Work& work) {
    while (!pending_parts_.empty()) {
        if (work.is_spent()) return false;
        const PendingPart part = pending_parts_.back();
        pending_parts_.pop_back();
        work.left -= static_cast<std::int64_t>(part.members.size());
        const std::int32_t child = part.members.size() <= kLanes ? add_leaf(part.members, false)
                                                                : add_node(part.members);
        (part.slot < 0 ? root_ : links_[static_cast<std::size_t>(part.slot)]) = child;
        if (pending_parts_.empty()) refreshed_ = static_cast<std::int32_t>(links_.size()) - 1;
    }
    // Children have larger numbers than their nodes.
    for (; refreshed_ >= 0; --refreshed_) {
        if (work.is_spent()) return false;
        --work.left;
        refresh(refreshed_);
    }
    return true;
}

std::int32_t BoxTree::add_leaf(std::span<const std::int32_t> members, bool identical) {
    const auto leaf = static_cast<std::int32_t>(n_filled_.size());
    const std::size_t count = identical ? 1 : members.size();
    n_filled_.push_back(static_cast<std::int32_t>(count));
    ends_.resize(n_filled_.size());
    codes_.resize(n_filled_.size());
    weight_.resize(n_filled_.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
        weight_.row(leaf)[identical ? 0 : i] += weights_ ? weights_[members[i]] : 1;
    }
    for (std::size_t i = 0; i < count; ++i) {
        const double* from = boxes_.bounds_of(members[i]);
        double* to = ends_.row(leaf) + i;
        for (std::int32_t j = 0; j < 2 * boxes_.numbers; ++j) to[j * kLanes] = from[j];
        const std::int32_t* node = boxes_.nodes_of(members[i]);
        std::int32_t* code = codes_.row(leaf) + i;
        for (const BoxColumn& column : columns_) {
            if (column.is_number()) continue;
            column.path_to(*node, code, kLanes);
            code += column.levels() * kLanes;
            *code = column.height(*node++);
            code += kLanes;
        }
    }
    return ~leaf;
}

// Split the largest part repeatedly until there are enough parts.
std::int32_t BoxTree::add_node(std::span<std::int32_t> members) {
    std::span<std::int32_t> visit[kBranches] = {members};
    std::int32_t count = 1;
    while (count < kBranches) {
        auto* const largest = std::max_element(
            visit, visit + count, [](const auto& a, const auto& b) { return a.size() < b.size(); });
        if (largest->size() <= kLanes) break;
        const std::size_t first = splitter_.split(*largest);
        if (first == 0) {
            if (count == 1) return add_leaf(members, true);
            break;
        }
        visit[count++] = largest->subspan(first);
        *largest = largest->first(first);
    }
    const auto node = static_cast<std::int32_t>(links_.size() / kBranches);
    // The node itself does not count as a child.
    links_.resize(links_.size() + kBranches, node);
    const std::size_t nodes = links_.size() / kBranches;
    child_ends_.resize(nodes);
    child_masks_.resize(nodes);
    highest_.resize(nodes);
    for (std::int32_t i = 0; i < count; ++i) pending_parts_.push_back({visit[i], node * kBranches + i});
    return node;
}

// A node's summary of a child.
void BoxTree::refresh(std::int32_t slot) {
    const std::int32_t child = links_[static_cast<std::size_t>(slot)];
    if (child < 0) {
        refresh_leaf(~child, slot);
    } else if (child != slot / kBranches) {
        refresh_node(child, slot);
    }
}

void BoxTree::refresh_leaf(std::int32_t leaf, std::int32_t slot) {
    const std::int32_t node = slot / kBranches, child = slot % kBranches;
    const std::int32_t n_filled = n_filled_[leaf];
    const double* ends = ends_.row(leaf);
    double* side = child_ends_.row(node) + child;
    for (std::int32_t j = 0; j < boxes_.numbers; ++j, ends += 2 * kLanes, side += 2 * kBranches) {
        side[0] = *std::min_element(ends, ends + n_filled);
        side[kBranches] = *std::max_element(ends + kLanes, ends + kLanes + n_filled);
    }
    const std::int32_t* codes = codes_.row(leaf);
    std::uint64_t* mask = child_masks_.row(node) + child;
    std::int32_t* highest = highest_.row(node) + child;
    for (const BoxColumn& column : columns_) {
        if (column.is_number()) continue;
        for (std::int32_t l = 0; l < column.levels(); ++l, codes += kLanes, mask += kBranches) {
            std::uint64_t bits = 0;
            for (std::int32_t i = 0; i < n_filled; ++i) bits |= bit_of(codes[i]);
            *mask = bits;
        }
        *highest = *std::max_element(codes, codes + n_filled);
        highest += kBranches;
        codes += kLanes;
    }
}

void BoxTree::refresh_node(std::int32_t below, std::int32_t slot) {
    const std::int32_t node = slot / kBranches, child = slot % kBranches;
    const std::int32_t* links = links_.data() + static_cast<std::size_t>(below) * kBranches;
    std::int32_t count = 0;
    while (count < kBranches && links[count] != below) ++count;
    const double* from = child_ends_.row(below);
    double* side = child_ends_.row(node) + child;
    for (std::int32_t j = 0; j < boxes_.numbers;
         ++j, from += 2 * kBranches, side += 2 * kBranches) {
        side[0] = *std::min_element(from, from + count);
        side[kBranches] = *std::max_element(from + kBranches, from + kBranches + count);
    }
    const std::uint64_t* masks = child_masks_.row(below);
    std::uint64_t* mask = child_masks_.row(node) + child;
    for (std::size_t l = 0; l < query_levels_.size(); ++l, masks += kBranches, mask += kBranches) {
        *mask = 0;
        for (std::int32_t i = 0; i < count; ++i) *mask |= masks[i];
    }
    const std::int32_t* heights = highest_.row(below);
    std::int32_t* highest = highest_.row(node) + child;
    for (std::int32_t t = 0; t < boxes_.trees; ++t, heights += kBranches, highest += kBranches) {
        *highest = *std::max_element(heights, heights + count);
    }
}

}  // namespace dbanon
