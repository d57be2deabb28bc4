#include "mixed/centre.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dbanon {

MixedCentroid::MixedCentroid(const MixedTable& table, const Columns& columns, const Square& square)
    : table_(table), columns_(columns), sums_(columns.numbers(), 0), means_(columns.numbers()) {
    double largest = 0;  // squared distance of two records
    for (std::size_t c = 0; c < columns.numbers(); ++c) {
        const auto unit = static_cast<double>(table.unit(columns.attribute(c)));
        largest += unit * unit;
    }
    for (std::size_t c = columns.numbers(); c < columns.count(); ++c) {
        const std::size_t a = columns.attribute(c);
        const Tree& tree = *table.tree(a);
        const std::int32_t leaves = tree.leaves();
        largest += static_cast<double>(square.cost_at_depth(a, 0));
        if (c < columns.paths_end()) {
            const std::vector<Field>& fields = columns.fields(c);
            const Code last = columns.value(c, leaves - 1);
            for (std::size_t f = 0; f < fields.size(); ++f) {
                const Cost below =
                    f + 1 < fields.size() ? square.cost_at_depth(a, fields[f + 1].depth) : 0;
                add_level(c, square.cost_at_depth(a, fields[f].depth) - below, fields[f].shift, {},
                          (last >> fields[f].shift) + 1);
            }
            continue;
        }
        for (std::int32_t depth = 0; depth < tree.deepest(); ++depth) {
            std::vector<std::int32_t> nodes(leaves, 0);
            for (std::int32_t leaf = 1; leaf < leaves; ++leaf) {
                nodes[leaf] = nodes[leaf - 1] + (tree.common_depth(leaf - 1, leaf) <= depth);
            }
            const std::int32_t count = nodes.back() + 1;
            add_level(c, square.cost_at_depth(a, depth) - square.cost_at_depth(a, depth + 1), 0, std::move(nodes),
                      count);
        }
    }
    const auto terms = static_cast<double>(columns.count() + levels_.size() + 8);
    slack_ = 32 * terms * std::numeric_limits<double>::epsilon() * largest;
    count_ = table.records();
    for (std::int32_t t = 0; t < table.tuples(); ++t) {
        const std::int32_t copies = table.count(t);
        for (std::size_t c = 0; c < sums_.size(); ++c) {
            sums_[c] += std::int64_t{copies} * value(t, c);
        }
        for (Level& level : levels_) {
            level.count[level.node(value(t, level.column))] += copies;
        }
    }
    for (Level& level : levels_) {
        for (const std::int64_t count : level.count) level.squares += count * count;
    }
    update_constants();
}

void MixedCentroid::add_level(std::size_t column, Cost step, std::int32_t shift,
                       std::vector<std::int32_t> nodes, std::int32_t count) {
    const std::vector<std::int32_t> none(count, 0);
    levels_.push_back({column, step, shift, std::move(nodes), none, none, 0});
}

// The squared length of the sum of m records relative to the new mean, divided by the previous
// number of records.
double MixedCentroid::remove_records(std::span<const std::int32_t> tuples) {
    const auto m = static_cast<double>(tuples.size()), before = static_cast<double>(count_);
    count_ -= static_cast<std::int32_t>(tuples.size());
    if (count_ == 0) return 0;
    std::vector<std::int64_t> sums(sums_.size(), 0);
    for (const std::int32_t t : tuples) {
        for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += value(t, c);
    }
    for (std::size_t c = 0; c < sums.size(); ++c) sums_[c] -= sums[c];
    std::vector<std::int64_t> joint_sums(levels_.size(), 0), node_sums(levels_.size(), 0);
    for (std::size_t l = 0; l < levels_.size(); ++l) {
        Level& level = levels_[l];
        for (const std::int32_t t : tuples) {
            const std::int32_t node = level.node(value(t, level.column));
            joint_sums[l] += 2 * std::int64_t{level.left[node]++} + 1;
            level.squares -= 2 * std::int64_t{level.count[node]--} - 1;
        }
        for (const std::int32_t t : tuples) {
            const std::int32_t node = level.node(value(t, level.column));
            node_sums[l] += level.count[node];
            level.left[node] = 0;
        }
    }
    update_constants();
    double squared = m * m * slack_;
    for (std::size_t c = 0; c < sums.size(); ++c) {
        const double gap = static_cast<double>(sums[c]) - m * means_[c];
        squared += gap * gap;
    }
    const double share = m / count_;
    for (std::size_t l = 0; l < levels_.size(); ++l) {
        squared += static_cast<double>(levels_[l].step) / 2 *
                   (static_cast<double>(joint_sums[l]) - 2 * share * static_cast<double>(node_sums[l]) +
                    share * share * static_cast<double>(levels_[l].squares));
    }
    return std::sqrt(squared) / before;
}

void MixedCentroid::update_constants() {
    const double n = count_;
    for (std::size_t c = 0; c < sums_.size(); ++c) means_[c] = static_cast<double>(sums_[c]) / n;
    constant_ = 0;
    for (Level& level : levels_) {
        const auto step = static_cast<double>(level.step);
        level.loss_per_removal = step / n;
        constant_ += step / 2 * (1 + static_cast<double>(level.squares) / n / n);
    }
}

void MixedCentroid::distances(const Code* values, double* distances_out) const {
    std::fill_n(distances_out, kLanes, constant_);
    for (std::size_t c = 0; c < means_.size(); ++c) {
        const Code* x = values + c * kLanes;
        const double mean = means_[c];
        for (int i = 0; i < kLanes; ++i) {
            const double gap = x[i] - mean;
            distances_out[i] += gap * gap;
        }
    }
    for (const Level& level : levels_) {
        const Code* x = values + level.column * kLanes;
        const std::int32_t* count = level.count.data();
        if (level.nodes.empty()) {
            for (int i = 0; i < kLanes; ++i) distances_out[i] -= level.loss_per_removal * count[x[i] >> level.shift];
        } else {
            for (int i = 0; i < kLanes; ++i) distances_out[i] -= level.loss_per_removal * count[level.nodes[x[i]]];
        }
    }
}

MixedCentroid::Sum MixedCentroid::total(const Code* values) const {
    Sum sum = 0;
    for (std::size_t c = 0; c < sums_.size(); ++c) {
        const std::int64_t x = values[c * kLanes];
        sum += x * (Sum{x} * count_ - 2 * Sum{sums_[c]});
    }
    for (const Level& level : levels_) {
        sum -= Sum{level.step} * level.count[level.node(values[level.column * kLanes])];
    }
    return sum;
}

MixedCentroid::Sum MixedCentroid::sum_of_pair_distances(std::span<const std::int32_t> tuples) {
    const auto m = static_cast<std::int64_t>(tuples.size());
    Sum sum = 0;
    for (std::size_t c = 0; c < sums_.size(); ++c) {
        Sum squares = 0;
        std::int64_t all = 0;
        for (const std::int32_t t : tuples) {
            const std::int64_t x = value(t, c);
            squares += x * x;
            all += x;
        }
        sum += squares * m - Sum{all} * all;
    }
    for (Level& level : levels_) {
        // Pairs, each counted twice, plus the records themselves: those of one node.
        std::int64_t together = 0;
        for (const std::int32_t t : tuples) {
            together += 2 * std::int64_t{level.left[level.node(value(t, level.column))]++} + 1;
        }
        for (const std::int32_t t : tuples) level.left[level.node(value(t, level.column))] = 0;
        sum += Sum{level.step} * ((m * m - together) / 2);
    }
    return sum;
}

void FarthestFromCentroid::reset() {
    bounds_.clear();
    movement_ = 0;
    for (std::int32_t leaf = 0; leaf < tree_.leaves(); ++leaf) {
        bounds_.push_back({std::numeric_limits<double>::infinity(), leaf});
    }
}

bool FarthestFromCentroid::farther(const Best& first, const Best& other) const {
    const double more = first.distance - other.distance;
    if (more > centroid_.slack()) return true;
    if (more < -centroid_.slack()) return false;
    const MixedCentroid::Sum first_total = centroid_.total(tree_.values(first.leaf) + first.lane);
    const MixedCentroid::Sum its = centroid_.total(tree_.values(other.leaf) + other.lane);
    if (first_total != its) return first_total > its;
    return tree_.records(first.leaf)[first.lane] < tree_.records(other.leaf)[other.lane];
}

std::int32_t FarthestFromCentroid::find_farthest(Work& work) {
    const double slack = centroid_.slack();
    Best best;
    while (!bounds_.empty()) {
        const double bound = std::max(bounds_.front().distance + movement_, 0.0) * (1 + 1e-12);
        if (bound * bound + slack < best.distance) break;
        std::pop_heap(bounds_.begin(), bounds_.end());
        const std::int32_t leaf = bounds_.back().leaf, n_filled = tree_.n_filled(leaf);
        bounds_.pop_back();
        if (n_filled == 0) continue;
        work.left -= n_filled;
        // Values without remaining tuples are looked up, too: their codes are valid.
        double distances[kLanes];
        centroid_.distances(tree_.values(leaf), distances);
        double most = 0;
        for (std::int32_t i = 0; i < n_filled; ++i) {
            most = std::max(most, distances[i]);
            const Best candidate{distances[i], leaf, i};
            if (best.leaf < 0 || farther(candidate, best)) best = candidate;
        }
        examined_.push_back({std::sqrt(most + slack) - movement_, leaf});
    }
    for (const Bound& bound : examined_) {
        bounds_.push_back(bound);
        std::push_heap(bounds_.begin(), bounds_.end());
    }
    examined_.clear();
    return tree_.tuples(best.leaf)[best.lane];
}

}  // namespace dbanon
