#include "points/weighted_tree.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dbanon {

namespace {

constexpr std::int32_t kMaxLeafRecords = 12;
// Two nodes per level, and no more levels than a number has bits.
constexpr std::size_t kMaxStackHeight = 128;

}  // namespace

WeightedTree::WeightedTree(const Table& table)
    : table_(table), order_(table.n), boxes_(2 * static_cast<std::size_t>(table.p)), unbuilt_nodes_{0} {
    std::iota(order_.begin(), order_.end(), 0);
    nodes_.push_back({0, table.n, -1});
    boxes_.resize(1);
}

bool WeightedTree::build(Work& work) {
    while (!unbuilt_nodes_.empty()) {
        const std::int32_t at = unbuilt_nodes_.back();
        unbuilt_nodes_.pop_back();
        compute_box(at);
        const std::int32_t begin = nodes_[at].begin, end = nodes_[at].end;
        work.left -= std::int64_t{end - begin} * (1 + table_.p);
        if (end - begin > kMaxLeafRecords) {
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
            nodes_[at].first_child = static_cast<std::int32_t>(nodes_.size());
            nodes_.push_back({begin, middle, -1});
            nodes_.push_back({middle, end, -1});
            boxes_.resize(nodes_.size());
            unbuilt_nodes_.push_back(nodes_[at].first_child + 1);
            unbuilt_nodes_.push_back(nodes_[at].first_child);
        }
        if (work.is_spent()) return unbuilt_nodes_.empty();
    }
    return true;
}

void WeightedTree::compute_box(std::int32_t node) {
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

void WeightedTree::set_weights(const std::vector<double>& weights, const std::vector<std::int32_t>& ranks) {
    weights_ = weights;
    ranks_ = ranks;
    for (std::size_t at = nodes_.size(); at-- > 0;) {
        Node& node = nodes_[at];
        node.min_weight = std::numeric_limits<double>::infinity();
        node.max_rank = -1;
        if (node.first_child >= 0) {
            for (const std::int32_t child : {node.first_child, node.first_child + 1}) {
                node.min_weight = std::min(node.min_weight, nodes_[child].min_weight);
                node.max_rank = std::max(node.max_rank, nodes_[child].max_rank);
            }
            continue;
        }
        for (std::int32_t i = node.begin; i < node.end; ++i) {
            node.min_weight = std::min(node.min_weight, weights_[order_[i]]);
            node.max_rank = std::max(node.max_rank, ranks_[order_[i]]);
        }
    }
}

double WeightedTree::box_distance(const double* point, std::int32_t node) const {
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
template <class Accept>
std::int64_t WeightedTree::walk(const double* point, double scale, std::int32_t after_rank,
                                Accept&& accept) const {
    Entry stack[kMaxStackHeight];
    std::size_t height = 0;
    std::int64_t steps = 0;
    double limit = accept(std::numeric_limits<double>::infinity(), -1);
    stack[height++] = {box_distance(point, 0) * scale + nodes_[0].min_weight, 0};
    while (height > 0) {
        const Entry top = stack[--height];
        const Node& node = nodes_[top.id];
        if (!(top.value < limit) || node.max_rank <= after_rank) continue;
        ++steps;
        if (node.first_child >= 0) {
            Entry near{box_distance(point, node.first_child) * scale + nodes_[node.first_child].min_weight, node.first_child};
            Entry far{box_distance(point, node.first_child + 1) * scale + nodes_[node.first_child + 1].min_weight,
                      node.first_child + 1};
            if (far.value < near.value) std::swap(near, far);
            stack[height++] = far;
            stack[height++] = near;
            continue;
        }
        steps += node.end - node.begin;
        for (std::int32_t i = node.begin; i < node.end; ++i) {
            const std::int32_t id = order_[i];
            if (ranks_[id] <= after_rank) continue;
            const double record_value = value(point, scale, id);
            if (record_value < limit) limit = accept(record_value, id);
        }
    }
    return steps;
}

std::int64_t WeightedTree::find_least(const double* point, double scale, std::int32_t after_rank,
                                 double limit, std::int32_t count,
                                 std::vector<Entry>& results) const {
    results.clear();
    if (count < 1) return 0;
    return walk(point, scale, after_rank, [&](double value, std::int32_t id) {
        if (id >= 0) {
            const auto at = std::upper_bound(results.begin(), results.end(), value,
                                             [](double v, const Entry& element) { return v < element.value; });
            results.insert(at, {value, id});
            if (results.size() > static_cast<std::size_t>(count)) results.pop_back();
        }
        return results.size() < static_cast<std::size_t>(count) ? limit : results.back().value;
    });
}

std::int64_t WeightedTree::find_below(const double* point, double scale, std::int32_t after_rank, double limit,
                                 std::vector<Entry>& results) const {
    results.clear();
    return walk(point, scale, after_rank, [&](double value, std::int32_t id) {
        if (id >= 0) results.push_back({value, id});
        return limit;
    });
}

}  // namespace dbanon
