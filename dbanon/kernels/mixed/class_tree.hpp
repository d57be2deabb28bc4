// The class whose loss grows least when another class joins it.
//
// Classes of one record are tuples of a WideTree. All others have a tree of boxes, leaves of 16 and
// nodes of 8 children: a class has its place there before it is one of them, keeps it while it grows,
// and boxes grow with it. Answers are those of a plain search, by (increase, smallest class): bounds
// and losses are whole numbers, and what is bound to the least increase is skipped only where its
// smallest class is larger.
#pragma once

#include <array>
#include <span>

#include "common/table.hpp"
#include "mixed/columns.hpp"
#include "mixed/cutting.hpp"
#include "mixed/shapes.hpp"
#include "mixed/wide_tree.hpp"

namespace dbanon {

class ClassTree {
   public:
    // classes: the tuples of each. shapes, losses: theirs, by the same numbers; both are kept by
    // the caller, who merges there first.
    ClassTree(const MixedTable& table, const std::vector<std::vector<std::int32_t>>& classes,
              const Shapes& shapes, const std::vector<Cost>& losses);

    // The other class of which the loss grows least with this one, which must then join it; -1:
    // there is none.
    std::int32_t cheapest(std::int32_t asked, Work& work);
    // `from`, which was asked for, has joined `into`.
    void joined(std::int32_t into, std::int32_t from);
    // New trees when few of their classes are left.
    void tidy(Work& work);

   private:
    static constexpr std::int32_t kBranches = 8, kLeaf = 16, kNone = INT32_MAX;

    // Of one column: a class's smallest and largest values, and the depth of its node, or of its
    // one leaf. Of all classes below a child: the smallest, the largest, and the least deep.
    struct Ends {
        Code low, high;
        std::int32_t depth;
    };
    // The least of a class, or of all below a child; what each record loses where it does not
    // depend on which they are.
    struct Least {
        Cost size, each;
        std::int32_t id;
    };
    // What waits to be looked into: a node, or ~leaf.
    struct Open {
        Cost bound;
        std::int32_t least, link;
    };
    // Of a column of paths, by the highest bit in which two of them part: what a record loses, and
    // the depth where they do.
    struct Parting {
        std::array<Cost, 33> cost{};
        std::array<std::int32_t, 33> depth{};
    };

    void build();
    void build_lone();
    void leave_lone(std::int32_t id);
    std::int32_t nearest_lone(std::int32_t asked, Work& work);
    std::int32_t make(std::span<std::int32_t> tuples, std::int32_t place);
    std::int32_t make_node(std::span<const std::span<std::int32_t>> parts, std::int32_t place);
    bool refresh(std::int32_t place);
    void settle(std::size_t id);
    Cost at_least(std::int32_t place) const;

    const MixedTable& table_;
    const Columns columns_;
    const Shapes& shapes_;
    const std::vector<Cost>& losses_;
    Cutting cutting_;
    std::vector<Parting> partings_;  // of columns of paths

    std::vector<std::int32_t> first_;   // by class: one of its tuples
    std::vector<std::int32_t> class_;   // by tuple that is one of these
    std::vector<char> alive_, single_;  // by class
    // Classes of either tree, and when it was built.
    std::int32_t count_, built_ = 0, singles_ = 0, singles_built_ = 0;
    Grid<Ends> ends_;            // (classes, columns)
    Grid<Code> low_, high_;      // (classes, attributes)
    Grid<Cost> shares_;          // (classes, attributes), of hierarchies

    WideTree lone_;
    std::vector<std::int32_t> lone_class_;  // by tuple
    std::vector<char> in_lone_;             // by class: whether that tree was built of it
    Growth growth_;
    Extent extent_;

    std::int32_t root_ = 0;
    std::vector<std::vector<std::int32_t>> leaves_;
    std::vector<std::int32_t> leaf_;                    // by class
    std::vector<std::int32_t> leaf_place_, node_place_;  // -1: the root
    // By place, which is node * kBranches + child.
    std::vector<std::int32_t> links_;
    std::vector<Least> least_;
    Grid<Ends> boxes_;  // (places, columns)

    // The class that is asked for.
    std::int32_t asked_ = -1;
    std::vector<Open> open_;
};

}  // namespace dbanon
