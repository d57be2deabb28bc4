// Local search alone, from any partition: pools of each class and those nearest to it, again and
// again until no move or swap of records in any pool pays, at most eight times. Classes hold k to
// 2k - 1 records.
#pragma once

#include <vector>

#include "points/class_pools.hpp"
#include "points/queries.hpp"

namespace dbanon {

class Pass final : public ClassPools {
   public:
    // labels, pair_distances: as for ClassPools. Without coordinates the classes nearest to one are those that hold most of
    // the records nearest to its own.
    Pass(const Table& table, std::int32_t k, const std::int32_t* labels,
         std::unique_ptr<PairDistances> pair_distances = nullptr)
        : ClassPools(table, k, labels, std::move(pair_distances)) {}

   protected:
    Coroutine run() override;
    double fraction_done() const override { return fraction_done_; }

   private:
    const std::int32_t* near_classes(std::int32_t class_id) const {
        return near_classes_.data() + std::int64_t{class_id} * n_near_classes_;
    }
    std::int32_t& last_change(std::int32_t class_id) { return last_changes_[static_cast<std::size_t>(class_id)]; }
    void add_centres();
    Coroutine find_near_by_centres();
    Coroutine find_near_by_records();
    bool is_settled(std::int32_t class_id);
    void improve_pool_of(std::int32_t class_id);

    std::int32_t n_near_classes_ = 0;             // near classes stored for each class
    std::vector<double> centres_;        // [class][attribute], before the search
    std::vector<std::int32_t> near_classes_;     // [class][n_near_classes], the nearest first, padded with the class itself
    std::int32_t n_searched_pools_ = 0;             // so far
    std::vector<std::int32_t> last_changes_;  // [class]: the number of the last pool that changed it
    std::vector<std::int32_t> last_searches_;     // [class]: the number of the last pool built around it
    NearQuery query_;
    double fraction_done_ = 0.0;
};

}  // namespace dbanon
