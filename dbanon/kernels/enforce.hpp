#pragma once

#include "kernel.hpp"
#include "models.hpp"
#include "shapes.hpp"

namespace dbanon {

// Merging classes until each keeps to privacy models. Of the classes that fail the largest merges
// with the class that, of those with which it keeps to the models, makes the loss grow least; with
// any class when there is none. It then has that class's number. Ties go to the smaller number.
// A class is withheld where merging loses more than all that its records say, while the budget of
// records lasts.
class Enforce final : public Kernel {
   public:
    // labels: of each record, -1 where suppressed. values: (n, attributes of the models).
    Enforce(std::unique_ptr<MixedTable> mixed, const std::int32_t* labels,
            const std::int32_t* values, Models models, std::int64_t budget);

   protected:
    Steps run() override;
    double fraction() const override {
        return failing_ ? 1.0 - static_cast<double>(left_) / (static_cast<double>(failing_) + 1.0)
                        : 0.0;
    }

   private:
    Count* counts(std::size_t c) { return counts_.data() + c * models_.cells(); }
    std::size_t target(std::size_t chosen);
    bool withhold(std::size_t c);

    std::unique_ptr<MixedTable> mixed_;
    Models models_;
    std::vector<std::int32_t> label_;  // of each record at the start
    Shapes shapes_;
    std::vector<Count> counts_, together_;
    std::vector<Cost> losses_;
    std::vector<std::size_t> alive_;
    std::size_t failing_ = 0, left_ = 0;
    std::int64_t budget_;
    Cost all_ = 0;        // what a record loses that is withheld
    Cost increase_ = 0;   // of the loss, by merging with the last target
    std::vector<bool> withheld_;
};

}  // namespace dbanon
