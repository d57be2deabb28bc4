#pragma once

#include "common/chance.hpp"
#include "common/kernel.hpp"
#include "mixed/class_tuples.hpp"
#include "mixed/models.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

// Local search after any method, on the loss of labels where these are given: a few neighbouring
// classes are taken apart and put together anew by randomized agglomeration and moves of single
// records; kept when the loss does not grow. Where classes keep to privacy models, they still do:
// small is then also what does not. Swaps (swaps.hpp) may come before: what they find is cheap.
class RefineLoss final : public Kernel {
   public:
    // worth: rounds end where one for each k records saves less than 1/worth of the loss; 0: they do
    // not. swapping: whether swaps come before the rounds.
    RefineLoss(Mixed mixed, const std::int32_t* labels, std::int32_t k,
               std::int64_t rounds, std::uint64_t seed, Models models,
               const std::vector<LabelCosts>& label_costs, std::int64_t worth, bool swapping);

   protected:
    Steps run() override;
    double fraction() const override {
        // Where rounds end early swaps count as half.
        const double swaps = !swapping_ ? 0.0 : worth_ > 0 ? 0.5 : 0.05;
        const double rounds = static_cast<double>(round_) / (static_cast<double>(rounds_) + 1.0);
        return swaps * swept_ + (1.0 - swaps) * rounds;
    }

   private:
    // Copies of a tuple in a pool, in one of its clusters.
    struct Entry {
        std::int32_t tuple;
        std::int32_t count;
        std::int32_t owner;
    };
    struct Cluster {
        Cost loss;
        double lack;           // what it lacks to be a class
        double price;          // of uniting it with
        std::int32_t partner;  // the cheapest one; -1: none
    };
    // What a round takes apart and puts together anew. A cluster has the number of its first entry,
    // and its shape and counts, too.
    struct Pool {
        Pool(const MixedTable& table, const std::vector<LabelCosts>& costs, std::size_t most,
             std::size_t cells);
        Count* counts(std::size_t cluster) { return counts_.row(cluster); }
        // The first takes over the entries of the second, and its shape and counts.
        void join(std::int32_t i, std::int32_t j);
        // Shape `rest`: the cluster of entry e without it.
        void leave_out(std::size_t e);

        const std::size_t most;             // entries while it is gathered
        std::vector<std::int32_t> classes;  // where they are from
        std::vector<Entry> entries;
        std::vector<Cluster> clusters;
        std::vector<std::int32_t> alive;    // clusters
        double noise = 0;
        Shapes shapes;                      // of the clusters, then of the two below
        const std::size_t rest, moved;      // what records leave behind, and these themselves

       private:
        Grid<Count> counts_;  // of the models, by cluster
    };

    void collect(const std::int32_t* labels);
    bool pays();
    void number();
    bool choose();
    void gather();
    void agglomerate();
    Cost lent(std::int32_t i, std::int32_t j) const;
    double price(std::int32_t i, std::int32_t j, double most);
    void cheapest(std::int32_t i);
    void unite(std::int32_t i, std::int32_t j);
    void move();
    void join_same();
    Cost total();
    void keep();
    void count(std::size_t cluster, std::int32_t tuple, Count copies);
    bool keeps_with(std::size_t cluster, std::int32_t tuple, Count copies);
    bool keeps(std::size_t cluster) { return lack(cluster) == 0; }
    double lack(std::size_t cluster);
    double help(std::size_t a, std::size_t b);

    const Mixed mixed_;
    const std::int64_t rounds_;
    std::int64_t round_ = 0;
    const std::int64_t worth_;
    const bool swapping_;
    double swept_ = 0;                 // the share of all sweeps
    Cost lost_ = 0;                    // by all classes
    Cost lost_before_ = 0;             // when pays() was asked last
    std::int64_t next_ = 0;            // round before which it is asked again
    Chance chance_;
    ClassTuples held_;
    std::vector<std::int32_t> free_;                  // numbers of no class
    Grid<std::int32_t> neighbours_;                   // by tuple

    std::vector<bool> withheld_;                      // records suppressed from the start
    std::vector<std::int32_t> slot_;  // by tuple: its entry while gathering
    Models models_;
    bool guided_;                     // whether prices look at what clusters lack
    Pool pool_;
    std::vector<Count> together_;     // of two clusters
};

}  // namespace dbanon
