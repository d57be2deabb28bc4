// Orders of records, and cuts of an order into classes: the two halves of MHM.
#pragma once

#include "common/kernel.hpp"
#include "points/centroid.hpp"
#include "points/records.hpp"

namespace dbanon {

// Nearest point next: starting at the record farthest from the centroid, always go to the nearest
// unvisited record. With groups go to the group with the nearest centroid once all records of a
// group are visited. The labels are positions on the path.
class NearestPath final : public Kernel {
   public:
    // `groups` has no gaps; null for one path through all records.
    NearestPath(const Table& table, const std::int32_t* groups);

   protected:
    Coroutine run() override;

   private:
    std::int32_t nearest_unvisited(std::int32_t group, const double* start) const;
    void visit_group(std::int32_t group, std::int32_t start, std::int32_t& position);

    std::vector<std::vector<std::int32_t>> members_;
    std::vector<double> centroids_;
    NearQuery near_;
    RunningCentroid centroid_;
};

// The cut of an order into classes of k to 2k - 1 neighbours with the least SSE: the shortest path of
// Hansen & Mukherjee (2003). Of equal cuts the one with the shorter last class is taken.
class PathCut final : public Kernel {
   public:
    // `order` contains every record once.
    PathCut(const Table& table, std::int32_t k, const std::int32_t* order)
        : Kernel(table, k), order_(order, order + table.n) {}

   protected:
    Coroutine run() override;
    double fraction_done() const override { return 0.9 * n_placed_ / (table_.n + 1.0); }

   private:
    std::vector<std::int32_t> order_;
    std::int32_t n_placed_ = 0;
};

}  // namespace dbanon
