// The best partition from all classes that a search has seen: set partitioning, region by region.
//
// Classes are collected up to a limit. For ten to eighty neighbouring classes at a time, branch and
// bound on reduced costs finds the cheapest collected classes that cover every record of the region
// once: exactly if time allows, ignoring classes that cost more than the region. A price is an
// approximate lower bound of a record's loss, and the reduced cost of a class is its loss minus its
// prices. Prices come from the Lagrangean relaxation of the covering condition, by subgradients
// with memory: P. Camerini, L. Fratta and F. Maffioli, "On improving relaxation methods by modified
// gradient techniques", Mathematical Programming Study 3 (1975). Steps are proportional to the
// initial prices, since an outlier may lose a hundred times as much as other records.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/pair_distances.hpp"
#include "common/grid.hpp"
#include "points/records.hpp"
#include "points/refine_pool.hpp"

namespace dbanon {

// A set of records of a region, by their positions in the region.
class RecordSet {
   public:
    static constexpr std::int32_t kCapacity = 256;
    void add(std::int32_t x) { words_[x >> 6] |= std::uint64_t{1} << (x & 63); }
    bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
    bool is_subset_of(const RecordSet& other) const;
    void remove(const RecordSet& other);
    std::int32_t pop_first();  // removes and returns the smallest position

   private:
    std::array<std::uint64_t, kCapacity / 64> words_{};
};

class Recombine {
   public:
    // With a larger k, a region would have too few classes.
    static constexpr std::int32_t kMaxK = RecordSet::kCapacity / 8;

    // pair_distances: null for records with coordinates.
    Recombine(const Table& table, std::int32_t k, PairDistances* pair_distances = nullptr);

    // Adds a class, ids in any order.
    void add(const std::int32_t* ids, std::int32_t size) {
        if (size_.size() < max_classes_) find_or_add(ids, size);
    }
    // Starts from the partition with these labels; step_prices() then computes prices.
    void start_from(const std::vector<std::int32_t>& labels);
    // One step of computing prices; true if another one is needed.
    bool step_prices();
    // Improves one region; true if its loss decreased.
    bool improve(Random& random);
    // Classes by record, numbered from 0.
    std::vector<std::int32_t> labels() const;
    // The work done since the last call, in steps, each about a nanosecond.
    std::int64_t take_work();

   private:
    // The Lagrangean relaxation over classes with prices of records.
    struct PriceAscent {
        std::vector<double> prices, best;
        std::vector<double> scale;  // of steps, by price
        std::vector<double> direction;    // of the last step
        double bound = 0.0, step_scale = 1.0;
        int stalled = 0;
        void start(std::vector<double> from);
        bool step(double value, double most, const std::vector<std::int32_t>& shortfall);
    };
    struct RegionClass {
        RecordSet record_set;
        double cost;  // loss without prices
        std::int32_t class_id;
    };

    std::int32_t find_or_add(const std::int32_t* ids, std::int32_t size);
    void rebuild_hash_table();
    std::int32_t& slot(std::uint64_t hash);
    const std::int32_t* members(std::int32_t class_id) const {
        return members_.row(class_id);
    }
    std::int32_t size(std::int32_t class_id) const { return size_[class_id]; }
    double loss(std::int32_t class_id) const { return loss_[class_id]; }
    double sum_of_squares(const std::int32_t* ids, std::int32_t count) const;
    double distance_to_mean(std::int32_t class_id, std::int32_t i) const;
    double reduced_cost(std::int32_t class_id, const std::vector<double>& prices) const;
    void share_loss(std::int32_t class_id, std::vector<double>& prices) const;
    double total_loss() const;
    void drop_expensive();
    void list_classes_by_record();
    void choose_region(Random& random);
    void add_to_region(std::int32_t class_id);
    void collect_region_classes();
    double region_reduced_cost(std::size_t c, const std::vector<double>& prices) const;
    bool compute_bound();
    void filter_by_prices();
    void branch(RecordSet left, double cost);
    std::int32_t most_constrained_record(RecordSet left, double cost);

    const Table table_;
    PairDistances* const pair_distances_;
    const std::int32_t k_, max_class_size_;
    std::size_t max_classes_;                  // classes kept
    Grid<std::int32_t> members_;  // [class][max_class_size], ascending
    std::vector<std::int32_t> size_;
    std::vector<double> loss_, reduced_costs_;
    std::vector<std::int32_t> slots_;   // by hash: a class, or -1
    std::vector<std::int32_t> current_;  // [record]: its class
    std::vector<std::int32_t> first_class_, classes_of_record_;  // by record: its classes, by ascending reduced cost
    PriceAscent ascent_;
    int steps_left_ = 0;
    std::int64_t work_done_ = 0;

    // The current region.
    std::vector<std::int32_t> records_, position_;
    double region_loss_ = 0.0, region_reduced_ = 0.0;
    std::vector<RegionClass> region_classes_;
    Grid<std::uint8_t> region_positions_;  // [region class][max_class_size]: positions in the region
    std::vector<std::vector<std::int32_t>> classes_of_position_;
    PriceAscent region_ascent_;
    std::vector<std::int32_t> shortfall_, chosen_, best_;
    double region_width_ = RecordSet::kCapacity / 2;  // approximate number of records in a region
    double best_cost_ = 0.0;
    std::int64_t n_visited_ = 0;  // classes visited by branch and bound
};

}  // namespace dbanon
