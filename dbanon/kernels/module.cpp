#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <limits>

#include "cbfs.hpp"
#include "density.hpp"
#include "diameter.hpp"
#include "dispatch.hpp"
#include "generalization.hpp"
#include "mdav.hpp"
#include "run.hpp"
#include "tfrp.hpp"
#include "vmdav.hpp"

namespace dbanon {
namespace {


constexpr std::int64_t kDefaultBudget = 1 << 19;

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

// A Python class of its own for each kernel; `options` are the arguments between k and search.
template <class Method, class... Options>
class RunOf : public Run {
   public:
    RunOf(Points points, std::int64_t k, Options... options, const std::string& search)
        : Run(points, std::make_unique<Method>(checked(points, k), static_cast<std::int32_t>(k),
                                               options..., search_named(search))) {}
};

template <class Method, class... Options, class... Args>
void add(nb::module_& m, const char* name, const Args&... args) {
    nb::class_<RunOf<Method, Options...>, Run>(m, name)
        .def(nb::init<Points, std::int64_t, Options..., const std::string&>(),
             nb::arg("points").noconvert(), nb::arg("k"), args..., nb::arg("search") = "auto");
}

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
    add<Mdav>(m, "Mdav");
    add<Cbfs>(m, "Cbfs");
    add<Diameter>(m, "Md");
    add<Vmdav, double>(m, "Vmdav", nb::arg("lam") = 0.2);
    add<Tfrp, bool>(m, "Tfrp", nb::arg("second_stage") = true);
    add<Density, bool>(m, "DensityFirst", nb::arg("lowest"));
    bind_generalization(m);
}
