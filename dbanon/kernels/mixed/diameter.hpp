// MD, also called DBFS, for records without coordinates: like points/diameter.hpp, with integer
// squared distances.
#pragma once

#include "mixed/taking.hpp"

namespace dbanon {

class MixedDiameter final : public Taking {
   public:
    using Taking::Taking;

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

    std::vector<Entry> heap_, seen_;
};

}  // namespace dbanon
