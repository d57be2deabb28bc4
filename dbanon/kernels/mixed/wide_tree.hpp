// A tree of boxes over tuples, for nearest and farthest search: leaves of 16 and nodes of 8
// children are stored by column, so that a complete leaf or node is compared at once (lanes.hpp).
//
// Bounds of the nearest search also use hashed prefixes: for each field of a path, 64 bits of the
// prefixes below a child. If the class's prefix is missing, all tuples below the child separate
// from the class at that field, wherever they lie within the box.
//
// Results equal those of a plain search by (cost, smallest record): bounds and costs are integers,
// and a subtree whose bound equals the best cost is skipped only if its smallest record is larger.
#pragma once

#include <span>

#include "common/table.hpp"
#include "mixed/columns.hpp"
#include "mixed/cutting.hpp"
#include "mixed/lanes.hpp"
#include "mixed/reach.hpp"

namespace dbanon {

class WideTree {
   public:
    // The tree is empty at first. Only a tree cut by kGain has masks, which make nearest searches
    // fast. outside: how its measures treat numbers outside a class.
    WideTree(const MixedTable& table, const Columns& columns, SplitCriterion by, NumberPenalty number_penalty);

    // Builds a tree of these tuples, which are reordered. record: by tuple, its smallest remaining
    // record.
    void build(std::span<std::int32_t> tuples, const std::vector<std::int32_t>& record);
    // Frees the tree's memory; it must be built before its next use.
    void clear();
    // Sets the smallest remaining record of a tuple; kNone removes the tuple.
    void update(std::int32_t tuple, std::int32_t record);

    // By (cost, record); `hint` is a tuple of the tree to search around first, or -1. Returns -1 if
    // nothing remains.
    template <class Measure>
    std::int32_t nearest(const Measure& measure, std::int32_t hint, Work& work);
    // The `count` nearest other tuples of `tuple`, which must be in the tree: nearest first, padded
    // with -1.
    void nearest(const Reach& reach, std::int32_t tuple, std::int32_t count, std::int32_t* tuples_out,
                 Work& work);
    // The k nearest records, by (cost, record). next: by tuple, the position of its smallest record
    // among its copies.
    template <class Measure>
    void around(const Measure& measure, std::int32_t hint, std::int32_t k,
                const std::vector<std::int32_t>& next, std::vector<std::int32_t>& records_out, Work& work);
    // By (-cost, record).
    template <class Measure>
    std::int32_t farthest(const Measure& measure, Work& work);

    static constexpr std::int32_t kNoRecord = INT32_MAX;

    // For other kinds of queries. A leaf: its tuples, and for each column kLanes values, of which
    // the first `filled` are used.
    std::int32_t leaves() const { return static_cast<std::int32_t>(n_filled_.size()); }
    std::int32_t n_filled(std::int32_t leaf) const { return n_filled_[leaf]; }
    const Code* values(std::int32_t leaf) const { return records(leaf) + kLanes; }
    const Code* tuples(std::int32_t leaf) const {
        return records(leaf) + (columns_.count() + 1) * kLanes;
    }
    const Code* records(std::int32_t leaf) const { return leaves_.row(leaf); }

   private:
    // The best result so far; anything worse than `cost` and `record` is skipped.
    struct Best {
        Cost cost;
        std::int32_t record = kNoRecord, tuple = -1;

        void offer(Cost by, std::int32_t smallest, std::int32_t of) { *this = {by, smallest, of}; }
    };
    struct NearestRecords;
    struct NearestTuples;
    struct NearestCopies;
    // A pending node, or ~leaf.
    struct OpenNode {
        Cost bound;
        std::int32_t least, link;
    };
    struct Nearest;
    struct Farthest;

    std::int32_t make(std::span<std::int32_t> tuples, const std::vector<std::int32_t>& record,
                      std::int32_t slot);
    std::int32_t make_leaf(std::span<const std::int32_t> tuples,
                           const std::vector<std::int32_t>& record, std::int32_t slot);
    bool refresh(std::int32_t slot);
    bool refresh_leaf(std::int32_t leaf, std::int32_t slot);
    bool refresh_node(std::int32_t node, std::int32_t slot);

    template <class Measure>
    void set_query(const Measure& measure);
    // best: a single or several results so far; `cost` and `record` are to be improved on.
    template <class Direction, class Measure, class Results>
    void look(std::int32_t leaf, const Measure& measure, Results& best, Work& work) const;
    template <class Direction, class Measure, class Results>
    void walk(const Measure& measure, Results& best, Work& work, std::int32_t visited_leaf);

    // Several nearest, in order.
    template <class Measure, class Results>
    void collect(const Measure& measure, std::int32_t hint, Results& collector, Work& work);

    // For a leaf: records, columns, tuples, kLanes of each.
    Code* records(std::int32_t leaf) { return leaves_.row(leaf); }
    Code* values(std::int32_t leaf, std::size_t column) {
        return records(leaf) + (column + 1) * kLanes;
    }
    Code* tuples(std::int32_t leaf) { return values(leaf, columns_.count()); }
    // By slot, which is node * kBranches + child: the child, or ~leaf.
    std::int32_t& link(std::int32_t slot) { return links_[slot]; }
    std::int32_t& least(std::int32_t slot) { return least_[slot]; }

    const MixedTable& table_;
    const Columns& columns_;
    const LaneOps& ops_;
    const bool has_masks_;
    TupleSplitter splitter_;

    std::int32_t root_ = 0;
    Grid<Code> leaves_;
    std::vector<std::int32_t> n_filled_, leaf_slot_;  // by leaf
    std::vector<std::int32_t> leaf_;                 // by tuple, its most recent leaf
    Grid<Code> boxes_;                               // by node
    Grid<std::uint64_t> masks_;                      // by node
    std::vector<std::int32_t> node_slot_;           // by node, -1: the root
    std::vector<std::int32_t> links_, least_;        // by slot; smallest record below, or kNone

    // The query class.
    ClassQuery query_{};
    std::vector<Code> low_, high_;
    std::vector<QueryPath> query_paths_;
    std::vector<Level> levels_;
    std::vector<OpenNode> open_nodes_;
    std::vector<Best> best_records_;  // a heap, the worst on top
};

}  // namespace dbanon
