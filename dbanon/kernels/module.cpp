#include "binding.hpp"
#include "dispatch.hpp"
#include "mdav.hpp"

namespace dbanon {
namespace {

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
    bind_variable(m);
}
