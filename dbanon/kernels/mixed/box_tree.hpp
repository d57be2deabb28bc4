// Boxes in a tree, for the nearest ones of another box: leaves of 16 and nodes of 8 children lie
// column by column, so that a whole leaf or node is compared at once.
//
// A node knows of each child, for numbers the smallest and largest end, and for each level of a
// hierarchy the ancestors there as 64 hashed bits: a level at which the question's are missing
// tells that all below the child climb beyond it. Bounds are summed as distances are, column by
// column, and rounding keeps order: no bound is above a distance, to the last bit.
#pragma once

#include <span>
#include <vector>

#include "common/grid.hpp"
#include "common/table.hpp"
#include "mixed/box_cutting.hpp"
#include "mixed/boxes.hpp"

namespace dbanon {

class BoxTree {
   public:
    static constexpr int kLanes = 16;    // boxes of a leaf
    static constexpr int kBranches = 8;  // children of a node

    // weights: one for each box, or null for ones.
    BoxTree(const std::vector<BoxColumn>& columns, const Boxes& boxes, const std::int64_t* weights);

    // Builds some more; true at the end. Boxes that are equal may become one, with their weights.
    bool build(Work& work);

    // The box whose neighbours are asked for.
    void ask(const double* ends, const std::int32_t* nodes);
    // Calls found(distance, weight) for each box that may be within `limit`, which returns what
    // the limit is from there on; it never grows.
    template <class Found>
    void within(double limit, const Found& found, Work& work);

   private:
    // What waits to be looked into: a node, or ~leaf.
    struct Open {
        double bound;
        std::int32_t link;
    };
    struct Part {
        std::span<std::int32_t> members;
        std::int32_t slot;
    };
    // A level of a hierarchy, as the question sees it.
    struct Level {
        std::int32_t node;   // the question's ancestor there
        std::int32_t climb;  // height that parting here adds
        std::uint64_t bits;  // what a child has where something of it need not part here
    };

    std::int32_t make_leaf(std::span<const std::int32_t> members, bool identical);
    std::int32_t make_node(std::span<std::int32_t> members);
    void refresh(std::int32_t slot);
    void refresh_leaf(std::int32_t leaf, std::int32_t slot);
    void refresh_node(std::int32_t below, std::int32_t slot);
    void bounds(std::int32_t node, double* bounds_out) const;
    void costs(std::int32_t leaf, double* costs_out) const;

    const std::vector<BoxColumn>& columns_;
    const Boxes boxes_;
    const std::int64_t* weights_;
    std::int32_t levels_ = 0;     // of all columns
    std::vector<bool> inner_;     // by tree, whether boxes have nodes above the leaves
    BoxCutting cutting_;
    std::vector<std::int32_t> members_;
    std::vector<Part> parts_;  // to be built
    std::int32_t refreshed_ = -1;

    std::int32_t root_ = 0;
    // By leaf. ends: low, high of each number; codes: of each tree its levels, then the height.
    Grid<double> ends_;
    Grid<std::int32_t> codes_;
    Grid<std::int64_t> weight_;
    std::vector<std::int32_t> filled_;
    // By node, of each child. highest: of each tree, the height of its highest node.
    Grid<double> sides_;
    Grid<std::uint64_t> masks_;
    Grid<std::int32_t> highest_;
    std::vector<std::int32_t> links_;  // by place, which is node * kBranches + child

    const double* query_ = nullptr;
    std::vector<std::int32_t> path_;
    std::vector<Level> level_;
    std::vector<Open> open_;
};

}  // namespace dbanon

#include "mixed/box_tree_walk.hpp"
