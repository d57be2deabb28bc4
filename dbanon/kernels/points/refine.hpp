// Refinement of any partition: local search on SSE over pools of neighbouring classes, then destroy
// and repair of random pools. Classes hold k to 2k - 1 records afterwards.
#pragma once

#include <chrono>

#include "points/class_pools.hpp"
#include "points/recombine.hpp"
#include "points/queries.hpp"
#include "points/records.hpp"

namespace dbanon {

struct Effort {
    std::int64_t iterations;  // maximum of destroy and repair, after the sweeps
    std::int64_t work;        // their budget, in units of Pool::spent()
    double seconds;           // ends the iterations earlier; 0 for no limit
    double heat;              // acceptable initial increase as a share of a pool's loss; decreases to 0
    std::int32_t classes;     // maximum in a pool
    std::uint64_t seed;
};

class Refine final : public ClassPools {
   public:
    // As for ClassPools.
    Refine(const Table& table, std::int32_t k, const std::int32_t* labels, const Effort& effort,
           std::unique_ptr<Apart> apart = nullptr);

   protected:
    Steps run() override;
    double fraction() const override { return done_; }

   private:
    std::int32_t* neighbours(std::int32_t id) {
        return neighbours_.data() + std::int64_t{id} * reach_;
    }
    Steps find_neighbours();
    void gather(std::int32_t first, std::int32_t n_classes);
    void collect();
    void sweep(std::int32_t at);
    void repair(double heat, bool collecting);
    bool recombines() const { return effort_.heat > 0.0 && k_ <= Recombine::kLargest; }
    void keep_best();
    void take_best();
    double elapsed_seconds() const;
    bool in_time() const { return effort_.seconds <= 0.0 || elapsed_seconds() < effort_.seconds; }
    double share_left(std::int64_t iteration, std::int64_t spent) const;

    const Effort effort_;
    const std::int32_t reach_;  // stored neighbours per record
    Random random_;
    std::unique_ptr<Records> records_;
    NearQuery near_;
    std::vector<std::int32_t> neighbours_;  // [record][reach]
    std::vector<std::int32_t> best_;        // [record], as class_of_
    std::vector<Members> improved_;            // of a pool, by part
    double change_ = 0.0, least_ = 0.0;     // change of the loss since the sweeps; least so far
    std::int64_t saved_ = 0;  // work that recombination did not use
    double done_ = 0.0;
    Recombine recombine_;
    std::chrono::steady_clock::time_point start_time_;
};

}  // namespace dbanon
