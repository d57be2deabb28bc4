#include <nanobind/stl/optional.h>

#include <optional>

#include "binding.hpp"
#include "linkage.hpp"

namespace dbanon {
namespace {

using Own = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Sums over all points stay within 64 bits.
constexpr std::int64_t kLargestWeight = std::int64_t{1} << 32;

template <class Value>
nb::ndarray<nb::numpy, Value, nb::ndim<1>> copied(const std::vector<Value>& values) {
    auto copy = std::make_unique<std::vector<Value>>(values);
    Value* data = copy->data();
    const std::size_t size = copy->size();
    const nb::capsule owner(copy.get(),
                            [](void* at) noexcept { delete static_cast<std::vector<Value>*>(at); });
    copy.release();
    return {data, {size}, owner};
}

class LinkageRun : public Run {
   public:
    LinkageRun(Points questions, Points points, std::optional<Own> own,
               std::optional<Weights> weights, bool second, const std::string& search)
        : LinkageRun(questions, points, own, weights,
                     make(questions, points, own, weights, second, search).release()) {}

    auto distances() { return copied(finished().nearest()); }
    auto seconds() { return copied(finished().next()); }
    auto own() { return copied(finished().own()); }
    auto weights() { return copied(finished().weight()); }

   private:
    LinkageRun(Points questions, Points points, std::optional<Own> own,
               std::optional<Weights> weights, Linkage* kernel)
        : Run(std::move(questions), std::unique_ptr<Kernel>(kernel)),
          points_(std::move(points)),
          own_(std::move(own)),
          weights_(std::move(weights)),
          kernel_(kernel) {}

    static std::unique_ptr<Linkage> make(const Points& questions, const Points& points,
                                         const std::optional<Own>& own,
                                         const std::optional<Weights>& weights, bool second,
                                         const std::string& search) {
        const Table from = checked(questions, 1);
        const Table to = checked(points, 1);
        if (from.p != to.p) throw nb::value_error("questions and points of the same attributes");
        if (own) {
            if (own->shape(0) != static_cast<std::size_t>(from.n)) {
                throw nb::value_error("one point for each question");
            }
            for (std::int32_t i = 0; i < from.n; ++i) {
                if (own->data()[i] < 0 || own->data()[i] >= to.n) {
                    throw nb::value_error("own must be indices of points");
                }
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
        return std::make_unique<Linkage>(from, to, own ? own->data() : nullptr,
                                         weights ? weights->data() : nullptr, second,
                                         search_named(search));
    }

    Linkage& finished() {
        bool done = false;
        {
            const nb::gil_scoped_release release;
            done = kernel_->done();
        }
        if (!done) throw std::runtime_error("results before step() has returned True");
        return *kernel_;
    }

    Points points_;
    std::optional<Own> own_;
    std::optional<Weights> weights_;
    Linkage* kernel_;  // Run's
};

}  // namespace

void bind_linkage(nb::module_& m) {
    nb::class_<LinkageRun, Run>(m, "Linkage")
        .def(nb::init<Points, Points, std::optional<Own>, std::optional<Weights>, bool,
                      const std::string&>(),
             nb::arg("questions").noconvert(), nb::arg("points").noconvert(),
             nb::arg("own").noconvert().none() = nb::none(),
             nb::arg("weights").noconvert().none() = nb::none(), nb::arg("second") = false,
             nb::arg("search") = "auto")
        .def("distances", &LinkageRun::distances)
        .def("seconds", &LinkageRun::seconds)
        .def("own", &LinkageRun::own)
        .def("weights", &LinkageRun::weights);
}

}  // namespace dbanon
