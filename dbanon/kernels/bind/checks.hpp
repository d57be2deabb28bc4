// Input checks shared by several kinds of kernels.
#pragma once

#include <span>

#include "bind/arrays.hpp"
#include "bind/binding.hpp"
#include "mixed/mixed.hpp"
#include "points/refine.hpp"

namespace dbanon {

using InputLabels = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Checks that labels have no gaps and that each class has at least k records.
const std::int32_t* checked_labels(const InputLabels& labels, const Table& table, std::int64_t k);
// Checks the limits of a refinement.
const RefineSettings& checked_refine_settings(const RefineSettings& effort);
// For a kernel whose classes have up to 2k - 1 records: class sizes must not overflow.
inline std::int32_t limit_k(const Table& table, std::int64_t k) {
    return static_cast<std::int32_t>(std::min<std::int64_t>(k, table.n / 2 + 1));
}
// For records without coordinates: checks k, and the squared distances of one step in each tree.
std::int32_t checked_k(const MixedTable& table, std::int64_t k);
std::span<const Cost> checked_squares(const MixedTable& table, const InputArray<std::int64_t>& each);

}  // namespace dbanon
