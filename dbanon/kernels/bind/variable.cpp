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

const std::int32_t* checked_labels(const InputLabels& labels, const Table& table, std::int64_t k) {
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
                                    const InputLabels& labels, const RefineSettings& effort) {
    const Table table = checked_table(points, k);
    k = limit_k(table, k);
    return std::make_unique<Refine>(table, static_cast<std::int32_t>(k),
                                    checked_labels(labels, table, k), checked_refine_settings(effort));
}

class RefineRun : public KernelRun {
   public:
    RefineRun(Points points, std::int64_t k, const InputLabels& labels, std::int64_t iterations,
              std::int64_t work, double seconds, double heat, std::int32_t classes,
              std::uint64_t seed)
        : KernelRun(points,
              make_refine(points, k, labels, {iterations, work, seconds, heat, classes, seed})) {}
};

// For tests; a refinement recombines by itself.
Labels recombine_labels(const Points& points, std::int64_t k, const InputLabels& labels,
                  const std::vector<InputLabels>& others, std::int32_t regions, std::uint64_t seed) {
    const Table table = checked_table(points, k);
    if (k > Recombine::kMaxK) throw nb::value_error("k is too large");
    Recombine recombine(table, static_cast<std::int32_t>(k));
    const auto to_vector = [&](const InputLabels& other_labels) {
        const std::int32_t* data = checked_labels(other_labels, table, k);
        std::vector<std::int64_t> size(table.n / k, 0);
        for (std::int32_t id = 0; id < table.n; ++id) {
            if (++size[data[id]] >= 2 * k) {
                throw nb::value_error("a class has 2k records or more");
            }
        }
        return std::vector<std::int32_t>(data, data + table.n);
    };
    for (const InputLabels& other : others) recombine.start_from(to_vector(other));
    recombine.start_from(to_vector(labels));
    while (recombine.step_prices()) {
    }
    Random random(seed);
    for (; regions > 0; --regions) recombine.improve(random);
    return to_numpy(recombine.labels());
}

class PassRun : public KernelRun {
   public:
    PassRun(Points points, std::int64_t k, const InputLabels& labels)
        : KernelRun(points, make(points, k, labels)) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points, std::int64_t k,
                                        const InputLabels& labels) {
        const Table table = checked_table(points, k);
        k = limit_k(table, k);
        return std::make_unique<Pass>(table, static_cast<std::int32_t>(k),
                                      checked_labels(labels, table, k));
    }
};

class DbscanRun : public KernelRun {
   public:
    DbscanRun(Points points, std::int64_t k, double radius) : KernelRun(points, make(points, k, radius)) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points, std::int64_t k, double radius) {
        const Table table = checked_table(points, k);
        if (!(radius >= 0.0)) throw nb::value_error("radius from 0");
        return std::make_unique<Dbscan>(table, static_cast<std::int32_t>(k), radius);
    }
};

class PathRun : public KernelRun {
   public:
    PathRun(Points points, std::optional<InputLabels> groups) : KernelRun(points, make(points, groups)) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points,
                                        const std::optional<InputLabels>& groups) {
        const Table table = checked_table(points, 1);
        return std::make_unique<NearestPath>(table,
                                             groups ? checked_labels(*groups, table, 1) : nullptr);
    }
};

class CutRun : public KernelRun {
   public:
    CutRun(Points points, std::int64_t k, const InputLabels& order)
        : KernelRun(points, make(points, k, order)) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points, std::int64_t k,
                                        const InputLabels& order) {
        const Table table = checked_table(points, k);
        checked_labels(order, table, 1);  // n numbers from 0 to n - 1 without gaps are a permutation
        if (*std::max_element(order.data(), order.data() + table.n) != table.n - 1) {
            throw nb::value_error("order must hold every record once");
        }
        return std::make_unique<PathCut>(table, static_cast<std::int32_t>(k), order.data());
    }
};

class GeneticRun : public KernelRun {
   public:
    GeneticRun(Points points, std::int64_t k, std::int32_t population, std::int32_t generations,
               double crossover, double mutation, std::uint64_t seed)
        : KernelRun(points, make(points, k, {population, generations, crossover, mutation, seed})) {}

   private:
    static std::unique_ptr<Kernel> make(const Points& points, std::int64_t k,
                                        const Genetic::Settings& settings) {
        const Table table = checked_table(points, k);
        if (settings.population < 1 || settings.generations < 0) {
            throw nb::value_error("population from 1, generations from 0");
        }
        return std::make_unique<Genetic>(table, static_cast<std::int32_t>(k), settings);
    }
};

}  // namespace

void bind_variable(nb::module_& m) {
    nb::class_<DbscanRun, KernelRun>(m, "Dbscan")
        .def(nb::init<Points, std::int64_t, double>(), nb::arg("points").noconvert(), nb::arg("k"),
             nb::arg("radius"));
    nb::class_<PathRun, KernelRun>(m, "NearestPath")
        .def(nb::init<Points, std::optional<InputLabels>>(), nb::arg("points").noconvert(),
             nb::arg("groups").noconvert().none() = nb::none());
    nb::class_<CutRun, KernelRun>(m, "PathCut")
        .def(nb::init<Points, std::int64_t, const InputLabels&>(), nb::arg("points").noconvert(),
             nb::arg("k"), nb::arg("order").noconvert());
    nb::class_<GeneticRun, KernelRun>(m, "Genetic")
        .def(nb::init<Points, std::int64_t, std::int32_t, std::int32_t, double, double,
                      std::uint64_t>(),
             nb::arg("points").noconvert(), nb::arg("k"), nb::arg("population"),
             nb::arg("generations"), nb::arg("crossover"), nb::arg("mutation"), nb::arg("seed"));
    nb::class_<RefineRun, KernelRun>(m, "Refine")
        .def(nb::init<Points, std::int64_t, const InputLabels&, std::int64_t, std::int64_t, double,
                      double, std::int32_t, std::uint64_t>(),
             nb::arg("points").noconvert(), nb::arg("k"), nb::arg("labels").noconvert(),
             nb::arg("iterations"), nb::arg("work"), nb::arg("seconds"), nb::arg("heat"),
             nb::arg("classes"), nb::arg("seed"));
    nb::class_<PassRun, KernelRun>(m, "Pass")
        .def(nb::init<Points, std::int64_t, const InputLabels&>(), nb::arg("points").noconvert(),
             nb::arg("k"), nb::arg("labels").noconvert());
    m.def("recombined", &recombine_labels, nb::arg("points").noconvert(), nb::arg("k"),
          nb::arg("labels"), nb::arg("others"), nb::arg("regions"), nb::arg("seed"));
}

}  // namespace dbanon
