// The inner loops of searches among mixed records, compiled once per instruction set; plain
// structures only, so that no inline function of the library is compiled with instructions that the
// machine may lack. Whole numbers: the result is the same on all of them.
//
// Numbers are compared as they are. A tree with all leaves at one depth is compared by paths: a bit
// field for the child taken at each depth, the root's topmost. Two paths part above every field
// that lies below their highest different bit, hence
//   depth of the lowest common ancestor < depth of a field  <=>  (path ^ other_path) >> shift != 0
// and the cost of parting is the sum of the steps of all fields for which this holds. Other trees
// are left to the caller.
#pragma once

#include <cstdint>

namespace dbanon {

constexpr int kLanes = 16;   // tuples of a leaf
constexpr int kBranches = 8;  // children of a node

// A field in a tree's path, and the additional cost of a tuple that differs there or above.
struct Level {
    std::int64_t step;
    std::uint64_t bit;  // of the class's prefix, in masks
    std::int32_t shift;
    std::int32_t mask;  // index among a child's masks
};

// The class in one tree: the path of a member; levels[first] to levels[last - 1], the root's first,
// are those at which a tuple may separate from the class.
struct QueryPath {
    std::int32_t column, path, first, last;
};

// A class, in the form that the computation of costs needs.
struct ClassQuery {
    std::int64_t base;     // cost of a tuple within the class
    std::uint32_t weight;  // cost per unit that a number is outside, by kWidth
    std::int32_t numbers, trees;
    const std::int32_t *low, *high;  // (numbers,)
    const QueryPath* query_paths;           // (trees,)
    const Level* levels;
};

// The cost of a number outside the class: the width times the weight, or its square.
enum class NumberPenalty { kWidth, kSquaredWidth };

// A scan compares a class with tuples or classes in blocks of this many, in single precision.
constexpr int kScanItems = 256;
// The extremes of a block are found for each of so many subsets of its items: subset j has every
// kScanSubsets-th item from j on.
constexpr int kScanSubsets = 16;

// A field in a tree's path: the additional cost of a tuple whose path differs there or above, which
// is if the exclusive or of both paths exceeds `within`.
struct ScanLevel {
    float step;
    std::int32_t within;
};

// Costs of the leaves of a tree that has no paths, by leaf.
struct ScanLeafCosts {
    std::int32_t column;
    const float* costs;
};

// A class for a scan; as ClassQuery otherwise. In a scan of classes, costs are widths: per record
// of a merged class.
struct ScanQuery {
    float base, weight;
    std::int32_t numbers, trees, other_trees;
    const float *low, *high;          // (numbers,)
    const QueryPath* query_paths;     // (trees,)
    const ScanLevel* levels;
    const ScanLeafCosts* leaf_costs;  // (other_trees,)
};

// For lower bounds of the increase of the loss when this class merges with others.
struct MergeQuery {
    ScanQuery widths;  // leaf_costs: of all records of this class
    float size;
    // A lower bound of a width is its scanned value times `share`, less `slack`.
    float share, slack;
};

// columns: of a leaf (columns, kLanes); values beyond its count are arbitrary codes.
// boxes: of a node (columns, 2, kBranches), smallest and largest values of each child.
// masks: of a node (levels, kBranches), the prefixes below each child as hashed bits; null: none.
struct LaneOps {
    void (*costs)(const ClassQuery&, const std::int32_t* columns, std::int64_t* costs_out);
    void (*lower_bounds)(const ClassQuery&, const std::int32_t* boxes, const std::uint64_t* masks,
                     std::int64_t* bounds_out);
    void (*upper_bounds)(const ClassQuery&, const std::int32_t* boxes, std::int64_t* bounds_out);
    // numbers: of a block (numbers, kScanItems). codes: (trees + other_trees, kScanItems), paths
    // and leaves. costs_out: of each tuple, least_out and most_out: of each subset.
    void (*scan)(const ScanQuery&, const float* numbers, const std::int32_t* codes, float* costs_out,
                 float* least_out, float* most_out);
    // numbers: of a block, smallest and largest values (numbers, 2, kScanItems), then the sizes and
    // widths of the classes. codes: a member's path, and the bits in which paths of members differ
    // (trees, 2, kScanItems), then a leaf (other_trees, kScanItems).
    void (*scan_classes)(const MergeQuery&, const float* numbers, const std::int32_t* codes, float* bounds_out,
                         float* least_out);
};

// Selects the instruction set by name, as in points/dispatch.hpp. Trees keep the operations that were
// selected when they were constructed.
bool set_lanes(const char* name);
const LaneOps& lane_ops(NumberPenalty penalty);

}  // namespace dbanon
