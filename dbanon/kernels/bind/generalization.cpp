#include "bind/generalization.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <map>
#include <string>

#include "bind/run.hpp"
#include "mixed/enforce.hpp"
#include "mixed/greedy.hpp"
#include "mixed/merging.hpp"
#include "mixed/refine_loss.hpp"
#include "mixed/split.hpp"

namespace dbanon {
namespace {

using Codes = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Units = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Costs and their sums over all records stay within 64 bits.
constexpr Cost kLargestUnit = Cost{1} << 30;

std::unique_ptr<MixedTable> mixed(const Codes& codes, const Units& units, const Integers& leaves,
                                  const Integers& depths, const Integers& gaps, std::int64_t k,
                                  const Codes* beside = nullptr) {
    const std::size_t n = codes.shape(0), d = codes.shape(1);
    if (n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 2)) {
        throw nb::value_error("more than 2**30 records");
    }
    if (d < 1 || n * d > (std::size_t{1} << 32)) {
        throw nb::value_error("codes must have at least one attribute and at most 2**32 values");
    }
    if (k < 1) throw nb::value_error("k must be at least 1");
    if (n < static_cast<std::size_t>(k)) throw nb::value_error("fewer than k records");
    if (units.shape(0) != d || leaves.shape(0) != d || depths.shape(0) != gaps.shape(0)) {
        throw nb::value_error("one unit and one number of leaves for each attribute");
    }
    std::vector<Cost> unit(units.data(), units.data() + d);
    std::vector<Code> largest(d);
    std::vector<std::unique_ptr<Tree>> trees(d);
    std::size_t at = 0;
    for (std::size_t a = 0; a < d; ++a) {
        if (unit[a] < 0 || unit[a] > kLargestUnit) {
            throw nb::value_error("units must be from 0 to 2**30");
        }
        const std::int32_t count = leaves.data()[a];
        largest[a] = count ? count - 1 : static_cast<Code>(unit[a]);
        if (!count) continue;
        if (count < 0 || at + static_cast<std::size_t>(count) > depths.shape(0)) {
            throw nb::value_error("the trees must list depth and gap of each leaf");
        }
        const std::int32_t* depth = depths.data() + at;
        const std::int32_t* gap = gaps.data() + at;
        for (std::int32_t i = 0; i < count; ++i) {
            const std::int32_t below = i + 1 < count ? std::min(depth[i], depth[i + 1]) : depth[i];
            if (depth[i] < 0 || gap[i] < 0 || gap[i] > below) {
                throw nb::value_error("depths and gaps must be those of a tree");
            }
        }
        trees[a] = std::make_unique<Tree>(std::vector<std::int32_t>(depth, depth + count),
                                          std::vector<std::int32_t>(gap, gap + count - 1), unit[a]);
        at += static_cast<std::size_t>(count);
    }
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < n * d; ++i) {
        const Code code = codes.data()[i];
        if (code < 0 || code > largest[i % d]) {
            throw nb::value_error("codes must be leaves, or numbers from 0 to the unit");
        }
    }
    return std::make_unique<MixedTable>(codes.data(), static_cast<std::int32_t>(n), std::move(unit),
                                        std::move(trees), beside ? beside->data() : nullptr,
                                        beside ? beside->shape(1) : 0);
}

void check_labels(const Codes& codes, const Integers& labels) {
    if (labels.shape(0) != codes.shape(0)) throw nb::value_error("one label for each record");
    for (std::size_t i = 0; i < labels.shape(0); ++i) {
        const std::int32_t label = labels.data()[i];
        if (label < -1 || (label >= 0 && static_cast<std::size_t>(label) >= labels.shape(0))) {
            throw nb::value_error("labels must be from -1 to the number of records");
        }
    }
}

// pieces: of each attribute, 0 where its labels cost what they do; then their first codes and costs.
std::vector<LabelCosts> label_costs(const Integers& leaves, const Integers& pieces,
                                    const Integers& firsts, const Integers& costs) {
    if (pieces.shape(0) != leaves.shape(0)) throw nb::value_error("pieces of each attribute");
    std::vector<LabelCosts> found(pieces.shape(0));
    std::size_t first = 0, cost = 0;
    for (std::size_t a = 0; a < found.size(); ++a) {
        const std::int32_t count = pieces.data()[a];
        if (count < 0 || count > (leaves.data()[a] ? 0 : 256)) {
            throw nb::value_error("pieces must be from 0 to 256, of a number");
        }
        const auto w = static_cast<std::size_t>(count);
        if (first + w > firsts.shape(0) || cost + w * w > costs.shape(0)) {
            throw nb::value_error("a first code of each piece, and a cost of each two");
        }
        found[a].first.assign(firsts.data() + first, firsts.data() + first + w);
        found[a].costs.assign(costs.data() + cost, costs.data() + cost + w * w);
        if (w && found[a].first.front() != 0) throw nb::value_error("the first piece starts at 0");
        if (!std::is_sorted(found[a].first.begin(), found[a].first.end())) {
            throw nb::value_error("first codes must ascend");
        }
        for (const std::int32_t one : found[a].costs) {
            if (one < 0 || one > kLargestUnit) {
                throw nb::value_error("costs must be from 0 to 2**30");
            }
        }
        first += w;
        cost += w * w;
    }
    return found;
}

void check_values(const Codes& codes, const Codes& values, const Models& models) {
    if (values.shape(0) != codes.shape(0) || values.shape(1) != models.attributes()) {
        throw nb::value_error("one value for each record and attribute of the models");
    }
    for (std::size_t i = 0; i < values.shape(0); ++i) {
        for (std::size_t a = 0; a < models.attributes(); ++a) {
            const std::int32_t value = values.data()[i * models.attributes() + a];
            if (models.persons() && value == -1) continue;
            if (value < 0 || static_cast<std::size_t>(value) >= models.width(a)) {
                throw nb::value_error("values must be below the width of their attribute");
            }
        }
    }
}

template <class Method>
class GreedyRun : public Run {
   public:
    GreedyRun(const Codes& codes, const Units& units, const Integers& leaves,
              const Integers& depths, const Integers& gaps, std::int64_t k)
        : Run({}, std::make_unique<Method>(mixed(codes, units, leaves, depths, gaps, k),
                                           static_cast<std::int32_t>(k))) {}
};

template <class Method>
void bind_greedy(nb::module_& m, const char* name) {
    nb::class_<GreedyRun<Method>, Run>(m, name)
        .def(nb::init<const Codes&, const Units&, const Integers&, const Integers&, const Integers&,
                      std::int64_t>(),
             nb::arg("codes").noconvert(), nb::arg("units").noconvert(),
             nb::arg("leaves").noconvert(), nb::arg("depths").noconvert(),
             nb::arg("gaps").noconvert(), nb::arg("k"));
}

class MergingRun : public Run {
   public:
    MergingRun(const Codes& codes, const Units& units, const Integers& leaves,
               const Integers& depths, const Integers& gaps, std::int64_t k, std::uint64_t seed,
               double threshold)
        : Run({}, std::make_unique<Merging>(mixed(codes, units, leaves, depths, gaps, k),
                                            static_cast<std::int32_t>(k), seed, threshold)) {}
};

class RefineLossRun : public Run {
   public:
    // On own ranges.
    RefineLossRun(const Codes& codes, const Units& units, const Integers& leaves,
                  const Integers& depths, const Integers& gaps, const Integers& labels,
                  std::int64_t k, std::int64_t rounds, std::uint64_t seed, const Codes& values,
                  const Models& models)
        : Run({}, make(codes, units, leaves, depths, gaps, labels, k, rounds, seed, values, models,
                       {})) {}
    // On the loss of labels.
    RefineLossRun(const Codes& codes, const Units& units, const Integers& leaves,
                  const Integers& depths, const Integers& gaps, const Integers& labels,
                  std::int64_t k, std::int64_t rounds, std::uint64_t seed, const Codes& values,
                  const Models& models, const Integers& pieces, const Integers& firsts,
                  const Integers& costs)
        : Run({}, make(codes, units, leaves, depths, gaps, labels, k, rounds, seed, values, models,
                       label_costs(leaves, pieces, firsts, costs))) {}

   private:
    static std::unique_ptr<Kernel> make(const Codes& codes, const Units& units,
                                        const Integers& leaves, const Integers& depths,
                                        const Integers& gaps, const Integers& labels,
                                        std::int64_t k, std::int64_t rounds, std::uint64_t seed,
                                        const Codes& values, const Models& models,
                                        const std::vector<LabelCosts>& costs) {
        check_labels(codes, labels);
        check_values(codes, values, models);
        if (rounds < 0) throw nb::value_error("rounds must be at least 0");
        return std::make_unique<RefineLoss>(mixed(codes, units, leaves, depths, gaps, k, &values),
                                            labels.data(), static_cast<std::int32_t>(k), rounds,
                                            seed, models, costs);
    }
};

class EnforceRun : public Run {
   public:
    EnforceRun(const Codes& codes, const Units& units, const Integers& leaves,
               const Integers& depths, const Integers& gaps, const Integers& labels,
               const Codes& values, const Models& models, std::int64_t budget)
        : Run({}, make(codes, units, leaves, depths, gaps, labels, values, models, budget)) {}

   private:
    static std::unique_ptr<Kernel> make(const Codes& codes, const Units& units,
                                        const Integers& leaves, const Integers& depths,
                                        const Integers& gaps, const Integers& labels,
                                        const Codes& values, const Models& models,
                                        std::int64_t budget) {
        check_labels(codes, labels);
        check_values(codes, values, models);
        if (budget < 0) throw nb::value_error("budget must be at least 0");
        return std::make_unique<Enforce>(mixed(codes, units, leaves, depths, gaps, 1),
                                         labels.data(), values.data(), models, budget);
    }
};

class SplitRun : public Run {
   public:
    SplitRun(const Codes& codes, const Units& units, const Integers& leaves,
             const Integers& depths, const Integers& gaps, const Integers& labels, std::int64_t k,
             const Codes& values, const Models& models)
        : Run({}, make(codes, units, leaves, depths, gaps, labels, k, values, models)) {}

   private:
    static std::unique_ptr<Kernel> make(const Codes& codes, const Units& units,
                                        const Integers& leaves, const Integers& depths,
                                        const Integers& gaps, const Integers& labels,
                                        std::int64_t k, const Codes& values,
                                        const Models& models) {
        check_labels(codes, labels);
        check_values(codes, values, models);
        return std::make_unique<Split>(mixed(codes, units, leaves, depths, gaps, k),
                                       labels.data(), static_cast<std::int32_t>(k), values.data(),
                                       models);
    }
};

Wish wish_named(const std::string& name) {
    static const std::map<std::string, Wish> known = {
        {"distinct_l", Wish::distinct_l},       {"entropy_l", Wish::entropy_l},
        {"recursive_cl", Wish::recursive_cl},   {"alpha_k", Wish::alpha_k},
        {"beta_likeness", Wish::beta_likeness}, {"delta_disclosure", Wish::delta_disclosure},
        {"equal_t", Wish::equal_t},             {"ordered_t", Wish::ordered_t},
        {"hierarchical_t", Wish::hierarchical_t},
    };
    const auto found = known.find(name);
    if (found == known.end()) throw nb::value_error("there is no such model");
    return found->second;
}

using Shares = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Models make_models(const Integers& widths, bool persons) {
    for (std::size_t a = 0; a < widths.shape(0); ++a) {
        if (widths.data()[a] < 1) throw nb::value_error("every attribute must have a value");
    }
    if (persons && (widths.shape(0) < 1 || widths.data()[widths.shape(0) - 1] != 1)) {
        throw nb::value_error("the last attribute, of persons, must have one value");
    }
    return Models(std::vector<std::int32_t>(widths.data(), widths.data() + widths.shape(0)),
                  persons);
}

void add_model(Models& models, const std::string& wish, std::size_t attribute, double level,
               std::int32_t l, const Shares& whole, const Integers& parents, const Codes& ranges) {
    if (attribute >= models.attributes()) throw nb::value_error("there is no such attribute");
    const std::size_t s = models.width(attribute), nodes = parents.shape(0);
    if (whole.shape(0) != s) throw nb::value_error("one share for each value");
    if (l < 1) throw nb::value_error("l must be at least 1");
    Model model{wish_named(wish), attribute, level, l, {whole.data(), whole.data() + s}, {}, {}, {}};
    if (model.wish == Wish::hierarchical_t) {
        if (ranges.shape(0) != nodes || ranges.shape(1) != 2) {
            throw nb::value_error("first and last leaf of each node");
        }
        for (std::size_t node = 0; node < nodes; ++node) {
            const std::int32_t first = ranges.data()[2 * node], last = ranges.data()[2 * node + 1];
            const std::int32_t parent = parents.data()[node];
            if (first < 0 || last < first || static_cast<std::size_t>(last) >= s ||
                (node > 0 && (parent < 0 || static_cast<std::size_t>(parent) >= node))) {
                throw nb::value_error("parents and ranges must be those of a tree of the values");
            }
            model.parent.push_back(parent);
            model.first.push_back(first);
            model.last.push_back(last);
        }
    }
    models.add(std::move(model));
}

double lack(const Models& models, const Integers& counts) {
    if (counts.shape(0) != models.cells()) throw nb::value_error("one count for each value");
    for (std::size_t i = 0; i < counts.shape(0); ++i) {
        if (counts.data()[i] < 0) throw nb::value_error("counts must be at least 0");
    }
    return models.lack(counts.data());
}

bool keeps(const Models& models, const Integers& counts) { return lack(models, counts) == 0; }

}  // namespace

void bind_generalization(nb::module_& m) {
    nb::class_<Models>(m, "Models")
        .def("__init__",
             [](Models* self, const Integers& widths, bool persons) {
                 new (self) Models(make_models(widths, persons));
             },
             nb::arg("widths").noconvert(), nb::arg("persons") = false)
        .def("add", add_model, nb::arg("wish"), nb::arg("attribute"), nb::arg("level"),
             nb::arg("l"), nb::arg("whole").noconvert(), nb::arg("parents").noconvert(),
             nb::arg("ranges").noconvert())
        .def("keeps", keeps, nb::arg("counts").noconvert())
        .def("lack", lack, nb::arg("counts").noconvert())
        .def_prop_ro("persons", &Models::persons)
        .def_prop_ro("widths", [](const Models& models) {
            std::vector<std::size_t> widths;
            for (std::size_t a = 0; a < models.attributes(); ++a) widths.push_back(models.width(a));
            return widths;
        });
    bind_greedy<GaaCp>(m, "GaaCp");
    bind_greedy<KMember>(m, "KMember");
    nb::class_<MergingRun, Run>(m, "Merging")
        .def(nb::init<const Codes&, const Units&, const Integers&, const Integers&, const Integers&,
                      std::int64_t, std::uint64_t, double>(),
             nb::arg("codes").noconvert(), nb::arg("units").noconvert(),
             nb::arg("leaves").noconvert(), nb::arg("depths").noconvert(),
             nb::arg("gaps").noconvert(), nb::arg("k"), nb::arg("seed"), nb::arg("threshold"));
    nb::class_<RefineLossRun, Run>(m, "RefineLoss")
        .def(nb::init<const Codes&, const Units&, const Integers&, const Integers&, const Integers&,
                      const Integers&, std::int64_t, std::int64_t, std::uint64_t, const Codes&,
                      const Models&>(),
             nb::arg("codes").noconvert(), nb::arg("units").noconvert(),
             nb::arg("leaves").noconvert(), nb::arg("depths").noconvert(),
             nb::arg("gaps").noconvert(), nb::arg("labels").noconvert(), nb::arg("k"),
             nb::arg("rounds"), nb::arg("seed"), nb::arg("values").noconvert(),
             nb::arg("models"))
        .def(nb::init<const Codes&, const Units&, const Integers&, const Integers&, const Integers&,
                      const Integers&, std::int64_t, std::int64_t, std::uint64_t, const Codes&,
                      const Models&, const Integers&, const Integers&, const Integers&>(),
             nb::arg("codes").noconvert(), nb::arg("units").noconvert(),
             nb::arg("leaves").noconvert(), nb::arg("depths").noconvert(),
             nb::arg("gaps").noconvert(), nb::arg("labels").noconvert(), nb::arg("k"),
             nb::arg("rounds"), nb::arg("seed"), nb::arg("values").noconvert(),
             nb::arg("models"), nb::arg("pieces").noconvert(), nb::arg("firsts").noconvert(),
             nb::arg("costs").noconvert());
    nb::class_<EnforceRun, Run>(m, "Enforce")
        .def(nb::init<const Codes&, const Units&, const Integers&, const Integers&, const Integers&,
                      const Integers&, const Codes&, const Models&, std::int64_t>(),
             nb::arg("codes").noconvert(), nb::arg("units").noconvert(),
             nb::arg("leaves").noconvert(), nb::arg("depths").noconvert(),
             nb::arg("gaps").noconvert(), nb::arg("labels").noconvert(),
             nb::arg("values").noconvert(), nb::arg("models"), nb::arg("budget"));
    nb::class_<SplitRun, Run>(m, "Split")
        .def(nb::init<const Codes&, const Units&, const Integers&, const Integers&, const Integers&,
                      const Integers&, std::int64_t, const Codes&, const Models&>(),
             nb::arg("codes").noconvert(), nb::arg("units").noconvert(),
             nb::arg("leaves").noconvert(), nb::arg("depths").noconvert(),
             nb::arg("gaps").noconvert(), nb::arg("labels").noconvert(), nb::arg("k"),
             nb::arg("values").noconvert(), nb::arg("models"));
}

}  // namespace dbanon
