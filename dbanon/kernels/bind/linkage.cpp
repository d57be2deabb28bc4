#include <nanobind/stl/optional.h>

#include <optional>

#include "bind/binding.hpp"
#include "points/linkage.hpp"

namespace dbanon {
namespace {

using Limits = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Sums over all points stay within 64 bits.
constexpr std::int64_t kLargestWeight = std::int64_t{1} << 32;

class LinkageRun : public RunWith<Linkage> {
   public:
    LinkageRun(Points questions, Points points, std::optional<Limits> limits,
               std::optional<Weights> weights, bool second, const std::string& search)
        : RunWith(questions, make(questions, points, limits, weights, second, search)),
          points_(std::move(points)),
          limits_(std::move(limits)),
          weights_(std::move(weights)) {}

    auto distances() { return copied(finished().nearest()); }
    auto seconds() { return copied(finished().next()); }
    auto weights() { return copied(finished().weight()); }

   private:
    static Linkage* make(const Points& questions, const Points& points,
                         const std::optional<Limits>& limits, const std::optional<Weights>& weights,
                         bool second, const std::string& search) {
        const Table from = checked(questions, 1);
        const Table to = checked(points, 1);
        if (from.p != to.p) throw nb::value_error("questions and points of the same attributes");
        if (limits) {
            if (limits->shape(0) != static_cast<std::size_t>(from.n)) {
                throw nb::value_error("one limit for each question");
            }
            for (std::int32_t i = 0; i < from.n; ++i) {
                if (!(limits->data()[i] >= 0.0)) throw nb::value_error("limits must be 0 or more");
            }
        }
        if (weights) {
            if (weights->shape(0) != static_cast<std::size_t>(to.n)) {
                throw nb::value_error("one weight for each point");
            }
            for (std::int32_t i = 0; i < to.n; ++i) {
                if (weights->data()[i] < 0 || weights->data()[i] > kLargestWeight) {
                    throw nb::value_error("weights must be from 0 to 2**32");
                }
            }
        }
        return new Linkage(from, to, limits ? limits->data() : nullptr,
                           weights ? weights->data() : nullptr, second, search_named(search));
    }

    Points points_;
    std::optional<Limits> limits_;
    std::optional<Weights> weights_;
};

}  // namespace

void bind_linkage(nb::module_& m) {
    nb::class_<LinkageRun, Run>(m, "Linkage")
        .def(nb::init<Points, Points, std::optional<Limits>, std::optional<Weights>, bool,
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
