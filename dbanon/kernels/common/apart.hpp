// Squared distances of records that have no coordinates: all that refinements ask of them.
#pragma once

#include <cstdint>

#include "common/table.hpp"

namespace dbanon {

class Apart {
   public:
    virtual ~Apart() = default;

    // Those of each two of some records: from the i-th to all, from out + i * stride on. Whole
    // numbers, of which sums over some thousand records are exact.
    virtual void pairs(const std::int32_t* ids, std::int32_t count, std::int32_t stride,
                       double* out) = 0;
    // From one record to some.
    virtual void from(std::int32_t id, const std::int32_t* ids, std::int32_t count, double* out) = 0;
    // What a pair takes, in the unit of Pool::spent().
    virtual std::int64_t price() const = 0;
    // The nearest records but itself, by (distance, record); there are as many others.
    virtual void nearest(std::int32_t id, std::int32_t count, std::int32_t* ids_out, Work& work) = 0;
};

}  // namespace dbanon
