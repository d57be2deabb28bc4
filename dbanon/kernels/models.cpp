#include "models.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace dbanon {

namespace {

// Rounding of shares must not fail a class that reaches its level exactly.
constexpr double kSlack = 1e-9;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

Models::Models(const std::vector<std::int32_t>& widths) {
    for (const std::int32_t width : widths) {
        start_.push_back(cells_);
        width_.push_back(static_cast<std::size_t>(width));
        cells_ += static_cast<std::size_t>(width);
    }
}

void Models::add(Model model) { models_.push_back(std::move(model)); }

bool Models::keeps(const Count* counts) const {
    return std::all_of(models_.begin(), models_.end(), [&](const Model& model) {
        return keeps(model, counts + start_[model.attribute]);
    });
}

bool Models::keeps(const Model& model, const Count* counts) const {
    const std::size_t s = width_[model.attribute];
    const Count* end = counts + s;
    if (model.wish == Wish::distinct_l) {
        return static_cast<double>(s) - static_cast<double>(std::count(counts, end, 0)) >=
               model.level - kSlack;
    }
    if (model.wish == Wish::recursive_cl) {
        falling_.assign(counts, end);
        std::sort(falling_.begin(), falling_.end(), std::greater<>());
        std::int64_t rest = 0;
        for (auto i = static_cast<std::size_t>(model.l) - 1; i < s; ++i) rest += falling_[i];
        return rest > 0 &&
               static_cast<double>(falling_[0]) / static_cast<double>(rest) < model.level;
    }
    const auto size = static_cast<double>(std::accumulate(counts, end, std::int64_t{0}));
    if (size == 0) return false;
    double value = 0;
    switch (model.wish) {
        case Wish::entropy_l: {
            for (std::size_t v = 0; v < s; ++v) {
                const double share = counts[v] / size;
                if (share > 0) value -= share * std::log(share);
            }
            return std::exp(value) >= model.level - kSlack;
        }
        case Wish::alpha_k:
            value = *std::max_element(counts, end) / size;
            break;
        case Wish::beta_likeness:
            for (std::size_t v = 0; v < s; ++v) {
                if (model.whole[v] > 0) {
                    value = std::max(value, counts[v] / size / model.whole[v] - 1);
                }
            }
            break;
        case Wish::delta_disclosure:
            for (std::size_t v = 0; v < s; ++v) {
                if (model.whole[v] <= 0) continue;
                const double gap =
                    counts[v] ? std::abs(std::log(counts[v] / size / model.whole[v])) : kInfinite;
                value = std::max(value, gap);
            }
            break;
        default:
            value = moved(model, counts, size);
    }
    return value <= model.level + kSlack;
}

// The earth mover's distance of a class from the whole table.
double Models::moved(const Model& model, const Count* counts, double size) const {
    const std::size_t s = width_[model.attribute];
    double sum = 0;
    if (model.wish == Wish::equal_t) {
        for (std::size_t v = 0; v < s; ++v) sum += std::abs(counts[v] / size - model.whole[v]);
        return sum / 2;
    }
    if (model.wish == Wish::ordered_t) {
        double over = 0;
        for (std::size_t v = 0; v < s; ++v) {
            over += counts[v] / size - model.whole[v];
            sum += std::abs(over);
        }
        return sum / static_cast<double>(std::max<std::size_t>(s - 1, 1));
    }
    // What does not balance below a node moves above it.
    over_.assign(s + 1, 0);
    for (std::size_t v = 0; v < s; ++v) {
        over_[v + 1] = over_[v] + (counts[v] / size - model.whole[v]);
    }
    const std::size_t nodes = model.parent.size();
    gain_.assign(nodes, 0);
    loss_.assign(nodes, 0);
    height_.assign(nodes, 0);
    for (std::size_t node = nodes; node-- > 1;) {
        const auto parent = static_cast<std::size_t>(model.parent[node]);
        const double below = over_[static_cast<std::size_t>(model.last[node]) + 1] -
                             over_[static_cast<std::size_t>(model.first[node])];
        height_[parent] = std::max(height_[parent], height_[node] + 1);
        (below > 0 ? gain_ : loss_)[parent] += std::abs(below);
    }
    if (height_.empty() || height_[0] == 0) return 0;
    for (std::size_t node = 0; node < nodes; ++node) {
        sum += std::min(gain_[node], loss_[node]) * height_[node];
    }
    return sum / height_[0];
}

}  // namespace dbanon
