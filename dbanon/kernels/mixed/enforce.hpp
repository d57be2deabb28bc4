#pragma once

#include "common/kernel.hpp"
#include "mixed/models.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

// Merging classes until each keeps to privacy models, in two ways, of which the one that loses less
// is kept, the first where they lose the same.
//
// The first: of the classes that fail the largest merges with the class that, of those with which
// it keeps to the models, makes the loss grow least; with any class when there is none. The second:
// the smallest one merges with the class that makes the loss grow least for what it helps, which is
// what the two lack less when they are one; with any class when nothing helps. The merged class has
// the other one's number. Ties go to the smaller number.
// A class is withheld where merging loses more than all that its records say, while the budget of
// records lasts.
class Enforce final : public Kernel {
   public:
    // labels: of each record, -1 where suppressed. values: (n, attributes of the models).
    Enforce(Mixed mixed, const std::int32_t* labels,
            const std::int32_t* values, Models models, std::int64_t budget);

   protected:
    Steps run() override;
    double fraction() const override {
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
    std::vector<std::int32_t> label_;   // of each record at the start
    std::vector<std::int32_t> values_;  // (n, attributes of the models)
    Shapes shapes_;
    Grid<Count> counts_;
    std::vector<Count> together_;
    std::vector<Cost> losses_;
    std::vector<double> lacks_;
    std::vector<std::size_t> alive_, into_;
    std::size_t failing_ = 0, left_ = 0;
    const std::int64_t budget_;
    std::int64_t spare_ = 0;  // of the budget
    Cost all_ = 0;            // what a record loses that is withheld
    bool by_help_ = false;
    // What the chosen class may merge with, among those looked at so far.
    std::size_t next_ = 0, best_ = 0, better_ = 0;
    Cost least_ = 0, least_better_ = 0;
    double help_ = 0;
    Cost increase_ = 0;  // of the loss, by merging with the one that was found
    std::vector<bool> withheld_;
    // Of the first way: what it found, what it loses, and whether a class still fails.
    std::vector<std::int32_t> best_labels_;
    Cost loss_ = 0;
    bool first_fails_ = false;
};

}  // namespace dbanon
