#include "mixed/box_cutting.hpp"

#include <algorithm>
#include <cmath>

namespace dbanon {

namespace {

// A sample of this many boxes is enough to choose the column.
constexpr std::size_t kBoxesSampled = 128;

double middle_of(const double* ends) { return ends[0] / 2 + ends[1] / 2; }

}  // namespace

// The distance between two disjoint boxes. A cut takes one bit.
double BoxSplitter::gain_of_number(std::size_t is_number) {
    middles_.clear();
    double widths = 0;
    for (const std::int32_t box : sample_) {
        const double* ends = boxes_.bounds_of(box) + 2 * is_number;
        middles_.push_back(middle_of(ends));
        widths += ends[1] - ends[0];
    }
    std::sort(middles_.begin(), middles_.end());
    const auto m = static_cast<double>(middles_.size());
    double sum = 0;
    for (std::size_t i = 0; i < middles_.size(); ++i) {
        sum += (2 * static_cast<double>(i) + 1 - m) * middles_[i];
    }
    return 2 * sum / (m * m) - widths / m;
}

// The best level: two boxes below different nodes there climb one more edge; boxes that extend
// above it are not separated.
double BoxSplitter::gain_of_tree(std::size_t tree, const BoxColumn& column) {
    const auto m = static_cast<double>(sample_.size());
    double best = 0;
    for (std::int32_t depth = 1; depth <= column.levels(); ++depth) {
        nodes_.clear();
        double above = 0;
        for (const std::int32_t box : sample_) {
            std::int32_t node = boxes_.nodes_of(box)[tree];
            if (column.depth(node) < depth) ++above;
            while (column.depth(node) > depth) node = column.parent(node);
            nodes_.push_back(node);
        }
        std::sort(nodes_.begin(), nodes_.end());
        const double deep = (m - above) / m;
        double together = 0, bits = 0;
        for (std::size_t from = 0, to = 0; from < nodes_.size(); from = to) {
            while (to < nodes_.size() && nodes_[to] == nodes_[from]) ++to;
            const double share = static_cast<double>(to - from) / m;
            if (column.depth(nodes_[from]) >= depth) together += share * share;
            bits -= share * std::log2(share);
        }
        if (bits > 0) best = std::max(best, (deep * deep - together) / bits);
    }
    return best / std::max(column.levels(), 1);
}

bool BoxSplitter::same(std::int32_t a, std::int32_t b) const {
    const double *ends = boxes_.bounds_of(a), *other = boxes_.bounds_of(b);
    const std::int32_t *nodes = boxes_.nodes_of(a), *others = boxes_.nodes_of(b);
    return std::equal(ends, ends + 2 * boxes_.numbers, other) &&
           std::equal(nodes, nodes + boxes_.trees, others);
}

void BoxSplitter::sort_by(std::size_t column, std::size_t at, std::span<std::int32_t> members) {
    keys_.clear();
    const bool is_number = columns_[column].is_number();
    for (const std::int32_t box : members) {
        keys_.emplace_back(is_number ? middle_of(boxes_.bounds_of(box) + 2 * at)
                                  : static_cast<double>(boxes_.nodes_of(box)[at]), box);
    }
    std::sort(keys_.begin(), keys_.end());
    for (std::size_t i = 0; i < keys_.size(); ++i) members[i] = keys_[i].second;
}

std::size_t BoxSplitter::split(std::span<std::int32_t> members) {
    const std::size_t step = (members.size() + kBoxesSampled - 1) / kBoxesSampled;
    sample_.clear();
    for (std::size_t i = 0; i < members.size(); i += step) sample_.push_back(members[i]);
    double most = 0;
    std::size_t best = columns_.size(), best_at = 0, numbers = 0, trees = 0;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        const bool is_number = columns_[c].is_number();
        const std::size_t at = is_number ? numbers++ : trees++;
        const double gain = is_number ? gain_of_number(at) : gain_of_tree(at, columns_[c]);
        if (gain > most) {
            most = gain;
            best = c;
            best_at = at;
        }
    }
    const std::size_t half = members.size() / 2;
    if (best == columns_.size()) {
        // Boxes that overlap, or that the sample missed.
        const auto other = [&](std::int32_t box) { return !same(box, members.front()); };
        return std::any_of(members.begin(), members.end(), other) ? half : 0;
    }
    sort_by(best, best_at, members);
    // Cut a hierarchy where it branches highest up; among those, nearest to the middle.
    const BoxColumn& column = columns_[best];
    const auto off = [half](std::size_t i) { return i < half ? half - i : i - half; };
    std::size_t cut = 0;
    std::int32_t highest = 0;
    for (std::size_t i = 1; i < keys_.size(); ++i) {
        const double before = keys_[i - 1].first, after = keys_[i].first;
        if (before == after) continue;
        const std::int32_t depth =
            column.is_number() ? 0 : column.common_depth(static_cast<std::int32_t>(before),
                                                static_cast<std::int32_t>(after));
        if (cut == 0 || depth < highest || (depth == highest && off(i) < off(cut))) {
            cut = i;
            highest = depth;
        }
    }
    return cut ? cut : half;
}

}  // namespace dbanon
