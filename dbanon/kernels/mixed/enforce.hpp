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
// to the reduction of what both lack, or with any class if none helps. The merged class gets the
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
        const double left = static_cast<double>(left_) / (static_cast<double>(failing_) + 1.0);
        return failing_ ? ((by_help_ ? 2.0 : 1.0) - left) / 2 : 0.0;
    }

   private:
    Count* counts(std::size_t c) { return counts_.row(c); }
    double lack(const Count* counts);
    void begin();
    bool look(std::size_t chosen);
    bool look_at(std::size_t chosen, std::size_t other, Cost increase);
    bool withhold(std::size_t c);
    void merge(std::size_t c);
    void end();

    const Mixed mixed_;
    Models models_;
    std::vector<std::int32_t> label_;   // by record, the initial labels
    std::vector<std::int32_t> values_;  // (n, attributes of the models)
    Shapes shapes_;
    Grid<Count> counts_;
    std::vector<Count> together_;
    std::vector<Cost> losses_;
    std::vector<double> lacks_;
    std::vector<std::size_t> alive_, into_;
    std::size_t failing_ = 0, left_ = 0;
    const std::int64_t budget_;
    std::int64_t spare_ = 0;  // remaining budget
    Cost all_ = 0;            // loss of a withheld record
    bool by_help_ = false;
    // What the selected class may merge with, among those examined so far.
    std::size_t next_ = 0, best_ = 0, better_ = 0;
    Cost least_ = 0, least_better_ = 0;
    double help_ = 0;
    Cost increase_ = 0;  // increase of the loss by merging with the selected one
    std::vector<bool> withheld_;
    // Result of the first strategy: labels, loss, and whether a class still fails.
    std::vector<std::int32_t> best_labels_;
    Cost loss_ = 0;
    bool first_fails_ = false;
};

}  // namespace dbanon
