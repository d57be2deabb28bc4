// Rearranges a few neighbouring classes of a partition: exact local search on SSE by moves and
// swaps, and randomized starts.
//
// It works on sums of pairwise squared distances: a class with sum w over its pairs has sum of
// squares w / size for any number of attributes, so evaluating a move or swap takes a few
// operations.
#pragma once

#include <cstdint>
#include <vector>

#include "points/search.hpp"

namespace dbanon {

// xoshiro256** by Blackman and Vigna, seeded by splitmix64: the same numbers on every platform.
// Used by the kernels of points; common/xorshift_random.hpp explains why those of hierarchies use XorshiftRandom.
class Random {
   public:
    explicit Random(std::uint64_t seed);
    std::uint64_t next();
    // An integer from 0 to n - 1.
    std::int32_t below(std::int32_t n);
    // A number from 0 to just below 1.
    double uniform();

   private:
    std::uint64_t state_[4];
};

class Pool {
   public:
    // Classes hold k to 2k - 1 records: more can always be split without loss.
    Pool(int p, std::int32_t k, const Ops& ops) : p_(p), k_(k), max_class_size_(2 * k - 1), ops_(ops) {}

    // Empties the pool and reserves room for this number of records.
    void start(std::int32_t records);
    // Adds a record to a class; classes are numbered in the order they are added.
    void add(const double* row, std::int32_t class_index);
    // Computes distances and sums, once all records are added.
    void finish();
    // The same for records without coordinates: after adding them, the caller writes their pairwise
    // distances (integers, so that sums are exact) to distance_rows(), in rows of stride() values.
    void add(std::int32_t class_index);
    double* distance_rows() { return distances_.data(); }
    std::int32_t stride() const { return stride_; }
    void finish(std::int64_t cost_per_distance);

    std::int32_t n_records() const { return n_records_; }
    std::int32_t n_classes() const { return n_classes_; }
    std::int32_t class_of(std::int32_t x) const { return class_of_[static_cast<std::size_t>(x)]; }
    double loss() const;
    double loss(std::int32_t class_index) const;

    // Saves the current arrangement, and restores it.
    void save();
    void restore();

    // Applies improving moves and swaps until there are none.
    void descend();
    // Builds new classes around random records: one fewer, as many, or one more.
    void rebuild(Random& random);
    // Applies a few random swaps of near records.
    void swap_random(Random& random, std::int32_t swaps);

    // The work done since the last call, in elementary steps: about a nanosecond each if vectors have 8
    // lanes, computed from sizes only, so that it is the same everywhere.
    std::int64_t take_work();

   private:
    const double* distances(std::int32_t x) const {
        return distances_.data() + static_cast<std::int64_t>(x) * stride_;
    }
    double* distance_sums(std::int32_t class_index) { return distance_sums_.data() + static_cast<std::int64_t>(class_index) * stride_; }
    const double* distance_sums(std::int32_t class_index) const {
        return distance_sums_.data() + static_cast<std::int64_t>(class_index) * stride_;
    }
    double* pair_sum(std::int32_t class_index) { return &pair_sums_[static_cast<std::size_t>(class_index)]; }
    std::int32_t size(std::int32_t class_index) const {
        return static_cast<std::int32_t>(members_[static_cast<std::size_t>(class_index)].size());
    }
    void sum_pairs();
    void list_members();
    void sum_distances();
    void sum_pairs_from_distances();
    void move(std::int32_t x, std::int32_t from, std::int32_t into);
    void swap(std::int32_t x, std::int32_t y);
    bool improve(std::int32_t a, std::int32_t b);
    void grow_class(std::int32_t class_index, std::int32_t seed);

    const int p_;
    const std::int32_t k_, max_class_size_;
    const Ops& ops_;
    std::int32_t n_records_ = 0, n_classes_ = 0, added_ = 0;
    std::int32_t stride_ = 0;  // n_records_ rounded up to whole vectors
    std::int64_t work_done_ = 0;
    bool has_distance_sums_ = false;           // distance_sums_ is up to date
    double min_gain_ = 0.0;             // smaller gains do not count as improvements
    std::vector<double> columns_;   // [attribute][record]
    std::vector<double> distances_;  // [record][record]
    std::vector<double> distance_sums_;        // [class][record]: sum of the distances to the members of the class
    std::vector<double> pair_sums_;       // [class]: sum of the distances of pairs of members
    std::vector<std::int32_t> class_of_, saved_class_of_;
    std::int32_t saved_n_classes_ = 0;
    std::vector<std::vector<std::int32_t>> members_;
    std::vector<double> penalty_;            // [record]: 0 where free, infinite where in a new class
    std::vector<double> swap_gains_;          // scratch of improve()
    std::vector<std::uint8_t> is_settled_;  // [class][class]: no improvement between the two
};

}  // namespace dbanon
