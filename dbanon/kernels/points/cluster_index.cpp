#include "points/cluster_index.hpp"

#include <algorithm>
#include <cmath>

namespace dbanon {

void ClusterIndex::start(std::int32_t numbers) {
    homes_.assign(numbers, {nullptr, -1});
    recent_.clear();
    for (Side& side : sides_) side = {};
    young_ = false;
}

std::vector<std::int32_t> ClusterIndex::start_young() {
    std::vector<std::int32_t> numbers = std::move(recent_);
    recent_.clear();
    for (Side* side : {&sides_[2], &sides_[3]}) {
        for (std::size_t at = 0; at < side->number.size(); ++at) {
            if (side->tree->is_alive(static_cast<std::int32_t>(at))) numbers.push_back(side->number[at]);
        }
        *side = {};
    }
    std::sort(numbers.begin(), numbers.end());
    young_ = true;
    return numbers;
}

bool ClusterIndex::too_many_young() const {
    std::size_t count = recent_.size();
    for (const Side* side : {&sides_[2], &sides_[3]}) {
        if (side->tree) count += static_cast<std::size_t>(side->tree->size());
    }
    return count > most_young_;
}

void ClusterIndex::add(std::int32_t number, std::int32_t size, const double* mean) {
    Side& side = sides_[(young_ ? 2 : 0) + (size < k_ ? 0 : 1)];
    side.least = side.number.empty() ? size : std::min<double>(side.least, size);
    homes_[number] = {&side, static_cast<std::int32_t>(side.number.size())};
    side.number.push_back(number);
    side.rows.insert(side.rows.end(), mean, mean + p_);
}

bool ClusterIndex::build(Work& work) {
    for (Side& side : sides_) {
        if (side.number.empty()) continue;
        if (!side.tree) {
            const std::int32_t n = static_cast<std::int32_t>(side.number.size());
            side.tree = std::make_unique<KdTree>(side.rows.data(), n, p_, ops_);
        }
        if (!side.tree->build(work)) return false;
    }
    if (!young_) {
        // Balances the costs of scanning recent clusters, building the young trees and building
        // all.
        const double root = std::cbrt(sides_[0].number.size() + sides_[1].number.size());
        most_recent_ = 64 + static_cast<std::size_t>(8 * root);
        most_young_ = static_cast<std::size_t>(4 * root * root);
    }
    return true;
}

void ClusterIndex::insert(std::int32_t number) {
    homes_[number] = {nullptr, static_cast<std::int32_t>(recent_.size())};
    recent_.push_back(number);
}

void ClusterIndex::erase(std::int32_t number) {
    const Home home = homes_[number];
    if (home.side != nullptr) {
        home.side->tree->erase(home.at);
        return;
    }
    const std::size_t at = home.at;
    recent_[at] = recent_.back();
    homes_[recent_[at]].at = home.at;
    recent_.pop_back();
}

}  // namespace dbanon
