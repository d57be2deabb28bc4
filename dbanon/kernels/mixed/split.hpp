#pragma once

#include "common/kernel.hpp"
#include "mixed/mixed.hpp"
#include "mixed/models.hpp"

namespace dbanon {

// Splits classes repeatedly as long as both parts have k records, satisfy the privacy models and
// lose less in total. Of all cuts between two values of an attribute the one with the least loss is
// used, in a tie the first attribute and value.
class Split final : public Kernel {
   public:
    // labels: of each record, -1 where suppressed. values: (n, attributes of the models).
    Split(Mixed mixed, const std::int32_t* labels, std::int32_t k,
          const std::int32_t* values, Models models);

   protected:
    Coroutine run() override;

   private:
    using Members = std::vector<std::int32_t>;

    const Code* row(std::int32_t record) const { return mixed_->row(mixed_->tuple_of(record)); }
    void count(std::vector<Count>& counts, std::int32_t record, Count copies) const {
        models_.count(counts.data(),
                      values_.data() + static_cast<std::size_t>(record) * models_.attributes(),
                      copies);
    }
    void find_cut(const Members& members, int attribute);
    void apply_cut(Members& members, Members& second) const;

    const Mixed mixed_;
    Models models_;
    std::vector<std::int32_t> values_;
    std::vector<Members> classes_;
    // For one attribute: the members in its order, and the loss of those from each one on.
    Members order_;
    std::vector<Cost> suffix_loss_;
    std::vector<Count> before_counts_, after_counts_;
    // The best cut so far: below a value of an attribute, and the loss of both parts.
    int cut_attribute_ = -1;
    Code cut_value_ = 0;
    Cost least_loss_ = 0;
};

}  // namespace dbanon
