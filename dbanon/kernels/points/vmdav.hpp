#pragma once

#include <vector>

#include "points/classes.hpp"

namespace dbanon {

// V-MDAV (Solanas & Martinez-Balleste 2006): a class of k is extended, up to 2k - 1, by the nearest
// record outside while that record is nearer to the class than lambda times its distance to the others.
// Seeds are chosen by descending distance from the centroid of the table.
class Vmdav final : public SequentialKernel {
   public:
    Vmdav(const Table& table, std::int32_t k, double lambda, Search search)
        : SequentialKernel(table, k, search), lambda_(lambda) {}

   protected:
    Coroutine run() override;

   private:
    struct Member {
        std::int32_t id;
        RecordDistance nearest_outside;  // its nearest record outside the class
    };
    double lambda_;
    std::vector<double> centroid_;
    std::vector<Member> members_;
};

}  // namespace dbanon
