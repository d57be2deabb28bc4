// The nearest other records of each record: the sum of their distances, and their indices.
#pragma once

#include <memory>
#include <vector>

#include "common/grid.hpp"
#include "common/kernel.hpp"
#include "points/records.hpp"

namespace dbanon {

class Neighbours final : public Kernel {
   public:
    // `count` others of each record, fewer than there are records. `keep` stores their indices.
    Neighbours(const Table& table, std::int32_t count, bool keep, Search search)
        : Kernel(table, 1),
          count_(count),
          keep_(keep),
          records_(make_records(table, search, table.n)),
          sums_(table.n),
          ids_(keep ? sums_.size() : 0, count) {}

    std::int32_t count() const { return count_; }
    const std::vector<double>& sums() const { return sums_; }       // of squared distances
    const std::vector<std::int32_t>& ids() const { return ids_.values(); }  // n x count, nearest first

   protected:
    Coroutine run() override;

   private:
    const std::int32_t count_;
    const bool keep_;
    std::unique_ptr<Records> records_;
    NearQuery near_;
    std::vector<double> sums_;
    Grid<std::int32_t> ids_;
};

}  // namespace dbanon
