#pragma once

#include "common/chance.hpp"
#include "common/kernel.hpp"
#include "mixed/models.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

// Local search after any method, on the loss of labels where these are given: a few neighbouring
// classes are taken apart and put together anew by randomized agglomeration and moves of single
// records; kept when the loss does not grow. Where classes keep to privacy models, they still do:
// small is then also what does not.
class RefineLoss final : public Kernel {
   public:
    RefineLoss(Mixed mixed, const std::int32_t* labels, std::int32_t k,
               std::int64_t rounds, std::uint64_t seed, Models models,
               const std::vector<LabelCosts>& label_costs = {});

   protected:
    Steps run() override;
    double fraction() const override {
        return static_cast<double>(round_) / (static_cast<double>(rounds_) + 1.0);
    }

   private:
    struct Entry {
        std::int32_t tuple;
        std::int32_t count;
        std::int32_t owner;
    };
    struct Class {
        std::vector<std::pair<std::int32_t, std::int32_t>> tuples;  // with their copies
        Cost loss = 0;
    };

    void collect(const std::int32_t* labels);
    bool choose();
    void gather();
    void agglomerate();
    bool lends(std::int32_t j) const;
    double price(std::int32_t i, std::int32_t j, double most);
    void cheapest(std::int32_t i);
    void unite(std::int32_t i, std::int32_t j);
    void move();
    void join_same();
    Cost total();
    void keep();
    void without(std::size_t e, std::size_t scratch);
    Count* counts(std::size_t shape) { return counts_.data() + shape * models_.cells(); }
    void count(std::size_t shape, std::int32_t tuple, Count copies);
    bool keeps_with(std::size_t shape, std::int32_t tuple, Count copies);
    bool keeps(std::size_t shape) { return lack(shape) == 0; }
    double lack(std::size_t shape);
    double help(std::size_t a, std::size_t b);

    const Mixed mixed_;
    const std::int64_t rounds_;
    std::int64_t round_ = 0;
    Chance chance_;
    std::vector<Class> classes_;
    std::vector<std::int32_t> free_;                  // numbers of no class
    std::vector<std::vector<std::int32_t>> classes_of_;  // by tuple
    std::vector<std::int32_t> neighbours_;            // (tuples, near_)
    std::int32_t near_ = 0;

    std::vector<bool> withheld_;                      // records suppressed from the start

    // The pool of a round.
    std::vector<std::int32_t> pool_;
    std::vector<Entry> entries_;
    std::vector<std::int32_t> slot_;   // by tuple: its entry while gathering
    std::size_t most_;                 // entries
    Shapes shapes_;                    // clusters by their first entry, then tuples, then scratch
    std::vector<std::int32_t> alive_;  // clusters
    std::vector<std::int32_t> best_;   // partner of a small cluster
    std::vector<double> price_;
    std::vector<Cost> loss_;
    double noise_ = 0;
    Models models_;
    bool guided_;                      // whether prices look at what clusters lack
    std::vector<Count> counts_;        // of the models, by shape
    std::vector<Count> together_;
    std::vector<double> lack_;         // by cluster: what it lacks to be a class
};

}  // namespace dbanon
