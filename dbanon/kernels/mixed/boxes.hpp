// Records and released rows in record linkage: per column an interval or a node of a hierarchy.
// Intervals of records are single values, and their nodes are leaves.
//
// Distances are the sum of EM4ADOM's eq. (11) in the order of the columns: the gap between two
// intervals; the height of the lowest common ancestor above the inner one of two nodes, over the
// height of the tree.
#pragma once

#include <cstdint>
#include <vector>

namespace dbanon {

// A column: a tree of nodes numbered depth first, or numbers if `parents` is empty.
class BoxColumn {
   public:
    // parents: the parent of each node; -1 for the root, which is node 0. Empty for numbers.
    explicit BoxColumn(std::vector<std::int32_t> parents);

    bool is_number() const { return parents_.empty(); }
    // Edges from the root to the deepest leaf.
    std::int32_t levels() const { return levels_; }
    std::int32_t nodes() const { return static_cast<std::int32_t>(parents_.size()); }
    std::int32_t height(std::int32_t node) const { return heights_[node]; }
    std::int32_t depth(std::int32_t node) const { return depths_[node]; }
    std::int32_t parent(std::int32_t node) const { return parents_[node]; }
    // Writes the ancestor of a node at each depth from 1 to levels() to ancestors[0], [stride], …; below
    // its own depth the node itself.
    void path_to(std::int32_t node, std::int32_t* ancestors, std::size_t stride) const;
    // The depth of the lowest common ancestor of two nodes.
    std::int32_t common_depth(std::int32_t a, std::int32_t b) const;

   private:
    std::vector<std::int32_t> parents_, depths_, heights_;
    std::int32_t levels_ = 0;
};

// Boxes in arrays of the caller, row by row.
struct Boxes {
    const double* bounds;         // (n, numbers, 2)
    const std::int32_t* nodes;  // (n, trees)
    std::int32_t n;
    std::int32_t numbers, trees;

    const double* bounds_of(std::int32_t box) const {
        return bounds + std::int64_t{box} * 2 * numbers;
    }
    const std::int32_t* nodes_of(std::int32_t box) const {
        return nodes + std::int64_t{box} * trees;
    }
};

// A node's bit in a 64-bit hash.
inline std::uint64_t bit_of(std::int32_t node) {
    return std::uint64_t{1} << (static_cast<std::uint32_t>(node) * 2654435761u >> 26);
}

}  // namespace dbanon
