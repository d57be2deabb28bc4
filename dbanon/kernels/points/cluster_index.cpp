#include "points/cluster_index.hpp"

#include <algorithm>
#include <cmath>

namespace dbanon {

void ClusterIndex::start(std::int32_t cluster_numbers) {
    locations_.assign(cluster_numbers, {nullptr, -1});
    recent_.clear();
    for (ClusterTree& cluster_tree : trees_) cluster_tree = {};
    adds_young_ = false;
}

std::vector<std::int32_t> ClusterIndex::start_young() {
    std::vector<std::int32_t> cluster_numbers = std::move(recent_);
    recent_.clear();
    for (ClusterTree* cluster_tree : {&trees_[2], &trees_[3]}) {
        for (std::size_t at = 0; at < cluster_tree->number.size(); ++at) {
            if (cluster_tree->tree->is_alive(static_cast<std::int32_t>(at))) cluster_numbers.push_back(cluster_tree->number[at]);
        }
        *cluster_tree = {};
    }
    std::sort(cluster_numbers.begin(), cluster_numbers.end());
    adds_young_ = true;
    return cluster_numbers;
}

bool ClusterIndex::too_many_young() const {
    std::size_t count = recent_.size();
    for (const ClusterTree* cluster_tree : {&trees_[2], &trees_[3]}) {
        if (cluster_tree->tree) count += static_cast<std::size_t>(cluster_tree->tree->size());
    }
    return count > max_young_;
}

void ClusterIndex::add(std::int32_t number, std::int32_t size, const double* mean) {
    ClusterTree& cluster_tree = trees_[(adds_young_ ? 2 : 0) + (size < k_ ? 0 : 1)];
    cluster_tree.min_size = cluster_tree.number.empty() ? size : std::min<double>(cluster_tree.min_size, size);
    locations_[number] = {&cluster_tree, static_cast<std::int32_t>(cluster_tree.number.size())};
    cluster_tree.number.push_back(number);
    cluster_tree.rows.insert(cluster_tree.rows.end(), mean, mean + p_);
}

bool ClusterIndex::build(Work& work) {
    for (ClusterTree& cluster_tree : trees_) {
        if (cluster_tree.number.empty()) continue;
        if (!cluster_tree.tree) {
            const std::int32_t n = static_cast<std::int32_t>(cluster_tree.number.size());
            cluster_tree.tree = std::make_unique<KdTree>(cluster_tree.rows.data(), n, p_, ops_);
        }
        if (!cluster_tree.tree->build(work)) return false;
    }
    if (!adds_young_) {
        // Balances the costs of scanning recent clusters, building the young trees and building
        // all.
        const double root = std::cbrt(trees_[0].number.size() + trees_[1].number.size());
        max_recent_ = 64 + static_cast<std::size_t>(8 * root);
        max_young_ = static_cast<std::size_t>(4 * root * root);
    }
    return true;
}

void ClusterIndex::insert(std::int32_t number) {
    locations_[number] = {nullptr, static_cast<std::int32_t>(recent_.size())};
    recent_.push_back(number);
}

void ClusterIndex::erase(std::int32_t number) {
    const Location location = locations_[number];
    if (location.cluster_tree != nullptr) {
        location.cluster_tree->tree->erase(location.index);
        return;
    }
    const std::size_t at = location.index;
    recent_[at] = recent_.back();
    locations_[recent_[at]].index = location.index;
    recent_.pop_back();
}

}  // namespace dbanon
