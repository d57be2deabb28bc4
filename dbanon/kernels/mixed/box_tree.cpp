#include "mixed/box_tree.hpp"

namespace dbanon {

namespace {

double larger(double a, double b) { return a > b ? a : b; }

}  // namespace

void BoxTree::set_query(const double* ends, const std::int32_t* nodes) {
    query_ = ends;
    Level* level = query_levels_.data();
    std::size_t tree = 0;
    for (const BoxColumn& column : columns_) {
        if (column.is_number()) continue;
        const std::int32_t node = nodes[tree];
        query_paths_.resize(static_cast<std::size_t>(column.levels()));
        column.path_to(node, query_paths_.data(), 1);
        std::int32_t above = column.height(0);
        // Boxes may be inner nodes, which are not separated from queries below them.
        std::uint64_t ancestors = has_inner_nodes_[tree] ? bit_of(0) : 0;
        for (std::int32_t l = 0; l < column.levels(); ++l, ++level) {
            level->node = query_paths_[static_cast<std::size_t>(l)];
            const std::int32_t height = column.height(level->node);
            level->climb = above - height;
            above = height;
            // Nothing below an inner node is separated from it.
            const bool below = column.depth(level->node) <= l && height > 0;
            level->bits = below ? ~std::uint64_t{0} : bit_of(level->node) | ancestors;
            if (has_inner_nodes_[tree]) ancestors = level->bits;
        }
        ++tree;
    }
}

void BoxTree::costs(std::int32_t leaf, double* __restrict costs_out) const {
    const double* ends = ends_.row(leaf);
    const double* query = query_;
    const std::int32_t* codes = codes_.row(leaf);
    const Level* level = query_levels_.data();
    for (int i = 0; i < kLanes; ++i) costs_out[i] = 0.0;
    for (const BoxColumn& column : columns_) {
        if (column.is_number()) {
            const double low = query[0], high = query[1];
            const double* const to = ends + kLanes;
            for (int i = 0; i < kLanes; ++i) {
                costs_out[i] += larger(larger(ends[i] - high, low - to[i]), 0.0);
            }
            query += 2;
            ends += 2 * kLanes;
            continue;
        }
        std::int32_t climbed[kLanes] = {};
        for (std::int32_t l = 0; l < column.levels(); ++l, ++level, codes += kLanes) {
            const std::int32_t node = level->node, climb = level->climb;
            for (int i = 0; i < kLanes; ++i) climbed[i] += codes[i] != node ? climb : 0;
        }
        const double height = std::max(column.levels(), 1);
        for (int i = 0; i < kLanes; ++i) costs_out[i] += (climbed[i] - codes[i]) / height;
        codes += kLanes;
    }
}

void BoxTree::bounds(std::int32_t node, double* __restrict bounds_out) const {
    const double* sides = child_ends_.row(node);
    const double* query = query_;
    const std::uint64_t* masks = child_masks_.row(node);
    const std::int32_t* highest = highest_.row(node);
    const Level* level = query_levels_.data();
    for (int i = 0; i < kBranches; ++i) bounds_out[i] = 0.0;
    for (const BoxColumn& column : columns_) {
        if (column.is_number()) {
            const double low = query[0], high = query[1];
            const double* const to = sides + kBranches;
            for (int i = 0; i < kBranches; ++i) {
                bounds_out[i] += larger(larger(sides[i] - high, low - to[i]), 0.0);
            }
            query += 2;
            sides += 2 * kBranches;
            continue;
        }
        std::int32_t cost_at_depth[kBranches] = {}, climbed[kBranches] = {};
        for (std::int32_t l = 0; l < column.levels(); ++l, ++level, masks += kBranches) {
            const std::uint64_t bits = level->bits;
            const std::int32_t climb = level->climb;
            for (int i = 0; i < kBranches; ++i) {
                cost_at_depth[i] |= (masks[i] & bits) == 0 ? 1 : 0;
                climbed[i] += cost_at_depth[i] ? climb : 0;
            }
        }
        const double height = std::max(column.levels(), 1);
        for (int i = 0; i < kBranches; ++i) {
            // Separated nodes climb at least one edge.
            const std::int32_t least = std::max(climbed[i] - highest[i], cost_at_depth[i]);
            bounds_out[i] += least / height;
        }
        highest += kBranches;
    }
}

}  // namespace dbanon
