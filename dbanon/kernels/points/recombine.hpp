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

#include "common/apart.hpp"
#include "common/grid.hpp"
#include "points/records.hpp"
#include "points/refine_pool.hpp"

namespace dbanon {

// A set of the records of a region.
class Mask {
   public:
    static constexpr std::int32_t kRecords = 256;
    void add(std::int32_t x) { words_[x >> 6] |= std::uint64_t{1} << (x & 63); }
    bool empty() const { return (words_[0] | words_[1] | words_[2] | words_[3]) == 0; }
    bool within(const Mask& other) const;
    void remove(const Mask& other);
    std::int32_t pop();  // removes and returns the first

   private:
    std::array<std::uint64_t, kRecords / 64> words_{};
};

class Recombine {
   public:
    // With larger k a region would have too few classes.
    static constexpr std::int32_t kLargest = Mask::kRecords / 8;

    // apart: distances of records without coordinates; else null.
    Recombine(const Table& table, std::int32_t k, Apart* apart = nullptr);

    // Adds a class, ids in any order.
    void add(const std::int32_t* ids, std::int32_t size) {
        if (size_.size() < most_) find(ids, size);
    }
    // Starts from the class of each record; prices are then computed in steps.
    void begin(const std::vector<std::int32_t>& labels);
    // One step of the prices; true if there are more.
    bool price();
    // Improves one region; true if its loss decreased.
    bool improve(Random& random);
    // Classes by record, numbered from 0.
    std::vector<std::int32_t> labels() const;
    // The steps since the last call, each about a nanosecond.
    std::int64_t spent();

   private:
    // The Lagrangean relaxation over classes with prices of records.
    struct Ascent {
        std::vector<double> prices, best;
        std::vector<double> scale;  // of steps, by price
        std::vector<double> direction;    // of the last step
        double bound = 0.0, pace = 1.0;
        int stalled = 0;
        void start(std::vector<double> from);
        bool step(double value, double most, const std::vector<std::int32_t>& lack);
    };
    struct Local {
        Mask mask;
        double cost;  // loss without prices
        std::int32_t at;
    };

    std::int32_t find(const std::int32_t* ids, std::int32_t size);
    void index();
    std::int32_t& slot(std::uint64_t hash);
    const std::int32_t* members(std::int32_t at) const {
        return members_.row(at);
    }
    std::int32_t size(std::int32_t at) const { return size_[at]; }
    double loss(std::int32_t at) const { return loss_[at]; }
    double squares(const std::int32_t* ids, std::int32_t count) const;
    double to_mean(std::int32_t at, std::int32_t i) const;
    double reduced(std::int32_t at, const std::vector<double>& prices) const;
    void share(std::int32_t at, std::vector<double>& prices) const;
    double total() const;
    void forget();
    void list();
    void gather(Random& random);
    void enter(std::int32_t at);
    void collect();
    double above(std::size_t c, const std::vector<double>& prices) const;
    bool bound();
    void settle();
    void branch(Mask left, double cost);
    std::int32_t hardest(Mask left, double cost);

    const Table table_;
    Apart* const apart_;
    const std::int32_t k_, room_;
    std::size_t most_;                  // classes kept
    Grid<std::int32_t> members_;  // [class][room], rising
    std::vector<std::int32_t> size_;
    std::vector<double> loss_, reduced_;
    std::vector<std::int32_t> slots_;   // by hash: a class, or -1
    std::vector<std::int32_t> current_;  // [record]: its class
    std::vector<std::int32_t> first_, of_;  // by record: its classes, by ascending reduced cost
    Ascent ascent_;
    int steps_left_ = 0;
    std::int64_t spent_ = 0;

    // The current region.
    std::vector<std::int32_t> records_, position_;
    double region_loss_ = 0.0, region_reduced_ = 0.0;
    std::vector<Local> local_;
    Grid<std::uint8_t> inside_;  // [local][room]: places
    std::vector<std::vector<std::int32_t>> of_position_;
    Ascent around_;
    std::vector<std::int32_t> lack_, chosen_, best_;
    double width_ = Mask::kRecords / 2;  // approximate number of records in a region
    double least_ = 0.0;
    std::int64_t effort_ = 0;  // classes visited by branch and bound
};

}  // namespace dbanon
