#include "points/weighted_tree.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dbanon {

namespace {

constexpr std::int32_t kLeaf = 12;
// Two nodes per level, and no more levels than a number has bits.
constexpr std::size_t kDepth = 128;

}  // namespace

WeightedTree::WeightedTree(const Table& table)
    : table_(table), order_(table.n), boxes_(2 * static_cast<std::size_t>(table.p)), open_{0} {
    std::iota(order_.begin(), order_.end(), 0);
    nodes_.push_back({0, table.n, -1});
    boxes_.resize(1);
}

bool WeightedTree::build(Work& work) {
    while (!open_.empty()) {
        const std::int32_t at = open_.back();
        open_.pop_back();
        enclose(at);
        const std::int32_t begin = nodes_[at].begin, end = nodes_[at].end;
        work.left -= std::int64_t{end - begin} * (1 + table_.p);
        if (end - begin > kLeaf) {
            const double* low = boxes_.row(at);
            int axis = 0;
            for (int j = 1; j < table_.p; ++j) {
                if (low[table_.p + j] - low[j] > low[table_.p + axis] - low[axis]) axis = j;
            }
            const std::int32_t middle = begin + (end - begin) / 2;
            std::nth_element(order_.begin() + begin, order_.begin() + middle, order_.begin() + end,
                             [&](std::int32_t a, std::int32_t b) {
                                 const double x = table_.row(a)[axis], y = table_.row(b)[axis];
                                 return x < y || (x == y && a < b);
                             });
            nodes_[at].inner = static_cast<std::int32_t>(nodes_.size());
            nodes_.push_back({begin, middle, -1});
            nodes_.push_back({middle, end, -1});
            boxes_.resize(nodes_.size());
            open_.push_back(nodes_[at].inner + 1);
            open_.push_back(nodes_[at].inner);
        }
        if (work.is_spent()) return open_.empty();
    }
    return true;
}

void WeightedTree::enclose(std::int32_t node) {
    double* low = boxes_.row(node);
    double* high = low + table_.p;
    std::copy_n(table_.row(order_[nodes_[node].begin]), table_.p, low);
    std::copy_n(low, table_.p, high);
    for (std::int32_t i = nodes_[node].begin + 1; i < nodes_[node].end; ++i) {
        const double* row = table_.row(order_[i]);
        for (int j = 0; j < table_.p; ++j) {
            low[j] = std::min(low[j], row[j]);
            high[j] = std::max(high[j], row[j]);
        }
    }
}

void WeightedTree::weigh(const std::vector<double>& weights, const std::vector<std::int32_t>& places) {
    weights_ = weights;
    places_ = places;
    for (std::size_t at = nodes_.size(); at-- > 0;) {
        Node& node = nodes_[at];
        node.least = std::numeric_limits<double>::infinity();
        node.last = -1;
        if (node.inner >= 0) {
            for (const std::int32_t child : {node.inner, node.inner + 1}) {
                node.least = std::min(node.least, nodes_[child].least);
                node.last = std::max(node.last, nodes_[child].last);
            }
            continue;
        }
        for (std::int32_t i = node.begin; i < node.end; ++i) {
            node.least = std::min(node.least, weights_[order_[i]]);
            node.last = std::max(node.last, places_[order_[i]]);
        }
    }
}

double WeightedTree::apart(const double* point, std::int32_t node) const {
    const double* low = boxes_.row(node);
    const double* high = low + table_.p;
    double sum = 0.0;
    for (int j = 0; j < table_.p; ++j) {
        const double gap = std::max({low[j] - point[j], point[j] - high[j], 0.0});
        sum += gap * gap;
    }
    return sum;
}

// Calls keep(value, id) for all records that may be below the limit, which it returns.
template <class Keep>
std::int64_t WeightedTree::walk(const double* point, double scale, std::int32_t first_position,
                                Keep&& keep) const {
    Found stack[kDepth];
    std::size_t height = 0;
    std::int64_t steps = 0;
    double limit = keep(std::numeric_limits<double>::infinity(), -1);
    stack[height++] = {apart(point, 0) * scale + nodes_[0].least, 0};
    while (height > 0) {
        const Found top = stack[--height];
        const Node& node = nodes_[top.id];
        if (!(top.value < limit) || node.last <= first_position) continue;
        ++steps;
        if (node.inner >= 0) {
            Found near{apart(point, node.inner) * scale + nodes_[node.inner].least, node.inner};
            Found far{apart(point, node.inner + 1) * scale + nodes_[node.inner + 1].least,
                      node.inner + 1};
            if (far.value < near.value) std::swap(near, far);
            stack[height++] = far;
            stack[height++] = near;
            continue;
        }
        steps += node.end - node.begin;
        for (std::int32_t i = node.begin; i < node.end; ++i) {
            const std::int32_t id = order_[i];
            if (places_[id] <= first_position) continue;
            const double record_value = value(point, scale, id);
            if (record_value < limit) limit = keep(record_value, id);
        }
    }
    return steps;
}

std::int64_t WeightedTree::least(const double* point, double scale, std::int32_t first_position,
                                 double limit, std::int32_t count,
                                 std::vector<Found>& results) const {
    results.clear();
    if (count < 1) return 0;
    return walk(point, scale, first_position, [&](double value, std::int32_t id) {
        if (id >= 0) {
            const auto at = std::upper_bound(results.begin(), results.end(), value,
                                             [](double v, const Found& element) { return v < element.value; });
            results.insert(at, {value, id});
            if (results.size() > static_cast<std::size_t>(count)) results.pop_back();
        }
        return results.size() < static_cast<std::size_t>(count) ? limit : results.back().value;
    });
}

std::int64_t WeightedTree::below(const double* point, double scale, std::int32_t first_position, double limit,
                                 std::vector<Found>& results) const {
    results.clear();
    return walk(point, scale, first_position, [&](double value, std::int32_t id) {
        if (id >= 0) results.push_back({value, id});
        return limit;
    });
}

}  // namespace dbanon
