// TFRP (Chang, Li, Huang 2007) for records without coordinates: points/tfrp.hpp with integer
// squared distances. The corners of minima and maxima are equally far from all leaves of a tree, so
// only numbers determine the farthest record. A class's sum of squares is rounded down to an
// integer.
#pragma once

#include <array>

#include "mixed/mixed_sequential.hpp"

namespace dbanon {

class MixedTfrp final : public MixedSequentialKernel {
   public:
    MixedTfrp(Mixed mixed, std::span<const Cost> squared_step_costs, std::int32_t k, bool second_stage)
        : MixedSequentialKernel(std::move(mixed), squared_step_costs, k), second_stage_(second_stage) {}

   protected:
    Coroutine run() override;

   private:
    struct Class {
        std::vector<std::int32_t> records;  // in the order in which they were taken
        std::vector<std::int32_t> tuples;   // of these
        Sum pairs;                          // their squared distances
        Sum squares() const { return pairs / static_cast<Sum>(records.size()); }
    };
    struct JoinedClass {
        std::int32_t label;
        Sum previous_pairs;  // pairs of the class
    };

    void order_records();
    std::int32_t farthest(std::int32_t label);
    Coroutine dissolve_classes();
    Coroutine find_class(std::int32_t tuple, std::int32_t own_label);
    Sum join_class(std::int32_t record, std::int32_t label);
    void undo_joins();
    void renumber();

    const bool second_stage_;
    std::array<std::vector<std::int32_t>, 2> order_;  // by corner: all records, the farthest first
    std::array<std::size_t, 2> next_in_order_{0, 0};
    std::vector<Class> classes_;
    std::vector<JoinedClass> joined_classes_;
    std::int32_t nearest_ = -1;
    Sum distance_sum_to_nearest_ = 0;  // squared distances to the records of the nearest class
};

}  // namespace dbanon
