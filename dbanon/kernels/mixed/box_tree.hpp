// A tree over boxes, for nearest-neighbour search: leaves of 16 and nodes of 8 children are stored
// by column, so that a complete leaf or node is compared at once.
//
// A node stores for each child the smallest and largest end of numbers, and for each level of a
// hierarchy the ancestors as 64 hashed bits: if the query's ancestor is missing, all boxes below
// the child climb beyond that level. Bounds are summed like distances, column by column, and
// rounding is monotone, so no bound exceeds a distance.
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

    // Continues building; true at the end. Equal boxes may be merged, adding their weights.
    bool build(Work& work);

    // Sets the query box.
    void set_query(const double* ends, const std::int32_t* nodes);
    // Calls visit(distance, weight) for each box that may be within `limit`; it returns the new
    // limit, which never grows.
    template <class Visitor>
    void visit_within(double limit, const Visitor& visit, Work& work);

   private:
    // An open node, or ~leaf.
    struct OpenNode {
        double bound;
        std::int32_t link;
    };
    struct PendingPart {
        std::span<std::int32_t> members;
        std::int32_t slot;
    };
    // A level of a hierarchy, relative to the query.
    struct Level {
        std::int32_t node;   // the query's ancestor on this level
        std::int32_t climb;  // height added by separating here
        std::uint64_t bits;  // bits of children that may not separate here
    };

    std::int32_t add_leaf(std::span<const std::int32_t> members, bool identical);
    std::int32_t add_node(std::span<std::int32_t> members);
    void refresh(std::int32_t slot);
    void refresh_leaf(std::int32_t leaf, std::int32_t slot);
    void refresh_node(std::int32_t below, std::int32_t slot);
    void bounds(std::int32_t node, double* bounds_out) const;
    void costs(std::int32_t leaf, double* costs_out) const;

    const std::vector<BoxColumn>& columns_;
    const Boxes boxes_;
    const std::int64_t* weights_;
    std::int32_t levels_ = 0;     // of all columns
    std::vector<bool> has_inner_nodes_;     // by hierarchy, whether boxes have nodes above the leaves
    BoxSplitter splitter_;
    std::vector<std::int32_t> members_;
    std::vector<PendingPart> pending_parts_;  // still to be built
    std::int32_t refreshed_ = -1;

    std::int32_t root_ = 0;
    // By leaf. ends: low, high of each number; codes: the levels of each hierarchy, then its
    // height.
    Grid<double> ends_;
    Grid<std::int32_t> codes_;
    Grid<std::int64_t> weight_;
    std::vector<std::int32_t> n_filled_;
    // By node, for each child. highest: of each hierarchy, the height of its highest node.
    Grid<double> child_ends_;
    Grid<std::uint64_t> child_masks_;
    Grid<std::int32_t> highest_;
    std::vector<std::int32_t> links_;  // by slot, which is node * kBranches + child

    const double* query_ = nullptr;
    std::vector<std::int32_t> query_paths_;
    std::vector<Level> query_levels_;
    std::vector<OpenNode> open_nodes_;
};

}  // namespace dbanon

#include "mixed/box_tree_walk.hpp"
