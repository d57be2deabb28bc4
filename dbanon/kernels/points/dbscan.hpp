// DBSCAN (Ester, Kriegel, Sander & Xu 1996): classes of records that are linked by dense neighbourhoods.
#pragma once

#include <vector>

#include "common/kernel.hpp"
#include "points/kdtree.hpp"
#include "points/records.hpp"

namespace dbanon {

// A record is core when k records, itself among them, lie within the radius. Classes grow from the
// first core record that is in none, over all within the radius of a core record; what none reaches
// keeps the label -1. One tree answers both questions, as all core records are found before the
// first record is taken out of it: each of the at most 2n queries then takes what it finds, or is
// the last about its record, and no list of neighbours is kept.
class Dbscan final : public Kernel {
   public:
    Dbscan(const Table& table, std::int32_t k, double radius);

   protected:
    Coroutine run() override;
    double fraction_done() const override { return 0.5 * Kernel::fraction_done() + 0.5 * rated_ / (table_.n + 1.0); }

   private:
    void ask(std::int32_t id, std::int32_t n_neighbours);
    void take(std::int32_t id, std::int32_t label);

    const double limit_;  // the squared radius
    KdTree tree_;
    NearQuery near_;
    std::vector<bool> core_;
    std::vector<std::int32_t> waiting_;  // core records of the class whose neighbours are not taken
    std::int32_t rated_ = 0;
};

}  // namespace dbanon
