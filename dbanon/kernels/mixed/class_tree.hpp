// The class whose loss grows least when another class joins it.
//
// Classes of one record are tuples of a WideTree. All others are in a tree of boxes, with leaves of
// 16 and nodes of 8 children: a class has a reserved leaf slot from the start, keeps it while it
// grows, and boxes grow with it. Results equal those of a plain search by (increase, smallest
// class): bounds and losses are integers, and a subtree whose bound equals the least increase is
// skipped only if its smallest class is larger. Where trees visit too many classes, ClassScan
// compares all.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "common/table.hpp"
#include "mixed/class_scan.hpp"
#include "mixed/columns.hpp"
#include "mixed/cutting.hpp"
#include "mixed/search_choice.hpp"
#include "mixed/shapes.hpp"
#include "mixed/wide_tree.hpp"

namespace dbanon {

class ClassTree {
   public:
    // classes: the tuples of each. shapes, losses: by class id; the caller owns both and updates
    // them before merging here.
    ClassTree(const MixedTable& table, const std::vector<std::vector<std::int32_t>>& classes,
              const Shapes& shapes, const std::vector<Cost>& losses);

    // The class whose loss increases least by merging this one, which must follow; -1 for none.
    std::int32_t cheapest(std::int32_t query, Work& work);
    // Records that `from`, the last query, was merged into `into`.
    void record_merge(std::int32_t into, std::int32_t from);
    // Rebuilds trees with few remaining classes.
    void rebuild_if_sparse(Work& work);

   private:
    static constexpr std::int32_t kBranches = 8, kLeafClasses = 16, kNoRecord = INT32_MAX;

    // Minima of a class, or of all below a child; the loss per record if it does not depend on
    // them.
    struct Minima {
        Cost size, each;
        std::int32_t id;
    };
    // An open node, or ~leaf.
    struct OpenNode {
        Cost bound;
        std::int32_t least, link;
    };
    // For a column of paths, by the highest bit in which two paths differ: the loss per record, and
    // the depth at which they separate.
    struct CostByBit {
        std::array<Cost, 33> cost{};
        std::array<std::int32_t, 33> depth{};
    };

    void build();
    void build_singletons();
    ClassScan& scan();
    void set_extent(std::int32_t query);
    std::int32_t cheapest_in_trees(std::int32_t query, Work& work);
    void remove_singleton(std::int32_t id);
    std::int32_t nearest_singleton(std::int32_t query, Work& work);
    std::int32_t make(std::span<std::int32_t> tuples, std::int32_t slot);
    std::int32_t make_node(std::span<const std::span<std::int32_t>> parts, std::int32_t slot);
    bool refresh(std::int32_t slot);
    void update_class(std::size_t id);
    Cost lower_bound(std::int32_t slot) const;

    const MixedTable& table_;
    const Columns columns_;
    const Shapes& shapes_;
    const std::vector<Cost>& losses_;
    TupleSplitter splitter_;
    std::vector<CostByBit> costs_by_bit_;  // of path columns

    std::vector<std::int32_t> first_tuple_;   // by class: one of its tuples
    std::vector<std::int32_t> class_of_tuple_;   // by tuple: its class, if that has no other tuple
    std::vector<char> is_alive_, is_single_tuple_;  // by class
    // For both trees: the number of classes now, and when the tree was built.
    std::int32_t n_classes_, n_built_ = 0, n_singles_ = 0, n_built_singles_ = 0;
    Grid<ClassRange> ranges_;       // (classes, columns)
    Grid<Code> low_, high_;      // (classes, attributes)
    Grid<Cost> shares_;          // (classes, attributes), of hierarchies

    WideTree singletons_;
    std::vector<std::int32_t> singleton_class_;  // by tuple
    std::vector<char> is_in_singletons_;             // by class: whether it is in that tree
    Growth growth_;
    Extent extent_;  // of the query class

    SearchChoice choice_;
    std::optional<ClassScan> scan_;

    std::int32_t root_ = 0;
    std::vector<std::vector<std::int32_t>> leaves_;
    std::vector<std::int32_t> leaf_of_class_;                    // by class
    std::vector<std::int32_t> leaf_slot_, node_slot_;  // -1: the root
    // By slot, which is node * kBranches + child.
    std::vector<std::int32_t> links_;
    std::vector<Minima> minima_;
    // For the classes below a child: the minimum, the maximum, and the least depth.
    Grid<ClassRange> boxes_;  // (slots, columns)

    // The query class.
    std::int32_t query_ = -1;
    std::vector<OpenNode> open_nodes_;
};

}  // namespace dbanon
