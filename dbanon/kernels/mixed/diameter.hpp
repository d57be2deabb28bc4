// MD, also called DBFS, for records without coordinates: like points/diameter.hpp, with integer
// squared distances.
#pragma once

#include "mixed/mixed_sequential.hpp"

namespace dbanon {

class MixedDiameter final : public MixedSequentialKernel {
   public:
    using MixedSequentialKernel::MixedSequentialKernel;

   protected:
    Coroutine run() override;

   private:
    // The smallest record of a tuple, and an upper bound of its distances: the farthest distance at
    // the last search, which stays valid as records only leave.
    struct Entry {
        Cost bound;
        std::int32_t record, tuple, partner;  // partner: a record
        bool operator<(const Entry& other) const {
            return bound < other.bound || (bound == other.bound && record > other.record);
        }
    };
    void look_for_partner(Entry& entry);
    void push(const Entry& entry);

    std::vector<Entry> heap_, examined_;
};

}  // namespace dbanon
