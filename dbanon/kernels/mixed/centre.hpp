// The centroid of the remaining records, which has no coordinates either, and the record farthest
// from it.
//
// In an embedding with the distances of square.hpp, each node of a tree has an axis on which the
// records below it have coordinate l, where l^2 is half of the extra cost of leaves that meet above
// the node. A record's squared distance from the mean of N records is then
//   sum (x - S / N)^2 + sum over its nodes l^2 (1 - 2 count / N) + sum over all nodes l^2 (count / N)^2.
// The record farthest from the mean has the largest sum of squared distances to the records, an
// integer: doubles only select candidates.
#pragma once

#include "mixed/square.hpp"
#include "mixed/wide_tree.hpp"

namespace dbanon {

class MixedCentroid {
   public:
    // Starts with all records.
    MixedCentroid(const MixedTable& table, const Columns& columns, const Square& square);

    // Removes records; returns an upper bound of the centroid's movement.
    double remove_records(std::span<const std::int32_t> tuples);

    // Squared distances of the values of a leaf, in the column layout of WideTree.
    void distances(const Code* values, double* distances_out) const;
    // Sums of squared distances to the remaining records, up to a common constant.
    using Sum = __int128;
    Sum total(const Code* values) const;
    // The sum of the squared distances of all pairs of records.
    Sum sum_of_pair_distances(std::span<const std::int32_t> tuples);
    // Bound of the rounding error of a distance.
    double slack() const { return slack_; }

   private:
    // The nodes at one depth of a tree.
    struct Level {
        std::size_t column;
        Cost step;                        // 2 l^2
        std::int32_t shift;               // by path: a node is the prefix of those below it
        std::vector<std::int32_t> nodes;  // of other trees: by leaf
        std::vector<std::int32_t> count;  // number of records by node
        std::vector<std::int32_t> left;   // number of a joint query's records by node; otherwise 0
        std::int64_t squares;             // sum of all counts
        double loss_per_removal = 0;                  // decrease per removed record below a record's node

        std::int32_t node(Code value) const { return nodes.empty() ? value >> shift : nodes[value]; }
    };

    void add_level(std::size_t column, Cost step, std::int32_t shift, std::vector<std::int32_t> nodes,
                   std::int32_t count);
    void update_constants();
    Code value(std::int32_t tuple, std::size_t column) const {
        return columns_.value(column, table_.row(tuple)[columns_.attribute(column)]);
    }

    const MixedTable& table_;
    const Columns& columns_;
    std::vector<Level> levels_;
    std::vector<std::int64_t> sums_;  // for numbers
    std::vector<double> means_;
    std::int32_t count_ = 0;
    double constant_ = 0, slack_ = 0;
};

// The farthest record from a moving centroid, with bounds of leaves that stay valid for some
// movement. A bound is the distance of the farthest record of a leaf minus the movement at that
// time. Adding the current movement gives a valid bound by the triangle inequality.
class FarthestFromCentroid {
   public:
    FarthestFromCentroid(const WideTree& tree, const MixedCentroid& centroid) : tree_(tree), centroid_(centroid) {}

    // Initializes from a new tree.
    void reset();
    // The tuple of the farthest record, ties to the smallest; at least one must remain.
    std::int32_t find_farthest(Work& work);
    // Adds a movement of the centroid.
    void add_movement(double distance) { movement_ += distance; }

   private:
    struct Bound {
        double distance;  // minus the movement
        std::int32_t leaf;
        bool operator<(const Bound& other) const { return distance < other.distance; }
    };
    struct Best {
        double distance = -1;
        std::int32_t leaf = -1, lane = 0;
    };

    bool farther(const Best& first, const Best& other) const;

    const WideTree& tree_;
    const MixedCentroid& centroid_;
    std::vector<Bound> bounds_, examined_;
    double movement_ = 0;
};

}  // namespace dbanon
