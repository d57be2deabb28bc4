// Refinement of any partition: local search on SSE over pools of neighbouring classes, then destroy
// and repair of random pools. Classes hold k to 2k - 1 records afterwards.
#pragma once

#include <chrono>

#include "points/class_pools.hpp"
#include "points/recombine.hpp"
#include "points/queries.hpp"
#include "points/records.hpp"

namespace dbanon {

struct RefineSettings {
    std::int64_t max_iterations;  // of destroy and repair, after the sweeps
    std::int64_t max_work;        // for these iterations, in units of Pool::take_work()
    double max_seconds;           // for these iterations; 0 for no limit
    double initial_heat;              // acceptable initial increase as a share of a pool's loss; decreases to 0
    std::int32_t max_pool_classes;     // maximum in a pool
    std::uint64_t seed;
};

class Refine final : public ClassPools {
   public:
    // labels, pair_distances: as for ClassPools.
    Refine(const Table& table, std::int32_t k, const std::int32_t* labels, const RefineSettings& settings,
           std::unique_ptr<PairDistances> pair_distances = nullptr);

   protected:
    Coroutine run() override;
    double fraction_done() const override { return fraction_done_; }

   private:
    std::int32_t* neighbours(std::int32_t id) {
        return neighbours_.data() + std::int64_t{id} * n_neighbours_;
    }
    Coroutine find_neighbours();
    void gather(std::int32_t first, std::int32_t n_classes);
    void collect_classes();
    void sweep(std::int32_t class_id);
    void repair(double temperature, bool collecting);
    bool uses_recombination() const { return settings_.initial_heat > 0.0 && k_ <= Recombine::kMaxK; }
    void save_best();
    void restore_best();
    double elapsed_seconds() const;
    bool has_time_left() const { return settings_.max_seconds <= 0.0 || elapsed_seconds() < settings_.max_seconds; }
    double fraction_left(std::int64_t iteration, std::int64_t spent) const;

    const RefineSettings settings_;
    const std::int32_t n_neighbours_;  // stored neighbours per record
    Random random_;
    std::unique_ptr<Records> records_;
    NearQuery near_;
    std::vector<std::int32_t> neighbours_;  // [record][n_neighbours]
    std::vector<std::int32_t> best_;        // [record], as class_of_
    std::vector<Members> pool_members_;            // of a pool, by part
    double loss_change_ = 0.0, best_loss_change_ = 0.0;     // change of the loss since the sweeps; least so far
    std::int64_t unused_recombine_work_ = 0;  // work that recombination did not use
    double fraction_done_ = 0.0;
    Recombine recombine_;
    std::chrono::steady_clock::time_point start_time_;
};

}  // namespace dbanon
