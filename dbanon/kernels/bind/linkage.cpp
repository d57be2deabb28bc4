#include "bind/linkage.hpp"

#include "points/linkage.hpp"

namespace dbanon {
namespace {

class LinkageRun : public RunWith<Linkage> {
   public:
    LinkageRun(Points queries, Points points, Limits limits,
               Weights weights, bool second, const std::string& search)
        : RunWith(queries, make(queries, points, limits, weights, second, search)),
          points_(std::move(points)),
          limits_(std::move(limits)),
          weights_(std::move(weights)) {}

    auto distances() { return copied(finished().nearest()); }
    auto seconds() { return copied(finished().next()); }
    auto weights() { return copied(finished().weight()); }

   private:
    static Linkage* make(const Points& queries, const Points& points,
                         const Limits& limits, const Weights& weights,
                         bool second, const std::string& search) {
        const Table from = checked(queries, 1);
        const Table to = checked(points, 1);
        if (from.p != to.p) throw nb::value_error("questions and points of the same attributes");
        return new Linkage(from, to, checked_limits(limits, from.n), checked_weights(weights, to.n),
                           second, search_named(search));
    }

    Points points_;
    Limits limits_;
    Weights weights_;
};

}  // namespace

void bind_linkage(nb::module_& m) {
    nb::class_<LinkageRun, Run>(m, "Linkage")
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
