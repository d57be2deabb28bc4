// Nearest and farthest searches of records that are likely to be needed soon, run together: each
// part of the tree is then read once for many searches, and memory is what limits a search of many attributes.
//
// A result stays exact for as long as all of its records remain: removing others changes neither the nearest
// nor the farthest. Otherwise it is dropped, and the search is run again when it is needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/kernel.hpp"
#include "points/records.hpp"

namespace dbanon {

class LookAhead {
   public:
    // `labels` is negative for the records that remain.
    LookAhead(const Table& table, const std::vector<std::int32_t>& labels, std::int32_t n_nearest)
        : table_(table), labels_(labels), n_nearest_(n_nearest) {}

    // Replaces the records that are likely to be needed.
    void set_candidates(const std::vector<RecordDistance>& records);
    bool is_candidate(std::int32_t id) const { return std::binary_search(candidates_.begin(), candidates_.end(), id); }
    // Searches what is nearest to each candidate, farthest from it, and nearest to the farthest, where that is not
    // known or has been assigned since.
    Coroutine run(Records& records, Work& work);

    // Fills in the result of a search that has been started, if it is known.
    bool recall(NearQuery& q) const;
    bool recall(FarQuery& q, std::int32_t id) const;
    // The record farthest from this one, or -1 if it is not known.
    std::int32_t farthest_of(std::int32_t id) const;

   private:
    struct Results {
        std::vector<RecordDistance> nearest;
        std::int32_t farthest = -1;
    };
    // The searches that one thread runs together.
    struct Share {
        std::vector<std::int32_t> ids;
        std::vector<NearQuery> near;
        std::vector<FarQuery> far;
        QueryBatch<Near> near_batch;
        QueryBatch<Far> far_batch;
        Work work{0};
        Coroutine searches;
        bool is_complete = false;
    };

    // Distributes the searches about records to threads, and starts them.
    void share_out(const std::vector<std::int32_t>& ids, int n_threads,
                   Coroutine (LookAhead::*search)(const KdTree&, Share&) const, const KdTree& tree);
    // Runs a slice of all searches; true when they are complete.
    bool resume(Records& records, Work& work);
    Coroutine search_farthest(const KdTree& tree, Share& share) const;
    Coroutine search_nearest(const KdTree& tree, Share& share) const;

    bool remains(std::int32_t id) const { return labels_[static_cast<std::size_t>(id)] < 0; }
    const std::vector<RecordDistance>* nearest_to(std::int32_t id) const;

    Table table_;
    const std::vector<std::int32_t>& labels_;
    std::int32_t n_nearest_;
    std::unordered_map<std::int32_t, Results> results_;
    std::vector<std::int32_t> candidates_, ids_;
    std::vector<Share> shares_;
};

}  // namespace dbanon
