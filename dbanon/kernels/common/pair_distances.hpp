// Squared distances of records without coordinates: the interface that refinements need.
#pragma once

#include <cstdint>

#include "common/table.hpp"

namespace dbanon {

class PairDistances {
   public:
    virtual ~PairDistances() = default;

    // All pairwise distances of some records: those from the i-th start at out + i * stride. They
    // are integers, so that sums over some thousand records are exact.
    virtual void fill_pairwise(const std::int32_t* ids, std::int32_t count, std::int32_t stride,
                       double* out) = 0;
    // Distances from one record to others.
    virtual void fill_row(std::int32_t id, const std::int32_t* ids, std::int32_t count, double* out) = 0;
    // The cost of a pair, in the unit of Pool::take_work().
    virtual std::int64_t cost_per_distance() const = 0;
    // The nearest other records, by (distance, record); there must be that many.
    virtual void find_nearest(std::int32_t id, std::int32_t count, std::int32_t* ids_out, Work& work) = 0;
};

}  // namespace dbanon
