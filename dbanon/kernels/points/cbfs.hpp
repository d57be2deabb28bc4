#pragma once

#include "points/centroid.hpp"
#include "points/classes.hpp"

namespace dbanon {

// Centroid-based fixed size: each round takes the record farthest from the centroid, and its
// nearest records.
class Cbfs final : public TakingKernel {
   public:
    Cbfs(const Table& table, std::int32_t k, Search search)
        : TakingKernel(table, k, search), centroid_(table) {}

   protected:
    Steps run() override;

   private:
    RunningCentroid centroid_;
};

}  // namespace dbanon
