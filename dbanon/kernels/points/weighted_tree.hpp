// A tree of boxes over weighted records, for nearest search by distance plus weight.
//
// The value of record c is d(q, c) * scale + weight(c), where d is the squared distance. A box's
// bound is rounded like the values of its records, term by term in the same order, so it never
// exceeds them and pruning gives the same result as a scan.
#pragma once

#include <limits>
#include <vector>

#include "common/grid.hpp"
#include "common/table.hpp"
#include "points/distance.hpp"

namespace dbanon {

class WeightedTree {
   public:
    struct Entry {
        double value;
        std::int32_t id;
    };

    // The arrays must outlive the tree. First call build() until it returns true, then weigh().
    explicit WeightedTree(const Table& table);

    bool build(Work& work);
    // Sets weights and ranks; a search may be restricted to records after a certain rank.
    void set_weights(const std::vector<double>& weights, const std::vector<std::int32_t>& ranks);

    // The `count` least values of records ranked after `after_rank` and below `limit`, ascending;
    // possibly fewer. Returns the steps taken.
    std::int64_t find_least(const double* point, double scale, std::int32_t after_rank, double limit,
                       std::int32_t count, std::vector<Entry>& results) const;
    double value(const double* point, double scale, std::int32_t id) const {
        return distance(point, table_.row(id), table_.p) * scale + weights_[id];
    }
    // All records below `limit`, in no particular order.
    std::int64_t find_below(const double* point, double scale, std::int32_t after_rank, double limit,
                       std::vector<Entry>& results) const;

   private:
    struct Node {
        std::int32_t begin, end;
        std::int32_t first_child;  // the first of its two nodes; -1 for a leaf
        std::int32_t max_rank = -1;  // the last rank of its records
        double min_weight = 0.0;      // weight
    };

    void compute_box(std::int32_t node);
    double box_distance(const double* point, std::int32_t node) const;
    template <class Accept>
    std::int64_t walk(const double* point, double scale, std::int32_t after_rank, Accept&& accept) const;

    const Table table_;
    std::vector<std::int32_t> order_;
    std::vector<Node> nodes_;
    Grid<double> boxes_;  // by node: the least values, then the greatest
    std::vector<std::int32_t> unbuilt_nodes_;
    std::vector<double> weights_;
    std::vector<std::int32_t> ranks_;
};

}  // namespace dbanon
