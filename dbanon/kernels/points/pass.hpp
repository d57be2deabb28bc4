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
    // As of ClassPools. Without coordinates the classes nearest to one are those that hold most of
    // the records nearest to its own.
    Pass(const Table& table, std::int32_t k, const std::int32_t* labels,
         std::unique_ptr<PairDistances> pair_distances = nullptr)
        : ClassPools(table, k, labels, std::move(pair_distances)) {}

   protected:
    Coroutine run() override;
    double fraction_done() const override { return done_; }

   private:
    const std::int32_t* near(std::int32_t class_id) const {
        return near_.data() + std::int64_t{class_id} * reach_;
    }
    std::int32_t& changed(std::int32_t class_id) { return changed_[static_cast<std::size_t>(class_id)]; }
    void add_centres();
    Coroutine find_near();
    Coroutine find_holding();
    bool settled(std::int32_t class_id);
    void descend(std::int32_t class_id);

    std::int32_t reach_ = 0;             // classes known near each class
    std::vector<double> centres_;        // [class][attribute], before the search
    std::vector<std::int32_t> near_;     // [class][reach], the nearest first; then itself
    std::int32_t pools_ = 0;             // that were searched so far
    std::vector<std::int32_t> changed_;  // [class]: the last pool that changed it
    std::vector<std::int32_t> seen_;     // [class]: the last pool that was its own
    NearQuery query_;
    double done_ = 0.0;
};

}  // namespace dbanon
