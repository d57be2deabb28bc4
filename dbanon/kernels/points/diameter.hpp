#pragma once

#include <vector>

#include "points/classes.hpp"

namespace dbanon {

// MD, also called DBFS: the two most distant remaining records, each with its nearest, every round.
//
// There is no distance table. A heap has an upper bound of the distance from each record to its
// farthest remaining partner. Removals only decrease that distance, so bounds stay valid, and are
// exact while the partner remains. Equal bounds are ordered by record, so the search may stop at
// ties.
class Diameter final : public SequentialKernel {
   public:
    Diameter(const Table& table, std::int32_t k, Search search) : SequentialKernel(table, k, search) {}

   protected:
    Coroutine run() override;

   private:
    struct Entry {
        double bound;  // squared
        std::int32_t id;
        std::int32_t partner;  // -1: not yet looked for
        bool operator<(const Entry& other) const {
            return bound < other.bound || (bound == other.bound && id > other.id);
        }
    };
    double distance_to_middle(std::int32_t id) const;

    std::vector<double> centroid_;
    std::vector<Entry> heap_, examined_;
};

}  // namespace dbanon
