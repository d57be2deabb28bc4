#pragma once

#include "points/centroid.hpp"
#include "points/classes.hpp"

namespace dbanon {

// Centroid-based fixed size: each round takes the record farthest from the centroid, and its
// nearest records.
class Cbfs final : public SequentialKernel {
   public:
    Cbfs(const Table& table, std::int32_t k, Search search)
        : SequentialKernel(table, k, search), centroid_(table) {}

   protected:
    Coroutine run() override;

   private:
    RunningCentroid centroid_;
};

}  // namespace dbanon
