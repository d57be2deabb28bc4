#pragma once

#include "common/xorshift_random.hpp"
#include "common/kernel.hpp"
#include "mixed/class_tuples.hpp"
#include "mixed/models.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

// Local search after any method, on the loss of labels if their costs are given. Each round
// dissolves a few neighbouring classes and rebuilds them by randomized agglomeration and moves of
// single records; the result is accepted if the loss does not grow. Privacy models stay satisfied:
// clusters that violate them count as small. Swaps (swaps.hpp) may come first, since they find
// improvements cheaply.
class RefineLoss final : public Kernel {
   public:
    // min_saving_divisor: rounds end once n / k of them save less than 1/min_saving_divisor of the loss;
    // 0 for no such limit.
    // swapping: whether to run swaps before the rounds.
    RefineLoss(Mixed mixed, const std::int32_t* labels, std::int32_t k,
               std::int64_t rounds, std::uint64_t seed, Models models,
               const std::vector<LabelCosts>& label_costs, std::int64_t min_saving_divisor, bool swapping);

   protected:
    Coroutine run() override;
    double fraction_done() const override {
        // Swaps count as half of the progress if rounds may end early.
        const double swaps = !swapping_ ? 0.0 : min_saving_divisor_ > 0 ? 0.5 : 0.05;
        const double rounds = static_cast<double>(round_) / (static_cast<double>(rounds_) + 1.0);
        return swaps * swept_share_ + (1.0 - swaps) * rounds;
    }

   private:
    // Copies of a tuple in a cluster of the pool.
    struct Entry {
        std::int32_t tuple;
        std::int32_t count;
        std::int32_t owner;
    };
    struct Cluster {
        Cost loss;
        double lack;           // records or values that are missing for a valid class
        double price;          // of merging it with the partner
        std::int32_t partner;  // the cheapest partner; -1 for none
    };
    // The classes that a round rebuilds. The id of a cluster, its shape and its counts is the index
    // of its first entry.
    struct Pool {
        Pool(const MixedTable& table, const std::vector<LabelCosts>& costs, std::size_t most,
             std::size_t cells);
        Count* counts(std::size_t cluster) { return counts_.row(cluster); }
        // Merges the second cluster into the first.
        void join(std::int32_t i, std::int32_t j);
        // Shape `rest`: the cluster of entry e without it.
        void leave_out(std::size_t e);

        const std::size_t most;             // entries during gathering
        std::vector<std::int32_t> classes;  // their classes
        std::vector<Entry> entries;
        std::vector<Cluster> clusters;
        std::vector<std::int32_t> alive_clusters;    // clusters
        double noise = 0;
        Shapes shapes;                      // of the clusters, then of the two below
        const std::size_t without_shape, moved_shape;      // scratch: what is left without some records, and these records

       private:
        Grid<Count> counts_;  // of the models, by cluster
    };

    void collect(const std::int32_t* labels);
    bool is_worthwhile();
    void number_classes();
    bool choose();
    void gather();
    void agglomerate();
    Cost shared_loss(std::int32_t i, std::int32_t j) const;
    double price(std::int32_t i, std::int32_t j, double most);
    void cheapest(std::int32_t i);
    void merge_clusters(std::int32_t i, std::int32_t j);
    void move();
    void merge_equal_clusters();
    Cost total();
    void accept_pool();
    void count(std::size_t cluster, std::int32_t tuple, Count copies);
    bool keeps_with(std::size_t cluster, std::int32_t tuple, Count copies);
    bool satisfies(std::size_t cluster) { return lack(cluster) == 0; }
    double lack(std::size_t cluster);
    double lack_reduction(std::size_t a, std::size_t b);

    const Mixed mixed_;
    const std::int64_t rounds_;
    std::int64_t round_ = 0;
    const std::int64_t min_saving_divisor_;
    const bool swapping_;
    double swept_share_ = 0;                 // the share of all sweeps
    Cost total_loss_ = 0;                    // by all classes
    Cost previous_loss_ = 0;             // at the last call of pays()
    std::int64_t next_ = 0;            // round of the next call of pays()
    XorshiftRandom random_;
    ClassTuples class_tuples_;
    std::vector<std::int32_t> free_class_ids_;                  // unused class ids
    Grid<std::int32_t> neighbours_;                   // by tuple

    std::vector<bool> withheld_;                      // records suppressed from the start
    std::vector<std::int32_t> entry_of_tuple_;  // by tuple: its entry while gathering
    Models models_;
    bool prices_consider_lack_;                     // whether merging prices consider lack
    Pool pool_;
    std::vector<Count> merged_counts_;     // of two clusters
};

}  // namespace dbanon
