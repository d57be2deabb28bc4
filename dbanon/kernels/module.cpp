#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>

#include "dispatch.hpp"
#include "generalization.hpp"
#include "mdav.hpp"
#include "run.hpp"

namespace dbanon {
namespace {


constexpr std::int64_t kDefaultBudget = 1 << 20;

Table checked(const Points& points, std::int64_t k) {
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

Search search_named(const std::string& name) {
    if (name == "auto") return Search::automatic;
    if (name == "index") return Search::index;
    if (name == "brute") return Search::brute;
    throw nb::value_error("search must be 'auto', 'index' or 'brute'");
}

class MdavRun : public Run {
   public:
    MdavRun(Points points, std::int64_t k, const std::string& search)
        : Run(points, std::make_unique<Mdav>(checked(points, k), static_cast<std::int32_t>(k),
                                             search_named(search))) {}
};

}  // namespace
}  // namespace dbanon

NB_MODULE(_kernels, m) {
    using namespace dbanon;
    m.attr("DEFAULT_BUDGET") = kDefaultBudget;
    m.def("simd_level", &simd_level);
    m.def("simd_levels", &simd_levels);
    m.def(
        "set_simd_level",
        [](const std::string& name) {
            if (!set_simd_level(name)) throw nb::value_error("not a level supported here");
            return simd_levels();
        },
        nb::arg("name"));
    nb::class_<Run>(m, "Kernel")
        .def("step", &Run::step, nb::arg("budget") = kDefaultBudget)
        .def_prop_ro("progress", &Run::progress)
        .def("labels", &Run::labels);
    nb::class_<MdavRun, Run>(m, "Mdav")
        .def(nb::init<Points, std::int64_t, const std::string&>(), nb::arg("points").noconvert(),
             nb::arg("k"), nb::arg("search") = "auto");
    bind_generalization(m);
}
