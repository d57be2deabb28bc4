#include "bind/binding.hpp"
#include "mixed/lanes.hpp"
#include "points/cbfs.hpp"
#include "points/coarse.hpp"
#include "points/density.hpp"
#include "points/diameter.hpp"
#include "points/dispatch.hpp"
#include "points/mdav.hpp"
#include "points/mst.hpp"
#include "points/tfrp.hpp"
#include "points/vmdav.hpp"
#include "points/ward.hpp"

namespace dbanon {
namespace {

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

extern const char* const dbanon_sources;  // in a file that sources.py writes

NB_MODULE(_kernels, m) {
    using namespace dbanon;
    m.attr("DEFAULT_BUDGET") = kDefaultBudget;
    m.attr("SOURCES") = dbanon_sources;
    m.def("simd_level", &simd_level);
    m.def("simd_levels", &simd_levels);
    m.def(
        "set_simd_level",
        [](const std::string& name) {
            if (!set_simd_level(name) || !set_lanes(name.c_str())) throw nb::value_error("not a level supported here");
            return simd_levels();
        },
        nb::arg("name"));
    m.def("allow_whole_steps", &allow_whole_steps, nb::arg("value"));
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
    add<Ward>(m, "Ward");
    add<Mst, bool>(m, "Mst", nb::arg("diametric"));
    bind_models(m);
    bind_mixed(m);
    bind_mixed_refine(m);
    bind_variable(m);
    bind_linkage(m);
    bind_mixed_linkage(m);
    bind_bounds(m);
    bind_labels(m);
    bind_sums(m);
    bind_rows(m);
    bind_cutting(m);
}
