// Queries that own the memory behind the plain structures of search.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "points/search.hpp"

namespace dbanon {

inline bool is_nearer(const RecordDistance& a, const RecordDistance& b) {
    return a.distance < b.distance || (a.distance == b.distance && a.id < b.id);
}

class NearQuery : public Near {
   public:
    // Prepares a search for the `n_nearest` records nearest to `query_point`. `own_id` is a record
    // that does not count as its own neighbour, or -1.
    void start(const double* query_point, std::int32_t n_nearest, std::int32_t own_id = -1) {
        heap_.resize(std::max(n_nearest, 1));
        point = query_point;
        k = n_nearest;
        excluded_id = own_id;
        count = 0;
        pending = 0;
        limit = std::numeric_limits<double>::infinity();
        limit_id = std::numeric_limits<std::int32_t>::max();
        results = heap_.data();
    }
    // After the query: sorts results[0..count) by distance, then index.
    void sort() { std::sort(results, results + count, is_nearer); }

    std::vector<PendingNode> stack_storage;
    std::vector<std::int16_t> coarse_storage;

   private:
    std::vector<RecordDistance> heap_;
};

class FarQuery : public Far {
   public:
    void start(const double* query_point) {
        point = query_point;
        best = {-1.0, -1};
        pending = 0;
    }

    std::vector<PendingNode> stack_storage;
    std::vector<double> direction_storage;
    std::vector<std::int16_t> coarse_storage;
};

// Searches that KdTree runs together.
template <class Query>
class QueryBatch : public Batch<Query> {
   public:
    void clear() { searches_.clear(); }
    // Adds a search that has begun, with a limit near the final one.
    void add(Query& search) { searches_.push_back(&search); }
    std::int32_t size() const { return static_cast<std::int32_t>(searches_.size()); }

    std::vector<PendingQueries> stack_storage;
    std::vector<std::int32_t> entry_storage, mask_storage, word_storage;

   private:
    std::vector<Query*> searches_;
    friend class KdTree;
};

}  // namespace dbanon
