// Refinements of points, applied to records without coordinates.
#include <nanobind/stl/shared_ptr.h>

#include "bind/checks.hpp"
#include "mixed/mixed_distances.hpp"
#include "points/pass.hpp"

namespace dbanon {
namespace {

Table make_table(const Mixed& mixed) { return {nullptr, mixed->records(), mixed->n_attributes()}; }

std::unique_ptr<PairDistances> make_distances(const Mixed& mixed, const InputArray<std::int64_t>& squares) {
    return std::make_unique<MixedDistances>(mixed, checked_squares(*mixed, squares));
}

class MixedPassRun : public KernelRun {
   public:
    MixedPassRun(const Mixed& mixed, const InputArray<std::int64_t>& squares, std::int64_t k,
                 const InputLabels& labels)
        : KernelRun({}, make(mixed, squares, checked_k(*mixed, k), labels)) {}

   private:
    static std::unique_ptr<Kernel> make(const Mixed& mixed, const InputArray<std::int64_t>& squares,
                                        std::int64_t k, const InputLabels& labels) {
        const Table table = make_table(mixed);
        k = limit_k(table, k);
        return std::make_unique<Pass>(table, static_cast<std::int32_t>(k),
                                      checked_labels(labels, table, k), make_distances(mixed, squares));
    }
};

class MixedRefineRun : public KernelRun {
   public:
    MixedRefineRun(const Mixed& mixed, const InputArray<std::int64_t>& squares, std::int64_t k,
                   const InputLabels& labels, std::int64_t iterations, std::int64_t work,
                   double seconds, double heat, std::int32_t classes, std::uint64_t seed)
        : KernelRun({}, make(mixed, squares, checked_k(*mixed, k), labels,
                       {iterations, work, seconds, heat, classes, seed})) {}

   private:
    static std::unique_ptr<Kernel> make(const Mixed& mixed, const InputArray<std::int64_t>& squares,
                                        std::int64_t k, const InputLabels& labels,
                                        const RefineSettings& effort) {
        const Table table = make_table(mixed);
        k = limit_k(table, k);
        return std::make_unique<Refine>(table, static_cast<std::int32_t>(k),
                                        checked_labels(labels, table, k), checked_refine_settings(effort),
                                        make_distances(mixed, squares));
    }
};

}  // namespace

void bind_mixed_refine(nb::module_& m) {
    nb::class_<MixedPassRun, KernelRun>(m, "MixedPass")
        .def(nb::init<const Mixed&, const InputArray<std::int64_t>&, std::int64_t, const InputLabels&>(),
             nb::arg("table"), nb::arg("squares").noconvert(), nb::arg("k"),
             nb::arg("labels").noconvert());
    nb::class_<MixedRefineRun, KernelRun>(m, "MixedRefine")
        .def(nb::init<const Mixed&, const InputArray<std::int64_t>&, std::int64_t, const InputLabels&,
                      std::int64_t, std::int64_t, double, double, std::int32_t, std::uint64_t>(),
             nb::arg("table"), nb::arg("squares").noconvert(), nb::arg("k"),
             nb::arg("labels").noconvert(), nb::arg("iterations"), nb::arg("work"),
             nb::arg("seconds"), nb::arg("heat"), nb::arg("classes"), nb::arg("seed"));
}

}  // namespace dbanon
