#include "mixed/class_scan.hpp"

#include <cmath>
#include <limits>

namespace dbanon {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// A slice of work counts classes of a tree, which take longer.
constexpr std::int32_t kClassesPerVisit = 4;

// Widths of the class that merges with others. Those of uneven trees depend on the leaves of both
// classes; `distance` is a lower bound of the increase of the loss, for a leaf of the other class.
struct MergeMeasure {
    const MixedTable& table;
    const Extent& extent;

    Code low(std::size_t a) const { return extent.low[a]; }
    Code high(std::size_t a) const { return extent.high[a]; }
    Cost cost_per_unit() const { return 1; }
    Cost distance(std::size_t a, Code leaf) const {
        const Code low = std::min(extent.low[a], leaf), high = std::max(extent.high[a], leaf);
        if (low == high) return 0;
        return extent.size * table.unit(a) - table.tree(a)->common_depth(low, high) * extent.share[a];
    }
};

}  // namespace

ClassScan::ClassScan(const MixedTable& table, const Columns& columns, const Shapes& shapes,
                     const std::vector<Cost>& losses, const Grid<ClassRange>& ranges)
    : table_(table),
      columns_(columns),
      shapes_(shapes),
      losses_(losses),
      ranges_(ranges),
      ops_(lane_ops(NumberPenalty::kWidth)),
      // As scan_classes in lanes.hpp reads them.
      blocks_(losses.size(), 2 * columns.numbers() + 2,
              2 * (columns.paths_end() - columns.numbers()) + columns.count() - columns.paths_end()),
      builder_(table, columns),
      share_(static_cast<float>(1 - builder_.relative_error())) {
    double slack = 0;
    // Both gaps have two ends, each rounded by half of a step.
    for (std::size_t c = 0; c < columns.numbers(); ++c) slack += 2 * builder_.rounding_step(c);
    slack_ = std::nextafter(static_cast<float>(slack), kInfinity);
}

void ClassScan::add(std::int32_t id) { write(id, blocks_.add(id)); }

void ClassScan::write(std::int32_t id, std::int32_t index) {
    const ClassRange* const ranges = ranges_.row(id);
    const std::size_t numbers = columns_.numbers();
    Cost width = 0;
    std::size_t c = 0;
    for (; c < numbers; ++c) {
        blocks_.number(index, 2 * c) = static_cast<float>(ranges[c].low);
        blocks_.number(index, 2 * c + 1) = static_cast<float>(ranges[c].high);
        width += ranges[c].high - ranges[c].low;
    }
    std::size_t code = 0;
    for (; c < columns_.paths_end(); ++c) {
        const Tree& tree = *table_.tree(columns_.attribute(c));
        blocks_.code(index, code++) = ranges[c].low;
        blocks_.code(index, code++) = ranges[c].low ^ ranges[c].high;
        width += tree.climb(tree.deepest(), ranges[c].depth);
    }
    for (; c < columns_.count(); ++c) blocks_.code(index, code++) = ranges[c].low;
    blocks_.number(index, 2 * numbers) = static_cast<float>(shapes_.size(id));
    blocks_.number(index, 2 * numbers + 1) = std::nextafter(static_cast<float>(width), kInfinity);
}

std::int32_t ClassScan::cheapest(std::int32_t query, const Extent& extent, Work& work) {
    const auto cost_at_depth = [&](std::size_t a, std::int32_t depth) {
        const Tree& tree = *table_.tree(a);
        return tree.climb(tree.deepest(), depth);
    };
    builder_.set(MergeMeasure{table_, extent}, cost_at_depth, true);
    const MergeQuery merge{builder_.query(), static_cast<float>(extent.size), share_, slack_};
    float bounds[kScanItems], least[kScanSubsets], limit = kInfinity;
    Cost best = std::numeric_limits<Cost>::max();
    std::int32_t best_class = -1;
    for (std::int32_t b = 0; b < blocks_.blocks(); ++b) {
        ops_.scan_classes(merge, blocks_.numbers(b), blocks_.codes(b), bounds, least);
        const std::int32_t n_filled = blocks_.n_filled(b);
        for (std::int32_t j = 0; j < kScanSubsets; ++j) {
            if (least[j] > limit) continue;
            for (std::int32_t i = j; i < n_filled; i += kScanSubsets) {
                const std::int32_t id = blocks_.id(b * kScanItems + i);
                if (bounds[i] > limit || id == query) continue;
                const Cost increase = shapes_.loss(query, id) - losses_[id];
                if (increase > best || (increase == best && id > best_class)) continue;
                best = increase;
                best_class = id;
                // The last operations on a bound round, too.
                limit = std::nextafter(static_cast<float>(static_cast<double>(best) * (1 + 0x1p-20)), kInfinity);
            }
        }
    }
    work.left -= blocks_.count() / kClassesPerVisit;
    return best_class;
}

}  // namespace dbanon
