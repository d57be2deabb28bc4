#include "cluster_index.hpp"

#include <algorithm>
#include <cmath>

namespace dbanon {

void ClusterIndex::start(std::int32_t numbers) {
    homes_.assign(static_cast<std::size_t>(numbers), {nullptr, -1});
    recent_.clear();
    for (Side& side : sides_) {
        side.tree.reset();
        side.rows.clear();
        side.number.clear();
    }
}

void ClusterIndex::add(std::int32_t number, std::int32_t size, const double* mean) {
    Side& side = sides_[size < k_ ? 0 : 1];
    side.least = side.number.empty() ? size : std::min<double>(side.least, size);
    homes_[static_cast<std::size_t>(number)] = {&side,
                                                static_cast<std::int32_t>(side.number.size())};
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
    const std::size_t clusters = sides_[0].number.size() + sides_[1].number.size();
    // About where looking through the recent ones costs as much as building.
    most_recent_ = 64 + 2 * static_cast<std::size_t>(std::sqrt(static_cast<double>(clusters)));
    return true;
}

void ClusterIndex::insert(std::int32_t number) {
    homes_[static_cast<std::size_t>(number)] = {nullptr, static_cast<std::int32_t>(recent_.size())};
    recent_.push_back(number);
}

void ClusterIndex::erase(std::int32_t number) {
    const Home home = homes_[static_cast<std::size_t>(number)];
    if (home.side != nullptr) {
        home.side->tree->erase(home.at);
        return;
    }
    const std::size_t at = static_cast<std::size_t>(home.at);
    recent_[at] = recent_.back();
    homes_[static_cast<std::size_t>(recent_[at])].at = home.at;
    recent_.pop_back();
}

}  // namespace dbanon
