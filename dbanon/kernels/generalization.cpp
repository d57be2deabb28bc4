#include "generalization.hpp"

#include <nanobind/stl/unique_ptr.h>

#include <limits>

#include "greedy.hpp"
#include "merging.hpp"
#include "refine_loss.hpp"
#include "run.hpp"

namespace dbanon {
namespace {

using Codes = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Units = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Costs and their sums over all records stay within 64 bits.
constexpr Cost kLargestUnit = Cost{1} << 30;

std::unique_ptr<MixedTable> mixed(const Codes& codes, const Units& units, const Integers& leaves,
                                  const Integers& depths, const Integers& gaps, std::int64_t k) {
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
                                        std::move(trees));
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
    RefineLossRun(const Codes& codes, const Units& units, const Integers& leaves,
                  const Integers& depths, const Integers& gaps, const Integers& labels,
                  std::int64_t k, std::int64_t rounds, std::uint64_t seed)
        : Run({}, make(codes, units, leaves, depths, gaps, labels, k, rounds, seed)) {}

   private:
    static std::unique_ptr<Kernel> make(const Codes& codes, const Units& units,
                                        const Integers& leaves, const Integers& depths,
                                        const Integers& gaps, const Integers& labels,
                                        std::int64_t k, std::int64_t rounds, std::uint64_t seed) {
        if (labels.shape(0) != codes.shape(0)) throw nb::value_error("one label for each record");
        for (std::size_t i = 0; i < labels.shape(0); ++i) {
            const std::int32_t label = labels.data()[i];
            if (label < -1 || (label >= 0 && static_cast<std::size_t>(label) >= labels.shape(0))) {
                throw nb::value_error("labels must be from -1 to the number of records");
            }
        }
        if (rounds < 0) throw nb::value_error("rounds must be at least 0");
        return std::make_unique<RefineLoss>(mixed(codes, units, leaves, depths, gaps, k),
                                            labels.data(), static_cast<std::int32_t>(k), rounds,
                                            seed);
    }
};

}  // namespace

void bind_generalization(nb::module_& m) {
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
                      const Integers&, std::int64_t, std::int64_t, std::uint64_t>(),
             nb::arg("codes").noconvert(), nb::arg("units").noconvert(),
             nb::arg("leaves").noconvert(), nb::arg("depths").noconvert(),
             nb::arg("gaps").noconvert(), nb::arg("labels").noconvert(), nb::arg("k"),
             nb::arg("rounds"), nb::arg("seed"));
}

}  // namespace dbanon
