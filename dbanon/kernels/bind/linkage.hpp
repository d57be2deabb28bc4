// Options shared by both kernels of record linkage.
#pragma once

#include <nanobind/stl/optional.h>

#include <optional>

#include "bind/binding.hpp"

namespace dbanon {

using Limits = std::optional<nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;
using Weights =
    std::optional<nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>>;

// Sums over all points stay within 64 bits.
constexpr std::int64_t kMaxWeight = std::int64_t{1} << 32;

inline const double* checked_limits(const Limits& limits, std::int64_t questions) {
    if (!limits) return nullptr;
    if (limits->shape(0) != static_cast<std::size_t>(questions)) {
        throw nb::value_error("one limit for each question");
    }
    for (std::int64_t i = 0; i < questions; ++i) {
        if (!(limits->data()[i] >= 0.0)) throw nb::value_error("limits must be 0 or more");
    }
    return limits->data();
}

inline const std::int64_t* checked_weights(const Weights& weights, std::int64_t points) {
    if (!weights) return nullptr;
    if (weights->shape(0) != static_cast<std::size_t>(points)) {
        throw nb::value_error("one weight for each point");
    }
    for (std::int64_t i = 0; i < points; ++i) {
        if (weights->data()[i] < 0 || weights->data()[i] > kMaxWeight) {
            throw nb::value_error("weights must be from 0 to 2**32");
        }
    }
    return weights->data();
}

}  // namespace dbanon
