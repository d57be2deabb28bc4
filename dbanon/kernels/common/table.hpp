// The input of a kernel, and the size of a slice of work.
#pragma once

#include <cstdint>

namespace dbanon {

// A matrix of records owned by the caller, row by row.
struct Table {
    const double* points;
    std::int32_t n;
    int p;
    const double* row(std::int32_t id) const { return points + std::int64_t{id} * p; }
};

// The remaining budget of a slice, in elementary distance evaluations, and the threads that may share it.
struct Work {
    std::int64_t left;
    int n_threads = 1;
    bool is_spent() const { return left <= 0; }
};

}  // namespace dbanon
