// DBSCAN (Ester, Kriegel, Sander & Xu 1996): classes of records that are linked by dense neighbourhoods.
#pragma once

#include <vector>

#include "common/kernel.hpp"
#include "points/kdtree.hpp"
#include "points/records.hpp"

namespace dbanon {

// A record is a core record if at least k records, including itself, lie within the radius. A class
// grows from the first unassigned core record to all records within the radius of its core records;
// records that no class reaches keep the label -1.
//
// All core records are identified before the first record is assigned, so one tree serves both
// phases: assigned records are erased from it, each query returns unassigned records only, and no
// lists of neighbours are stored. There are at most 2n queries.
class Dbscan final : public Kernel {
   public:
    Dbscan(const Table& table, std::int32_t k, double radius);

   protected:
    Coroutine run() override;
    double fraction_done() const override { return 0.5 * Kernel::fraction_done() + 0.5 * n_rated_ / (table_.n + 1.0); }

   private:
    void start_query(std::int32_t id, std::int32_t n_neighbours);
    void take(std::int32_t id, std::int32_t label);

    const double squared_radius_;
    KdTree tree_;
    NearQuery near_;
    std::vector<bool> is_core_;
    std::vector<std::int32_t> core_to_expand_;  // core records of the class whose neighbours are not assigned yet
    std::int32_t n_rated_ = 0;
};

}  // namespace dbanon
