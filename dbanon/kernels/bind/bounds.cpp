#include "bind/binding.hpp"
#include "points/fitting.hpp"
#include "points/gathering.hpp"
#include "points/neighbours.hpp"
#include "points/pricing.hpp"

namespace dbanon {
namespace {

using Values = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using PriceRows = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Members = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Pairs = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Larger classes would need too much stack for the pairwise distances of a branch, and far too much
// time.
constexpr std::int64_t kMaxPricedK = 64;

class NeighboursRun : public ResultRun<Neighbours> {
   public:
    NeighboursRun(Points points, std::int64_t count, bool keep, const std::string& search)
        : ResultRun(points, make(points, count, keep, search)) {}

    auto sums() { return to_numpy(finished_kernel().sums()); }
    auto ids() { return to_numpy(finished_kernel().ids()); }

   private:
    static Neighbours* make(const Points& points, std::int64_t count, bool keep,
                            const std::string& search) {
        const Table table = checked_table(points, 1);
        if (count < 0 || count >= table.n) throw nb::value_error("count from 0 to below n");
        return new Neighbours(table, static_cast<std::int32_t>(count), keep, parse_search(search));
    }
};

class FittingRun : public ResultRun<Fitting> {
   public:
    FittingRun(Points points, Members classes, Values prices, double smoothing, std::int64_t sweeps)
        : ResultRun(points, make(points, classes, prices, smoothing, sweeps)) {}

    auto prices() { return to_numpy(finished_kernel().prices()); }
    auto excess() { return to_numpy(finished_kernel().excess()); }

   private:
    static Fitting* make(const Points& points, const Members& classes, const Values& prices,
                         double smoothing, std::int64_t sweeps) {
        const std::size_t k = classes.shape(1);
        const Table table = checked_table(points, static_cast<std::int64_t>(k));
        const std::size_t n = table.n, count = classes.shape(0);
        if (count >= (std::size_t{1} << 31) / (k + 1)) throw nb::value_error("too many classes");
        for (std::size_t i = 0; i < count * k; ++i) {
            const std::int32_t record = classes.data()[i];
            if (record < 0 || static_cast<std::size_t>(record) >= n) {
                throw nb::value_error("classes must be of records");
            }
        }
        if (prices.shape(0) != n) throw nb::value_error("one price for each record");
        for (std::size_t i = 0; i < n; ++i) {
            if (!std::isfinite(prices.data()[i])) throw nb::value_error("prices must be finite");
        }
        if (!(smoothing > 0.0) || !std::isfinite(smoothing) || sweeps < 0) {
            throw nb::value_error("spread above 0, sweeps from 0");
        }
        return new Fitting(table, static_cast<std::int32_t>(k), classes.data(), count,
                           prices.data(), smoothing, sweeps);
    }
};

class GatheringRun : public ResultRun<Gathering> {
   public:
    GatheringRun(Points points, std::int64_t k, Values prices, Points centres, double threshold)
        : ResultRun(points, make(points, k, prices, centres, threshold)),
          prices_(std::move(prices)),
          centres_(std::move(centres)) {}

    auto classes() { return to_numpy(finished_kernel().classes()); }

   private:
    static Gathering* make(const Points& points, std::int64_t k, const Values& prices,
                           const Points& centres, double threshold) {
        const Table table = checked_table(points, k);
        const Table centre_table = checked_table(centres, 1);
        if (centre_table.p != table.p) throw nb::value_error("centres must have the points' attributes");
        const std::size_t n = table.n;
        if (prices.shape(0) != n) throw nb::value_error("one price for each record");
        for (std::size_t i = 0; i < n; ++i) {
            if (!std::isfinite(prices.data()[i])) throw nb::value_error("prices must be finite");
        }
        if (!std::isfinite(threshold)) throw nb::value_error("threshold must be finite");
        return new Gathering(table, static_cast<std::int32_t>(k), prices.data(), centre_table.points,
                             static_cast<std::size_t>(centre_table.n), threshold);
    }

    Values prices_;
    Points centres_;
};

class PricingRun : public ResultRun<Pricing> {
   public:
    PricingRun(Points points, std::int64_t k, Values prices, Values nearest_sums, PriceRows smaller_class_prices,
               double threshold, std::int64_t classes_per_seed, std::int64_t max_steps, Pairs pairs, Values tolls,
               const std::string& search)
        : ResultRun(points, make(points, k, prices, nearest_sums, smaller_class_prices, threshold, classes_per_seed, max_steps,
                               checked_tolls(points, pairs, tolls), parse_search(search))),
          prices_(std::move(prices)),
          nearest_sums_(std::move(nearest_sums)),
          smaller_class_prices_(std::move(smaller_class_prices)) {}

    auto lower_bounds() { return to_numpy(finished_kernel().lower_bounds()); }
    auto classes() { return to_numpy(finished_kernel().classes()); }

   private:
    static Pricing* make(const Points& points, std::int64_t k, const Values& prices,
                         const Values& nearest_sums, const PriceRows& smaller_class_prices, double threshold, std::int64_t classes_per_seed,
                         std::int64_t max_steps, const Tolls& tolls, Search search) {
        const Table table = checked_table(points, k);
        if (k < 2 || k > kMaxPricedK) throw nb::value_error("k must be from 2 to 64");
        const std::size_t n = table.n;
        if (prices.shape(0) != n || nearest_sums.shape(0) != n) {
            throw nb::value_error("one price and one bar for each record");
        }
        for (std::size_t i = 0; i < n; ++i) {
            if (!std::isfinite(prices.data()[i]) || !(nearest_sums.data()[i] >= 0.0)) {
                throw nb::value_error("prices must be finite, bars 0 or more");
            }
        }
        const std::size_t rows = smaller_class_prices.shape(0);
        if (rows && (smaller_class_prices.shape(1) != n || rows + 2 != static_cast<std::size_t>(k))) {
            throw nb::value_error("inner must have no rows, or k - 2 of a value for each record");
        }
        for (std::size_t i = 0; i < rows * n; ++i) {
            if (!std::isfinite(smaller_class_prices.data()[i])) throw nb::value_error("inner must be finite");
        }
        if (!(threshold <= 0.0) || !std::isfinite(threshold) || classes_per_seed < 1 || classes_per_seed > 1000 ||
            max_steps < 1) {
            throw nb::value_error("threshold 0 or less, 1 to 1000 wanted, effort from 1");
        }
        return new Pricing(table, static_cast<std::int32_t>(k), prices.data(), nearest_sums.data(),
                           rows ? smaller_class_prices.data() : nullptr, threshold,
                           static_cast<std::int32_t>(classes_per_seed), max_steps, tolls, search);
    }
    static Tolls checked_tolls(const Points& points, const Pairs& pairs, const Values& tolls) {
        const std::size_t count = tolls.shape(0);
        if (pairs.shape(0) != count || pairs.shape(1) != 2) {
            throw nb::value_error("two records for each toll");
        }
        for (std::size_t i = 0; i < count; ++i) {
            const std::int32_t first = pairs(i, 0), other = pairs(i, 1);
            const std::int64_t n = static_cast<std::int64_t>(points.shape(0));
            if (first < 0 || other < 0 || first >= n || other >= n || first == other) {
                throw nb::value_error("pairs must be of different records");
            }
            if (!(tolls(i) >= 0.0) || !std::isfinite(tolls(i))) {
                throw nb::value_error("tolls must be finite, 0 or more");
            }
        }
        return {pairs.data(), tolls.data(), count};
    }

    Values prices_, nearest_sums_;
    PriceRows smaller_class_prices_;
};

}  // namespace

void bind_bounds(nb::module_& m) {
    nb::class_<NeighboursRun, KernelRun>(m, "Neighbours")
        .def(nb::init<Points, std::int64_t, bool, const std::string&>(),
             nb::arg("points").noconvert(), nb::arg("count"), nb::arg("keep") = false,
             nb::arg("search") = "auto")
        .def("sums", &NeighboursRun::sums)
        .def("ids", &NeighboursRun::ids);
    nb::class_<FittingRun, KernelRun>(m, "Fitting")
        .def(nb::init<Points, Members, Values, double, std::int64_t>(),
             nb::arg("points").noconvert(), nb::arg("classes").noconvert(),
             nb::arg("prices").noconvert(), nb::arg("spread"), nb::arg("sweeps"))
        .def("prices", &FittingRun::prices)
        .def("excess", &FittingRun::excess);
    nb::class_<GatheringRun, KernelRun>(m, "Gathering")
        .def(nb::init<Points, std::int64_t, Values, Points, double>(),
             nb::arg("points").noconvert(), nb::arg("k"), nb::arg("prices").noconvert(),
             nb::arg("centres").noconvert(), nb::arg("threshold"))
        .def("classes", &GatheringRun::classes);
    nb::class_<PricingRun, KernelRun>(m, "Pricing")
        .def(nb::init<Points, std::int64_t, Values, Values, PriceRows, double, std::int64_t, std::int64_t,
                      Pairs, Values, const std::string&>(),
             nb::arg("points").noconvert(), nb::arg("k"), nb::arg("prices").noconvert(),
             nb::arg("bars").noconvert(), nb::arg("inner").noconvert(), nb::arg("threshold"),
             nb::arg("wanted"), nb::arg("effort"), nb::arg("pairs").noconvert(), nb::arg("tolls").noconvert(),
             nb::arg("search") = "auto")
        .def("least", &PricingRun::lower_bounds)
        .def("classes", &PricingRun::classes);
}

}  // namespace dbanon
