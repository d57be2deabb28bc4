#pragma once

#include "common/kernel.hpp"
#include "points/centroid.hpp"
#include "points/look_ahead.hpp"
#include "points/records.hpp"

namespace dbanon {

// MDAV (Domingo-Ferrer & Torra 2005); the definition is in docs and in tests/reference/methods.py.
class Mdav final : public Kernel {
   public:
    Mdav(const Table& table, std::int32_t k, Search search)
        : Kernel(table, k),
          records_(make_records(table, search, 3 * (std::int64_t{table.n} / k) / 2)),
          centroid_(table),
          ahead_(table_, labels_, k - 1) {}

   protected:
    Coroutine run() override;

   private:
    void take(std::int32_t id, std::int32_t label);
    void take(NearQuery& q, std::int32_t label);

    std::unique_ptr<Records> records_;
    RunningCentroid centroid_;
    LookAhead ahead_;
    NearQuery near_;
    FarQuery far_;
};

}  // namespace dbanon
