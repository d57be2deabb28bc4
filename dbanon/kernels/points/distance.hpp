// The distance of two records, for single calls instead of whole blocks.
#pragma once

#include <limits>

namespace dbanon {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Squared; attributes left to right, as search.hpp requires.
inline double distance(const double* a, const double* b, int p) {
    double total = 0.0;
    for (int j = 0; j < p; ++j) total += (a[j] - b[j]) * (a[j] - b[j]);
    return total;
}

}  // namespace dbanon
