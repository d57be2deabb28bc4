#pragma once

#include "common/kernel.hpp"
#include "mixed/mixed.hpp"
#include "mixed/models.hpp"

namespace dbanon {

// Cutting classes in two, again and again, where both parts hold k records and keep to privacy
// models, and together lose less: of all cuts between two values of an attribute the one that loses
// least, the first attribute and the first value in a tie.
class Split final : public Kernel {
   public:
    // labels: of each record, -1 where suppressed. values: (n, attributes of the models).
    Split(Mixed mixed, const std::int32_t* labels, std::int32_t k,
          const std::int32_t* values, Models models);

   protected:
    Steps run() override;

   private:
    using Members = std::vector<std::int32_t>;

    const Code* row(std::int32_t record) const { return mixed_->row(mixed_->tuple_of(record)); }
    void count(std::vector<Count>& counts, std::int32_t record, Count copies) const {
        models_.count(counts.data(),
                      values_.data() + static_cast<std::size_t>(record) * models_.attributes(),
                      copies);
    }
    void look(const Members& members, int attribute);
    void cut(Members& members, Members& second) const;

    const Mixed mixed_;
    Models models_;
    std::vector<std::int32_t> values_;
    std::vector<Members> classes_;
    // Of one attribute: the members in its order, what those from each one on lose.
    Members order_;
    std::vector<Cost> after_;
    std::vector<Count> before_counts_, after_counts_;
    // The best cut so far: below a value of an attribute, and what both parts lose.
    int attribute_ = -1;
    Code below_ = 0;
    Cost least_ = 0;
};

}  // namespace dbanon
