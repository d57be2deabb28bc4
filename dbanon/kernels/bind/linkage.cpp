#include "bind/linkage.hpp"

#include "points/linkage.hpp"

namespace dbanon {
namespace {

class LinkageRun : public ResultRun<Linkage> {
   public:
    LinkageRun(Points queries, Points points, Limits limits,
               Weights weights, bool second, const std::string& search)
        : ResultRun(queries, make(queries, points, limits, weights, second, search)),
          points_(std::move(points)),
          limits_(std::move(limits)),
          weights_(std::move(weights)) {}

    auto distances() { return to_numpy(finished_kernel().nearest()); }
    auto seconds() { return to_numpy(finished_kernel().second_nearest()); }
    auto weights() { return to_numpy(finished_kernel().tied_weight()); }

   private:
    static Linkage* make(const Points& queries, const Points& points,
                         const Limits& limits, const Weights& weights,
                         bool second, const std::string& search) {
        const Table query_table = checked_table(queries, 1);
        const Table point_table = checked_table(points, 1);
        if (query_table.p != point_table.p) throw nb::value_error("questions and points of the same attributes");
        return new Linkage(query_table, point_table, checked_limits(limits, query_table.n), checked_weights(weights, point_table.n),
                           second, parse_search(search));
    }

    Points points_;
    Limits limits_;
    Weights weights_;
};

}  // namespace

void bind_linkage(nb::module_& m) {
    nb::class_<LinkageRun, KernelRun>(m, "Linkage")
        .def(nb::init<Points, Points, Limits, Weights, bool,
                      const std::string&>(),
             nb::arg("questions").noconvert(), nb::arg("points").noconvert(),
             nb::arg("limits").noconvert().none() = nb::none(),
             nb::arg("weights").noconvert().none() = nb::none(), nb::arg("second") = false,
             nb::arg("search") = "auto")
        .def("distances", &LinkageRun::distances)
        .def("seconds", &LinkageRun::seconds)
        .def("weights", &LinkageRun::weights);
}

}  // namespace dbanon
