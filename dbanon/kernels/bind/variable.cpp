#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>

#include "bind/checks.hpp"
#include "points/dbscan.hpp"
#include "points/genetic.hpp"
#include "points/pass.hpp"
#include "points/path.hpp"
#include "points/recombine.hpp"

namespace dbanon {

const std::int32_t* checked_labels(const GivenLabels& labels, const Table& table, std::int64_t k) {
    if (labels.shape(0) != static_cast<std::size_t>(table.n)) {
        throw nb::value_error("one label for each record");
    }
    const std::int32_t* data = labels.data();
    std::vector<std::int64_t> size;
    for (std::int32_t id = 0; id < table.n; ++id) {
        if (data[id] < 0 || data[id] >= table.n / k) {
            throw nb::value_error("labels must be from 0 to below n / k");
        }
        const std::size_t label = data[id];
        if (label >= size.size()) size.resize(label + 1, 0);
        ++size[label];
    }
    for (const std::int64_t count : size) {
        if (count < k) throw nb::value_error("a class has fewer than k records");
    }
    return data;
}

const RefineSettings& checked_refine_settings(const RefineSettings& effort) {
    if (effort.max_iterations < 0 || effort.max_work < 0 || effort.max_pool_classes < 2 || !(effort.initial_heat >= 0.0) ||
        !(effort.max_seconds >= 0.0)) {
        throw nb::value_error("iterations, work, seconds and heat from 0, classes from 2");
    }
    return effort;
}

namespace {

std::unique_ptr<Kernel> make_refine(const Points& points, std::int64_t k,
                                    const GivenLabels& labels, const RefineSettings& effort) {
    const Table table = checked(points, k);
    k = least_size(table, k);
    return std::make_unique<Refine>(table, static_cast<std::int32_t>(k),
                                    checked_labels(labels, table, k), checked_refine_settings(effort));
}

class RefineRun : public Run {
   public:
    RefineRun(Points points, std::int64_t k, const GivenLabels& labels, std::int64_t iterations,
              std::int64_t work, double seconds, double heat, std::int32_t classes,
              std::uint64_t seed)
        : Run(points,
              make_refine(points, k, labels, {iterations, work, seconds, heat, classes, seed})) {}
};

// For tests; refinement calls it itself.
Labels recombined(const Points& points, std::int64_t k, const GivenLabels& labels,
                  const std::vector<GivenLabels>& others, std::int32_t regions, std::uint64_t seed) {
    const Table table = checked(points, k);
    if (k > Recombine::kMaxK) throw nb::value_error("k is too large");
    Recombine recombine(table, static_cast<std::int32_t>(k));
    const auto listed = [&](const GivenLabels& other_labels) {
        const std::int32_t* data = checked_labels(other_labels, table, k);
        std::vector<std::int64_t> size(table.n / k, 0);
        for (std::int32_t id = 0; id < table.n; ++id) {
            if (++size[data[id]] >= 2 * k) {
                throw nb::value_error("a class has 2k records or more");
            }
        }
        return std::vector<std::int32_t>(data, data + table.n);
    };
    for (const GivenLabels& other : others) recombine.start_from(listed(other));
    recombine.start_from(listed(labels));
    while (recombine.step_prices()) {
    }
    Random random(seed);
    for (; regions > 0; --regions) recombine.improve(random);
    return copied(recombine.labels());
}

class PassRun : public Run {
   public:
    PassRun(Points points, std::int64_t k, const GivenLabels& labels)
        : Run(points, make(points, k, labels)) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points, std::int64_t k,
                                        const GivenLabels& labels) {
        const Table table = checked(points, k);
        k = least_size(table, k);
        return std::make_unique<Pass>(table, static_cast<std::int32_t>(k),
                                      checked_labels(labels, table, k));
    }
};

class DbscanRun : public Run {
   public:
    DbscanRun(Points points, std::int64_t k, double radius) : Run(points, make(points, k, radius)) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points, std::int64_t k, double radius) {
        const Table table = checked(points, k);
        if (!(radius >= 0.0)) throw nb::value_error("radius from 0");
        return std::make_unique<Dbscan>(table, static_cast<std::int32_t>(k), radius);
    }
};

class PathRun : public Run {
   public:
    PathRun(Points points, std::optional<GivenLabels> groups) : Run(points, make(points, groups)) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points,
                                        const std::optional<GivenLabels>& groups) {
        const Table table = checked(points, 1);
        return std::make_unique<NearestPath>(table,
                                             groups ? checked_labels(*groups, table, 1) : nullptr);
    }
};

class CutRun : public Run {
   public:
    CutRun(Points points, std::int64_t k, const GivenLabels& order)
        : Run(points, make(points, k, order)) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points, std::int64_t k,
                                        const GivenLabels& order) {
        const Table table = checked(points, k);
        checked_labels(order, table, 1);  // n numbers from 0 to n - 1 without gaps are a permutation
        if (*std::max_element(order.data(), order.data() + table.n) != table.n - 1) {
            throw nb::value_error("order must hold every record once");
        }
        return std::make_unique<PathCut>(table, static_cast<std::int32_t>(k), order.data());
    }
};

class GeneticRun : public Run {
   public:
    GeneticRun(Points points, std::int64_t k, std::int32_t population, std::int32_t generations,
               double crossover, double mutation, std::uint64_t seed)
        : Run(points, make(points, k, {population, generations, crossover, mutation, seed})) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points, std::int64_t k,
                                        const Genetic::Settings& settings) {
        const Table table = checked(points, k);
        if (settings.population < 1 || settings.generations < 0) {
            throw nb::value_error("population from 1, generations from 0");
        }
        return std::make_unique<Genetic>(table, static_cast<std::int32_t>(k), settings);
    }
};

}  // namespace

void bind_variable(nb::module_& m) {
    nb::class_<DbscanRun, Run>(m, "Dbscan")
        .def(nb::init<Points, std::int64_t, double>(), nb::arg("points").noconvert(), nb::arg("k"),
             nb::arg("radius"));
    nb::class_<PathRun, Run>(m, "NearestPath")
        .def(nb::init<Points, std::optional<GivenLabels>>(), nb::arg("points").noconvert(),
             nb::arg("groups").noconvert().none() = nb::none());
    nb::class_<CutRun, Run>(m, "PathCut")
        .def(nb::init<Points, std::int64_t, const GivenLabels&>(), nb::arg("points").noconvert(),
             nb::arg("k"), nb::arg("order").noconvert());
    nb::class_<GeneticRun, Run>(m, "Genetic")
        .def(nb::init<Points, std::int64_t, std::int32_t, std::int32_t, double, double,
                      std::uint64_t>(),
             nb::arg("points").noconvert(), nb::arg("k"), nb::arg("population"),
             nb::arg("generations"), nb::arg("crossover"), nb::arg("mutation"), nb::arg("seed"));
    nb::class_<RefineRun, Run>(m, "Refine")
        .def(nb::init<Points, std::int64_t, const GivenLabels&, std::int64_t, std::int64_t, double,
                      double, std::int32_t, std::uint64_t>(),
             nb::arg("points").noconvert(), nb::arg("k"), nb::arg("labels").noconvert(),
             nb::arg("iterations"), nb::arg("work"), nb::arg("seconds"), nb::arg("heat"),
             nb::arg("classes"), nb::arg("seed"));
    nb::class_<PassRun, Run>(m, "Pass")
        .def(nb::init<Points, std::int64_t, const GivenLabels&>(), nb::arg("points").noconvert(),
             nb::arg("k"), nb::arg("labels").noconvert());
    m.def("recombined", &recombined, nb::arg("points").noconvert(), nb::arg("k"),
          nb::arg("labels"), nb::arg("others"), nb::arg("regions"), nb::arg("seed"));
}

}  // namespace dbanon
