// Bindings of methods on records with hierarchies, and of operations on their classes.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "bind/checks.hpp"
#include "mixed/density.hpp"
#include "mixed/diameter.hpp"
#include "mixed/enforce.hpp"
#include "mixed/greedy.hpp"
#include "mixed/merging.hpp"
#include "mixed/refine_loss.hpp"
#include "mixed/split.hpp"
#include "mixed/mixed_sequential.hpp"
#include "mixed/tfrp.hpp"
#include "mixed/unassigned.hpp"

namespace dbanon {
namespace {

using Codes = InputMatrix<std::int32_t>;
using Integers = InputArray<std::int32_t>;

// Costs and their sums over all records stay within 64 bits.
constexpr Cost kMaxUnit = Cost{1} << 30;

// Makes a MixedTable, and checks once everything that kernels require of records.
std::unique_ptr<MixedTable> make_table(const Codes& codes, const InputArray<std::int64_t>& units,
                                     const Integers& leaves, const Integers& depths,
                                     const Integers& gaps, const std::optional<Codes>& extra_columns) {
    const std::size_t n = codes.shape(0), n_attributes = codes.shape(1);
    if (n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 2)) {
        throw nb::value_error("more than 2**30 records");
    }
    if (n_attributes < 1 || n * n_attributes > (std::size_t{1} << 32)) {
        throw nb::value_error("codes must have at least one attribute and at most 2**32 values");
    }
    if (units.shape(0) != n_attributes || leaves.shape(0) != n_attributes || depths.shape(0) != gaps.shape(0)) {
        throw nb::value_error("one unit and one number of leaves for each attribute");
    }
    if (extra_columns && extra_columns->shape(0) != n) throw nb::value_error("one row beside each record");
    std::vector<Cost> unit(units.data(), units.data() + n_attributes);
    std::vector<Code> largest(n_attributes);
    std::vector<std::unique_ptr<Tree>> trees(n_attributes);
    std::size_t first_leaf = 0;
    for (std::size_t a = 0; a < n_attributes; ++a) {
        if (unit[a] < 0 || unit[a] > kMaxUnit) {
            throw nb::value_error("units must be from 0 to 2**30");
        }
        const std::int32_t count = leaves.data()[a];
        largest[a] = count ? count - 1 : static_cast<Code>(unit[a]);
        if (!count) continue;
        if (count < 0 || first_leaf + static_cast<std::size_t>(count) > depths.shape(0)) {
            throw nb::value_error("the trees must list depth and gap of each leaf");
        }
        const std::int32_t* depth = depths.data() + first_leaf;
        const std::int32_t* gap = gaps.data() + first_leaf;
        for (std::int32_t i = 0; i < count; ++i) {
            const std::int32_t below = i + 1 < count ? std::min(depth[i], depth[i + 1]) : depth[i];
            if (depth[i] < 0 || gap[i] < 0 || gap[i] > below) {
                throw nb::value_error("depths and gaps must be those of a tree");
            }
        }
        trees[a] = std::make_unique<Tree>(std::vector<std::int32_t>(depth, depth + count),
                                          std::vector<std::int32_t>(gap, gap + count - 1), unit[a]);
        first_leaf += static_cast<std::size_t>(count);
    }
    const nb::gil_scoped_release release;
    for (std::size_t i = 0; i < n * n_attributes; ++i) {
        const Code code = codes.data()[i];
        if (code < 0 || code > largest[i % n_attributes]) {
            throw nb::value_error("codes must be leaves, or numbers from 0 to the unit");
        }
    }
    return std::make_unique<MixedTable>(codes.data(), static_cast<std::int32_t>(n), std::move(unit),
                                        std::move(trees), extra_columns ? extra_columns->data() : nullptr,
                                        extra_columns ? extra_columns->shape(1) : 0);
}

const std::int32_t* checked_labels(const MixedTable& table, const Integers& labels) {
    const std::size_t n = table.records();
    if (labels.shape(0) != n) throw nb::value_error("one label for each record");
    for (std::size_t i = 0; i < n; ++i) {
        const std::int32_t label = labels.data()[i];
        if (label < -1 || label >= table.records()) {
            throw nb::value_error("labels must be from -1 to the number of records");
        }
    }
    return labels.data();
}

void check_row(const std::int32_t* values, const Models& models) {
    for (std::size_t a = 0; a < models.attributes(); ++a) {
        if (models.persons() && values[a] == -1) continue;
        if (values[a] < 0 || static_cast<std::size_t>(values[a]) >= models.width(a)) {
            throw nb::value_error("values must be below the width of their attribute");
        }
    }
}

const std::int32_t* checked_values(const MixedTable& table, const Codes& values,
                                   const Models& models) {
    const std::size_t width = models.attributes();
    if (values.shape(0) != static_cast<std::size_t>(table.records()) || values.shape(1) != width) {
        throw nb::value_error("one value for each record and attribute of the models");
    }
    for (std::size_t i = 0; i < values.shape(0); ++i) check_row(values.data() + i * width, models);
    return values.data();
}

// The values are extra columns in addition to the codes.
const Models& checked_extra_columns(const MixedTable& table, const Models& models) {
    if (table.width() != models.attributes()) {
        throw nb::value_error("beside each record, a value of each attribute of the models");
    }
    for (std::int32_t t = 0; t < table.tuples(); ++t) check_row(table.extra_columns(t), models);
    return models;
}

// pieces: of each attribute, 0 if its labels cost the range of values; then their first codes and
// costs.
std::vector<LabelCosts> label_costs(const MixedTable& table, const Integers& pieces,
                                    const Integers& firsts, const Integers& costs) {
    if (pieces.shape(0) != static_cast<std::size_t>(table.n_attributes())) throw nb::value_error("pieces of each attribute");
    std::vector<LabelCosts> label_costs(pieces.shape(0));
    std::size_t first = 0, cost = 0;
    for (std::size_t a = 0; a < label_costs.size(); ++a) {
        const std::int32_t count = pieces.data()[a];
        if (count < 0 || count > (table.tree(a) ? 0 : 256)) {
            throw nb::value_error("pieces must be from 0 to 256, of a number");
        }
        const std::size_t w = count;
        if (first + w > firsts.shape(0) || cost + w * w > costs.shape(0)) {
            throw nb::value_error("a first code of each piece, and a cost of each two");
        }
        label_costs[a].first.assign(firsts.data() + first, firsts.data() + first + w);
        label_costs[a].costs.assign(costs.data() + cost, costs.data() + cost + w * w);
        if (w && label_costs[a].first.front() != 0) throw nb::value_error("the first piece starts at 0");
        if (!std::is_sorted(label_costs[a].first.begin(), label_costs[a].first.end())) {
            throw nb::value_error("first codes must ascend");
        }
        for (const std::int32_t cost : label_costs[a].costs) {
            if (cost < 0 || cost > kMaxUnit) {
                throw nb::value_error("costs must be from 0 to 2**30");
            }
        }
        first += w;
        cost += w * w;
    }
    return label_costs;
}

std::int64_t require_nonnegative(std::int64_t count, const char* name) {
    if (count < 0) throw nb::value_error((std::string(name) + " must be at least 0").c_str());
    return count;
}

template <class Method>
class GreedyRun : public KernelRun {
   public:
    GreedyRun(const Mixed& table, std::int64_t k)
        : KernelRun({}, std::make_unique<Method>(table, checked_k(*table, k))) {}
};

template <class Method>
void bind_greedy(nb::module_& m, const char* name) {
    nb::class_<GreedyRun<Method>, KernelRun>(m, name)
        .def(nb::init<const Mixed&, std::int64_t>(), nb::arg("table"), nb::arg("k"));
}

template <class Method>
class SequentialRun : public KernelRun {
   public:
    template <class... Settings>
    SequentialRun(const Mixed& table, const InputArray<std::int64_t>& squares, std::int64_t k,
              Settings... settings)
        : KernelRun({}, std::make_unique<Method>(table, checked_squares(*table, squares),
                                           checked_k(*table, k), settings...)) {}
};

// settings: further arguments of the method, and their Python names.
template <class Method, class... Settings, class... Named>
void bind_sequential(nb::module_& m, const char* name, Named... settings) {
    nb::class_<SequentialRun<Method>, KernelRun>(m, name)
        .def(nb::init<const Mixed&, const InputArray<std::int64_t>&, std::int64_t, Settings...>(),
             nb::arg("table"), nb::arg("squares").noconvert(), nb::arg("k"), settings...);
}

class MergingRun : public KernelRun {
   public:
    MergingRun(const Mixed& table, std::int64_t k, std::uint64_t seed, double threshold)
        : KernelRun({}, std::make_unique<Merging>(table, checked_k(*table, k), seed, threshold)) {}
};

class RefineLossRun : public KernelRun {
   public:
    // Loss by the ranges of classes.
    RefineLossRun(const Mixed& table, const Integers& labels, std::int64_t k, std::int64_t rounds,
                  std::uint64_t seed, const Models& models, std::int64_t min_saving_divisor, bool swaps)
        : RefineLossRun(table, labels, k, rounds, seed, models, min_saving_divisor, swaps,
                        std::vector<LabelCosts>()) {}
    // Loss by labels.
    RefineLossRun(const Mixed& table, const Integers& labels, std::int64_t k, std::int64_t rounds,
                  std::uint64_t seed, const Models& models, const Integers& pieces,
                  const Integers& firsts, const Integers& costs, std::int64_t min_saving_divisor, bool swaps)
        : RefineLossRun(table, labels, k, rounds, seed, models, min_saving_divisor, swaps,
                        label_costs(*table, pieces, firsts, costs)) {}

   private:
    RefineLossRun(const Mixed& table, const Integers& labels, std::int64_t k, std::int64_t rounds,
                  std::uint64_t seed, const Models& models, std::int64_t min_saving_divisor, bool swaps,
                  const std::vector<LabelCosts>& costs)
        : KernelRun({}, std::make_unique<RefineLoss>(table, checked_labels(*table, labels), checked_k(*table, k),
                                               require_nonnegative(rounds, "rounds"), seed,
                                               checked_extra_columns(*table, models), costs,
                                               require_nonnegative(min_saving_divisor, "worth"), swaps)) {}
};

class EnforceRun : public KernelRun {
   public:
    EnforceRun(const Mixed& table, const Integers& labels, const Codes& values,
               const Models& models, std::int64_t budget)
        : KernelRun({}, make(table, labels, values, models, budget)) {}

   private:
    static std::unique_ptr<Kernel> make(const Mixed& table, const Integers& labels,
                                        const Codes& values, const Models& models,
                                        std::int64_t budget) {
        checked_k(*table, 1);
        if (budget < 0) throw nb::value_error("budget must be at least 0");
        return std::make_unique<Enforce>(table, checked_labels(*table, labels),
                                         checked_values(*table, values, models), models, budget);
    }
};

class SplitRun : public KernelRun {
   public:
    SplitRun(const Mixed& table, const Integers& labels, std::int64_t k, const Codes& values,
             const Models& models)
        : KernelRun({}, std::make_unique<Split>(table, checked_labels(*table, labels), checked_k(*table, k),
                                          checked_values(*table, values, models), models)) {}
};

}  // namespace

std::int32_t checked_k(const MixedTable& table, std::int64_t k) {
    if (k < 1) throw nb::value_error("k must be at least 1");
    if (table.records() < k) throw nb::value_error("fewer than k records");
    return static_cast<std::int32_t>(k);
}

// Sums of squares of distances stay within 64 bits.
constexpr double kMaxSquareSum = 0x1p62;

std::span<const Cost> checked_squares(const MixedTable& table, const InputArray<std::int64_t>& squares) {
    if (squares.shape(0) != static_cast<std::size_t>(table.n_attributes())) {
        throw nb::value_error("one square for each attribute");
    }
    double largest = 0;
    for (std::size_t a = 0; a < squares.shape(0); ++a) {
        const Tree* tree = table.tree(a);
        if (squares.data()[a] < 0) throw nb::value_error("squares must be at least 0");
        if (tree && !tree->has_even_depth()) throw nb::value_error("leaves must be at one depth");
        const double width = static_cast<double>(tree ? tree->deepest() : table.unit(a));
        largest += (tree ? static_cast<double>(squares.data()[a]) : 1.0) * width * width;
    }
    if (largest > kMaxSquareSum) throw nb::value_error("squares must add up to at most 2**62");
    return {squares.data(), squares.shape(0)};
}

void set_mixed_search(const std::string& name) {
    const Search search = parse_search(name);
    set_search_mode(search == Search::automatic ? SearchMode::kMeasured
                    : search == Search::index   ? SearchMode::kTree
                                                : SearchMode::kScan);
}

void bind_mixed(nb::module_& m) {
    m.def("set_mixed_search", &set_mixed_search, nb::arg("search"));
    nb::class_<MixedTable>(m, "MixedTable")
        .def(nb::new_(&make_table), nb::arg("codes").noconvert(), nb::arg("units").noconvert(),
             nb::arg("leaves").noconvert(), nb::arg("depths").noconvert(),
             nb::arg("gaps").noconvert(), nb::arg("beside").noconvert().none() = nb::none());
    bind_greedy<GaaCp>(m, "GaaCp");
    bind_greedy<KMember>(m, "KMember");
    bind_sequential<MixedCbfs>(m, "MixedCbfs");
    bind_sequential<MixedDensity, bool>(m, "MixedDensityFirst", nb::arg("lowest"));
    bind_sequential<MixedDiameter>(m, "MixedMd");
    bind_sequential<MixedMdav>(m, "MixedMdav");
    bind_sequential<MixedTfrp, bool>(m, "MixedTfrp", nb::arg("second_stage"));
    bind_sequential<MixedVmdav, double>(m, "MixedVmdav", nb::arg("lambda_"));
    nb::class_<MergingRun, KernelRun>(m, "Merging")
        .def(nb::init<const Mixed&, std::int64_t, std::uint64_t, double>(), nb::arg("table"),
             nb::arg("k"), nb::arg("seed"), nb::arg("threshold"));
    nb::class_<RefineLossRun, KernelRun>(m, "RefineLoss")
        .def(nb::init<const Mixed&, const Integers&, std::int64_t, std::int64_t, std::uint64_t,
                      const Models&, std::int64_t, bool>(),
             nb::arg("table"), nb::arg("labels").noconvert(), nb::arg("k"), nb::arg("rounds"),
             nb::arg("seed"), nb::arg("models"), nb::kw_only(), nb::arg("worth") = 0,
             nb::arg("swaps") = true)
        .def(nb::init<const Mixed&, const Integers&, std::int64_t, std::int64_t, std::uint64_t,
                      const Models&, const Integers&, const Integers&, const Integers&,
                      std::int64_t, bool>(),
             nb::arg("table"), nb::arg("labels").noconvert(), nb::arg("k"), nb::arg("rounds"),
             nb::arg("seed"), nb::arg("models"), nb::arg("pieces").noconvert(),
             nb::arg("firsts").noconvert(), nb::arg("costs").noconvert(), nb::kw_only(),
             nb::arg("worth") = 0, nb::arg("swaps") = true);
    nb::class_<EnforceRun, KernelRun>(m, "Enforce")
        .def(nb::init<const Mixed&, const Integers&, const Codes&, const Models&, std::int64_t>(),
             nb::arg("table"), nb::arg("labels").noconvert(), nb::arg("values").noconvert(),
             nb::arg("models"), nb::arg("budget"));
    nb::class_<SplitRun, KernelRun>(m, "Split")
        .def(nb::init<const Mixed&, const Integers&, std::int64_t, const Codes&, const Models&>(),
             nb::arg("table"), nb::arg("labels").noconvert(), nb::arg("k"),
             nb::arg("values").noconvert(), nb::arg("models"));
}

}  // namespace dbanon
