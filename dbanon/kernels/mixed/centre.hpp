// The centroid of the records that remain, which has no coordinates either, and the record farthest
// from it.
//
// In the space of points whose distances those of square.hpp are, each node of a tree has an axis on
// which the records below it stand at l, l^2 being half of what leaves cost more that meet above the
// node. A record's squared distance from the mean of N records is then
//   sum (x - S / N)^2 + sum over its nodes l^2 (1 - 2 count / N) + sum over all nodes l^2 (count / N)^2.
// The record farthest from the mean is the one with the largest sum of squared distances to the
// records, which is a whole number: doubles only tell which records may be it.
#pragma once

#include "mixed/square.hpp"
#include "mixed/wide_tree.hpp"

namespace dbanon {

class Centre {
   public:
    // At first, of all records.
    Centre(const MixedTable& table, const Columns& columns, const Square& square);

    // Records leave; returns how far that moves the centroid, or a little more.
    double leave(std::span<const std::int32_t> tuples);

    // Squared distances of the values of a leaf, column by column, as WideTree has them.
    void distances(const Code* values, double* found) const;
    // Sums of squared distances to the records that remain, but for a number that all have.
    using Sum = __int128;
    Sum total(const Code* values) const;
    // The sum of the squared distances of all pairs of records.
    Sum within(std::span<const std::int32_t> tuples);
    // What a distance may be wrong by.
    double slack() const { return slack_; }

   private:
    // The nodes at one depth of a tree.
    struct Level {
        std::size_t column;
        Cost step;                        // 2 l^2
        std::int32_t shift;               // of paths: a node is the prefix of those below it
        std::vector<std::int32_t> nodes;  // of other trees: by leaf
        std::vector<std::int32_t> count;  // of records, by node
        std::vector<std::int32_t> left;   // of records asked about together, by node; else 0
        std::int64_t squares;             // of all counts
        double each = 0;                  // what a record's node takes off for each record below it

        std::int32_t node(Code value) const { return nodes.empty() ? value >> shift : nodes[value]; }
    };

    void add_level(std::size_t column, Cost step, std::int32_t shift, std::vector<std::int32_t> nodes,
                   std::int32_t count);
    void settle();
    Code value(std::int32_t tuple, std::size_t column) const {
        return columns_.value(column, table_.row(tuple)[columns_.attribute(column)]);
    }

    const MixedTable& table_;
    const Columns& columns_;
    std::vector<Level> levels_;
    std::vector<std::int64_t> sums_;  // of numbers
    std::vector<double> means_;
    std::int32_t count_ = 0;
    double base_ = 0, slack_ = 0;
};

// Farthest from a centroid that moves: leaves are kept by bounds that hold until it has moved too far.
// A bound is what the farthest record of a leaf was away, less the way that the centroid had come
// then; with the way it has come now it is one again, by the triangle inequality.
class FarFromCentre {
   public:
    FarFromCentre(const WideTree& tree, const Centre& centre) : tree_(tree), centre_(centre) {}

    // Of a tree that is new.
    void restart();
    // The tuple of the farthest record, of equal ones the smallest; one must remain.
    std::int32_t find(Work& work);
    // The centroid has come so much further.
    void moved(double by) { way_ += by; }

   private:
    struct Bound {
        double away;  // less the way
        std::int32_t leaf;
        bool operator<(const Bound& other) const { return away < other.away; }
    };
    struct Best {
        double distance = -1;
        std::int32_t leaf = -1, lane = 0;
    };

    bool farther(const Best& one, const Best& other) const;

    const WideTree& tree_;
    const Centre& centre_;
    std::vector<Bound> bounds_, seen_;
    double way_ = 0;
};

}  // namespace dbanon
