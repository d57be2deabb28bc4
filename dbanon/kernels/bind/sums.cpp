#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <tuple>
#include <vector>

#include "bind/binding.hpp"
#include "common/sums.hpp"

namespace dbanon {
namespace {

using StridedValues = nb::ndarray<const double, nb::ndim<1>, nb::device::cpu>;
// An exponent, and the words of both sums.
using ExponentSums = std::tuple<std::int64_t, std::int64_t, std::uint64_t, std::uint64_t,
                              std::uint64_t, std::uint64_t>;

std::tuple<double, double, bool, std::vector<ExponentSums>> exact_sums(StridedValues values) {
    const auto sums = std::make_unique<ExactSums>();
    bool finite = false;
    {
        const nb::gil_scoped_release release;
        finite = sums->add({values.data(), static_cast<std::ptrdiff_t>(values.stride(0)),
                            values.shape(0)});
    }
    if (!finite) throw nb::value_error("values must be finite");
    std::vector<ExponentSums> exponent_sums;
    for (std::size_t e = 0; e < ExactSums::kExponents; ++e) {
        if (sums->empty(e)) continue;
        const auto total = sums->total(e);
        const auto squares = sums->squares(e);
        const auto word = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
        exponent_sums.emplace_back(static_cast<std::int64_t>(e ? e - 1 : 0), total[0], word(total[1]),
                           word(squares[0]), word(squares[1]), word(squares[2]));
    }
    return {sums->min(), sums->max(), sums->all_integers(), std::move(exponent_sums)};
}

}  // namespace

void bind_sums(nb::module_& m) { m.def("exact_sums", &exact_sums, nb::arg("values")); }

}  // namespace dbanon
