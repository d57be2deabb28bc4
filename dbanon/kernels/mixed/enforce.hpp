#pragma once

#include "common/kernel.hpp"
#include "mixed/models.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

// Merges classes until each satisfies the privacy models, by two strategies. The result with less
// loss is used, in a tie the first one.
//
// First strategy: the largest failing class merges with the class that increases the loss least
// among those with which it satisfies the models, or with any class if there is none. Second
// strategy: the smallest failing class merges with the class that increases the loss least relative
// to the reduction of what both lack of satisfying the models, or with any class if none helps. The merged class gets the
// other one's number, and ties go to the smaller number. A class is withheld if merging loses more
// than the information in its records, as long as the budget of records lasts.
class Enforce final : public Kernel {
   public:
    // labels: of each record, -1 where suppressed. values: (n, attributes of the models).
    Enforce(Mixed mixed, const std::int32_t* labels,
            const std::int32_t* values, Models models, std::int64_t budget);

   protected:
    Coroutine run() override;
    double fraction_done() const override {
        const double left = static_cast<double>(n_left_) / (static_cast<double>(n_failing_) + 1.0);
        return n_failing_ ? ((is_second_strategy_ ? 2.0 : 1.0) - left) / 2 : 0.0;
    }

   private:
    Count* counts(std::size_t c) { return counts_.row(c); }
    double lack(const Count* counts);
    void start_strategy();
    bool find_partner(std::size_t chosen);
    bool rate_partner(std::size_t chosen, std::size_t other, Cost increase);
    bool withhold(std::size_t c);
    void merge(std::size_t c);
    void finish_strategy();

    const Mixed mixed_;
    Models models_;
    std::vector<std::int32_t> initial_labels_;  // by record
    std::vector<std::int32_t> values_;  // (n, attributes of the models)
    Shapes shapes_;
    Grid<Count> counts_;
    std::vector<Count> merged_counts_;
    std::vector<Cost> losses_;
    std::vector<double> lack_by_class_;
    std::vector<std::size_t> alive_, merged_into_;
    std::size_t n_failing_ = 0, n_left_ = 0;
    const std::int64_t budget_;
    std::int64_t remaining_budget_ = 0;  // of records that may still be withheld
    Cost withheld_loss_ = 0;            // loss of a withheld record
    bool is_second_strategy_ = false;
    // The best classes to merge the selected class with, among those examined so far.
    std::size_t next_partner_ = 0, cheapest_partner_ = 0, cheapest_satisfying_ = 0;
    Cost least_increase_ = 0, least_satisfying_increase_ = 0;
    double best_help_ = 0;
    Cost chosen_increase_ = 0;  // increase of the loss by merging with the selected one
    std::vector<bool> withheld_;
    // Result of the first strategy: labels, loss, and whether a class still fails.
    std::vector<std::int32_t> first_strategy_labels_;
    Cost first_strategy_loss_ = 0;
    bool first_strategy_fails_ = false;
};

}  // namespace dbanon
