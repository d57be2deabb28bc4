// Shared by the sources that define the Python module: checked input.
#pragma once

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "bind/run.hpp"
#include "points/records.hpp"

namespace dbanon {

constexpr std::int64_t kDefaultBudget = 1 << 19;

inline Table checked_table(const Points& points, std::int64_t k) {
    const std::size_t n = points.shape(0);
    const std::size_t p = points.shape(1);
    if (n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 2)) {
        throw nb::value_error("more than 2**30 records");
    }
    if (p < 1 || p > 4096) throw nb::value_error("points must have 1 to 4096 attributes");
    if (k < 1) throw nb::value_error("k must be at least 1");
    if (n < static_cast<std::size_t>(k)) throw nb::value_error("fewer than k records");
    const double* values = points.data();
    bool finite = true;
    {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < n * p; ++i) finite &= std::isfinite(values[i]);
    }
    if (!finite) throw nb::value_error("points must be finite");
    return {values, static_cast<std::int32_t>(n), static_cast<int>(p)};
}

inline Search parse_search(const std::string& name) {
    if (name == "auto") return Search::automatic;
    if (name == "index") return Search::index;
    if (name == "brute") return Search::brute;
    throw nb::value_error("search must be 'auto', 'index' or 'brute'");
}

// Copies a vector to a new array.
template <class Value>
inline nb::ndarray<nb::numpy, Value, nb::ndim<1>> to_numpy(const std::vector<Value>& values) {
    auto copy = std::make_unique<std::vector<Value>>(values);
    Value* data = copy->data();
    const std::size_t size = copy->size();
    const nb::capsule owner(copy.get(),
                            [](void* pointer) noexcept { delete static_cast<std::vector<Value>*>(pointer); });
    copy.release();
    return {data, {size}, owner};
}

// Kernels of classes of variable size, and refinement.
void bind_variable(nb::module_& m);
// Methods on records with hierarchies.
void bind_mixed(nb::module_& m);
void bind_mixed_refine(nb::module_& m);
// Privacy models.
void bind_models(nb::module_& m);
// The blocks that records are assigned to.
void bind_cutting(nb::module_& m);
// Record linkage.
void bind_linkage(nb::module_& m);
void bind_mixed_linkage(nb::module_& m);
// For lower bounds.
void bind_bounds(nb::module_& m);
// Results derived from the labels of all records.
void bind_labels(nb::module_& m);
// Sums without rounding.
void bind_sums(nb::module_& m);
// Splitting and joining rows of COPY.
void bind_rows(nb::module_& m);
// Rows of Python's module sqlite3.
void bind_sqlite_rows(nb::module_& m);
// Minimal sample uniques.
void bind_suda(nb::module_& m);

}  // namespace dbanon
