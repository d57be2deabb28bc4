// Refinements of points, applied to records without coordinates.
#include <nanobind/stl/shared_ptr.h>

#include "bind/checks.hpp"
#include "mixed/mixed_distances.hpp"
#include "points/pass.hpp"

namespace dbanon {
namespace {

Table table_of(const Mixed& mixed) { return {nullptr, mixed->records(), mixed->d()}; }

std::unique_ptr<PairDistances> apart(const Mixed& mixed, const Read<std::int64_t>& squares) {
    return std::make_unique<MixedDistances>(mixed, checked_squares(*mixed, squares));
}

class MixedPassRun : public Run {
   public:
    MixedPassRun(const Mixed& mixed, const Read<std::int64_t>& squares, std::int64_t k,
                 const GivenLabels& labels)
        : Run({}, make(mixed, squares, checked_k(*mixed, k), labels)) {}

   private:
    static std::unique_ptr<Kernel> make(const Mixed& mixed, const Read<std::int64_t>& squares,
                                        std::int64_t k, const GivenLabels& labels) {
        const Table table = table_of(mixed);
        k = least_size(table, k);
        return std::make_unique<Pass>(table, static_cast<std::int32_t>(k),
                                      checked_labels(labels, table, k), apart(mixed, squares));
    }
};

class MixedRefineRun : public Run {
   public:
    MixedRefineRun(const Mixed& mixed, const Read<std::int64_t>& squares, std::int64_t k,
                   const GivenLabels& labels, std::int64_t iterations, std::int64_t work,
                   double seconds, double heat, std::int32_t classes, std::uint64_t seed)
        : Run({}, make(mixed, squares, checked_k(*mixed, k), labels,
                       {iterations, work, seconds, heat, classes, seed})) {}

   private:
    static std::unique_ptr<Kernel> make(const Mixed& mixed, const Read<std::int64_t>& squares,
                                        std::int64_t k, const GivenLabels& labels,
                                        const RefineSettings& effort) {
        const Table table = table_of(mixed);
        k = least_size(table, k);
        return std::make_unique<Refine>(table, static_cast<std::int32_t>(k),
                                        checked_labels(labels, table, k), checked_refine_settings(effort),
                                        apart(mixed, squares));
    }
};

}  // namespace

void bind_mixed_refine(nb::module_& m) {
    nb::class_<MixedPassRun, Run>(m, "MixedPass")
        .def(nb::init<const Mixed&, const Read<std::int64_t>&, std::int64_t, const GivenLabels&>(),
             nb::arg("table"), nb::arg("squares").noconvert(), nb::arg("k"),
             nb::arg("labels").noconvert());
    nb::class_<MixedRefineRun, Run>(m, "MixedRefine")
        .def(nb::init<const Mixed&, const Read<std::int64_t>&, std::int64_t, const GivenLabels&,
                      std::int64_t, std::int64_t, double, double, std::int32_t, std::uint64_t>(),
             nb::arg("table"), nb::arg("squares").noconvert(), nb::arg("k"),
             nb::arg("labels").noconvert(), nb::arg("iterations"), nb::arg("work"),
             nb::arg("seconds"), nb::arg("heat"), nb::arg("classes"), nb::arg("seed"));
}

}  // namespace dbanon
