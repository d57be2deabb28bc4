// Own the memory behind the plain query structures of search.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "points/search.hpp"

namespace dbanon {

inline bool nearer(const Found& a, const Found& b) {
    return a.distance < b.distance || (a.distance == b.distance && a.id < b.id);
}

class NearQuery : public Near {
   public:
    // `exclude` is a record that does not count as its own neighbour, or -1.
    void start(const double* position, std::int32_t size, std::int32_t excluded = -1) {
        heap_.resize(std::max(size, 1));
        point = position;
        k = size;
        exclude = excluded;
        count = 0;
        pending = 0;
        limit = std::numeric_limits<double>::infinity();
        limit_id = std::numeric_limits<std::int32_t>::max();
        found = heap_.data();
    }
    // Ends the query: found[0..count) by distance, then index.
    void sort() { std::sort(found, found + count, nearer); }

    std::vector<Pending> waiting;
    std::vector<std::int16_t> steps;

   private:
    std::vector<Found> heap_;
};

class FarQuery : public Far {
   public:
    void start(const double* position) {
        point = position;
        best = {-1.0, -1};
        pending = 0;
    }

    std::vector<Pending> waiting;
    std::vector<double> direction;
    std::vector<std::int16_t> steps;
};

}  // namespace dbanon
