#include "mixed/models.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>

namespace dbanon {

namespace {

// Rounding of shares must not fail a class that reaches its level exactly.
constexpr double kSlack = 1e-9;

// Whether the model looks only at the class, and not at the table.
bool ignores_table(ModelKind kind) {
    return kind == ModelKind::distinct_l || kind == ModelKind::entropy_l || kind == ModelKind::recursive_cl ||
           kind == ModelKind::alpha_k;
}

}  // namespace

Models::Models(const std::vector<std::int32_t>& widths, bool persons) : persons_(persons) {
    for (const std::int32_t width : widths) {
        first_count_.push_back(n_counts_);
        n_values_.push_back(width);
        n_counts_ += static_cast<std::size_t>(width);
    }
}

void Models::add(Model model) { models_.push_back(std::move(model)); }

double Models::lack(const Count* counts) const {
    double sum = 0;
    for (const Model& model : models_) {
        sum += lack(model, counts + first_count_[model.attribute], persons_ ? counts[n_counts_ - 1] : 0);
    }
    return sum;
}

// Assign each person one of their values so that as few values as possible cover as many persons as
// possible: no other assignment is less diverse.
void Models::least_diverse(const Count* counts, std::size_t s, Count persons) const {
    least_diverse_counts_.assign(counts, counts + s);
    std::sort(least_diverse_counts_.begin(), least_diverse_counts_.end(), std::greater<>());
    for (Count& count : least_diverse_counts_) {
        count = std::min(count, persons);
        persons -= count;
    }
}

double Models::lack(const Model& model, const Count* counts, Count persons) const {
    const std::size_t s = n_values_[model.attribute];
    if (persons_ && ignores_table(model.kind)) {
        least_diverse(counts, s, persons);
        counts = least_diverse_counts_.data();
    }
    const Count* end = counts + s;
    const auto size = static_cast<double>(
        persons_ ? persons : std::accumulate(counts, end, std::int64_t{0}));
    if (size == 0) return 1;
    const double level = model.level;
    double value = 0;
    switch (model.kind) {
        case ModelKind::distinct_l: {
            const auto n_distinct = static_cast<double>(s) - static_cast<double>(std::count(counts, end, 0));
            return n_distinct >= level - kSlack ? 0 : level - n_distinct;
        }
        case ModelKind::recursive_cl: {
            descending_counts_.assign(counts, end);
            std::sort(descending_counts_.begin(), descending_counts_.end(), std::greater<>());
            std::int64_t tail = 0;
            for (auto i = static_cast<std::size_t>(model.l) - 1; i < s; ++i) tail += descending_counts_[i];
            const auto first = static_cast<double>(descending_counts_[0]), others = static_cast<double>(tail);
            return tail > 0 && first / others < level ? 0 : 1 + std::max(first / level - others, 0.0);
        }
        case ModelKind::entropy_l:
            for (std::size_t v = 0; v < s; ++v) {
                const double share = counts[v] / size;
                if (share > 0) value -= share * std::log(share);
            }
            value = std::exp(value);
            return value >= level - kSlack ? 0 : level - value;
        case ModelKind::alpha_k:
            value = *std::max_element(counts, end) / size;
            return value <= level + kSlack ? 0 : (value - level) * size;
        case ModelKind::beta_likeness:
            for (std::size_t v = 0; v < s; ++v) {
                const double most = (1 + level) * model.table_shares[v] * size;
                const double slack = kSlack * model.table_shares[v] * size;
                // A value that the table lacks is always too frequent.
                if (counts[v] > most + slack) value += counts[v] - most;
            }
            return value;
        case ModelKind::each_k:
            for (std::size_t v = 0; v < s; ++v) {
                if (counts[v] > 0) value += std::max(level - counts[v], 0.0);
            }
            return value;
        case ModelKind::delta_disclosure:
            for (std::size_t v = 0; v < s; ++v) {
                if (!counts[v]) continue;
                if (model.table_shares[v] <= 0) {
                    // No share of a value that the table lacks is close to zero.
                    value += counts[v];
                    continue;
                }
                const double expected = model.table_shares[v] * size;
                if (std::abs(std::log(counts[v] / expected)) <= level + kSlack) continue;
                value += std::abs(counts[v] - expected * std::exp(counts[v] > expected ? level : -level));
            }
            return value;
        default:
            value = moved_share(model, counts, size);
            return value <= level + kSlack ? 0 : (value - level) * size;
    }
}

namespace {

// Whether shares have the same sum in a class and in the table, apart from rounding.
bool balanced(double all) { return std::abs(all) <= 1e-12; }

// The earth mover's distance along an order with "no value"; `over` holds the cumulative excess.
// The cumulative mass moved to "no value" increases from 0 to the final excess, as close to `over`
// as possible: isotonic regression in the L1 norm, with a heap.
double along(std::vector<double>& over, double steps) {
    if (over.back() < 0) {
        for (double& value : over) value = -value;
    }
    const double all = over.back();
    double cost = 0;
    std::priority_queue<double> largest;
    for (const double value : over) {
        const double inside = std::clamp(value, 0.0, all);
        cost += std::abs(value - inside);
        largest.push(inside);
        if (largest.top() > inside) {
            cost += largest.top() - inside;
            largest.pop();
            largest.push(inside);
        }
    }
    return all + cost / steps;
}

}  // namespace

// The earth mover's distance of a class from the table. If persons have several values, shares add
// up to the mean number of values per person. If class and table differ in that, the difference is
// moved to "no value", which has the maximum distance from every value. Otherwise the result is
// bit-identical to that for records.
double Models::moved_share(const Model& model, const Count* counts, double size) const {
    const std::size_t s = n_values_[model.attribute];
    double sum = 0;
    if (model.kind == ModelKind::equal_t) {
        double all = 0;
        for (std::size_t v = 0; v < s; ++v) {
            const double extra = counts[v] / size - model.table_shares[v];
            sum += std::abs(extra);
            all += extra;
        }
        return persons_ && !balanced(all) ? (sum + std::abs(all)) / 2 : sum / 2;
    }
    if (model.kind == ModelKind::ordered_t) {
        const auto steps = static_cast<double>(std::max<std::size_t>(s - 1, 1));
        double over = 0;
        if (persons_) excess_shares_.clear();
        for (std::size_t v = 0; v < s; ++v) {
            over += counts[v] / size - model.table_shares[v];
            sum += std::abs(over);
            if (persons_) excess_shares_.push_back(over);
        }
        return persons_ && !balanced(over) ? along(excess_shares_, steps) : sum / steps;
    }
    // The imbalance below a node is moved above it.
    excess_shares_.assign(s + 1, 0);
    for (std::size_t v = 0; v < s; ++v) {
        excess_shares_[v + 1] = excess_shares_[v] + (counts[v] / size - model.table_shares[v]);
    }
    const std::size_t nodes = model.parent.size();
    gain_.assign(nodes, 0);
    loss_.assign(nodes, 0);
    height_.assign(nodes, 0);
    for (std::size_t node = nodes; node-- > 1;) {
        const std::size_t parent = model.parent[node];
        const double below = excess_shares_[static_cast<std::size_t>(model.last[node]) + 1] -
                             excess_shares_[model.first[node]];
        height_[parent] = std::max(height_[parent], height_[node] + 1);
        (below > 0 ? gain_ : loss_)[parent] += std::abs(below);
    }
    if (height_.empty() || height_[0] == 0) return 0;
    const bool differ = persons_ && !balanced(excess_shares_[s]);
    for (std::size_t node = 0; node < nodes; ++node) {
        const bool none = differ && node == 0;
        sum += (none ? std::max(gain_[node], loss_[node]) : std::min(gain_[node], loss_[node])) *
               height_[node];
    }
    return sum / height_[0];
}

}  // namespace dbanon
