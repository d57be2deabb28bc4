// LDF and HDF for records without coordinates: points/density.hpp with integer squared distances.
// All candidates have k records, so they are ordered by the sum of squared distances of their
// pairs.
//
// Copies of a tuple have candidates of equal density: only the smallest remaining record is rated.
#pragma once

#include "mixed/mixed_sequential.hpp"

namespace dbanon {

class MixedDensity final : public MixedSequentialKernel {
   public:
    MixedDensity(Mixed mixed, std::span<const Cost> squared_step_costs, std::int32_t k, bool lowest_first);

   protected:
    Coroutine run() override;

   private:
    struct Entry {
        Sum sum_of_pair_distances;
        std::int32_t record, tuple, version;
    };
    // For a heap with the next candidate on top.
    bool comes_after(const Entry& a, const Entry& b) const;
    std::int32_t* neighbours(std::int32_t tuple) { return neighbour_lists_.row(tuple); }
    void store_neighbours(std::int32_t tuple);
    std::int32_t drop_assigned(std::int32_t tuple);
    void rate_candidate(std::int32_t tuple, std::int32_t n_remaining);
    Entry pop_next();
    void mark_affected_candidates(std::int32_t removed);

    const bool lowest_first_;
    const std::int32_t max_neighbours_;    // number of stored neighbours
    Grid<std::int32_t> neighbour_lists_;   // by tuple: records near its smallest one, the nearest first
    std::vector<std::int32_t> list_length_, version_;      // by tuple
    std::vector<std::vector<std::int32_t>> holders_;  // by record: tuples whose candidates hold it
    std::vector<bool> is_marked_;                        // by tuple
    std::vector<std::int32_t> candidates_to_rate_;                   // tuples whose candidates need a new rating
    std::vector<Entry> heap_;
    std::vector<std::int32_t> members_;
};

}  // namespace dbanon
