#pragma once

#include <vector>

#include "points/classes.hpp"

namespace dbanon {

// MD, also called DBFS: the two most distant remaining records, each with its nearest, every round.
//
// Distances are never tabled. A heap holds for each record an upper bound of its distance to its
// farthest remaining partner; removals only shorten that distance, so a bound stays valid, and is exact
// while the partner it was found with remains. Of equal bounds the smaller record comes first, hence
// ties end the search.
class Diameter final : public TakingKernel {
   public:
    Diameter(const Table& table, std::int32_t k, Search search) : TakingKernel(table, k, search) {}

   protected:
    Steps run() override;

   private:
    struct Entry {
        double bound;  // squared
        std::int32_t id;
        std::int32_t partner;  // -1: not yet looked for
        bool operator<(const Entry& other) const {
            return bound < other.bound || (bound == other.bound && id > other.id);
        }
    };
    double reach(std::int32_t id) const;

    std::vector<double> middle_;
    std::vector<Entry> heap_, seen_;
};

}  // namespace dbanon
