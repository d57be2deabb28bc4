#include "points/path.hpp"

#include <algorithm>

#include "points/distance.hpp"

namespace dbanon {

NearestPath::NearestPath(const Table& table, const std::int32_t* groups)
    : Kernel(table, 1), centroid_(table) {
    if (groups == nullptr) return;
    const std::size_t count =
        static_cast<std::size_t>(*std::max_element(groups, groups + table.n)) + 1;
    const std::size_t p = table.p;
    members_.resize(count);
    centroids_.resize(count * p, 0.0);
    for (std::int32_t id = 0; id < table.n; ++id) {
        const std::size_t group = groups[id];
        members_[group].push_back(id);
        for (std::size_t j = 0; j < p; ++j) centroids_[group * p + j] += table.row(id)[j];
    }
    for (std::size_t group = 0; group < count; ++group) {
        const double size = static_cast<double>(members_[group].size());
        for (std::size_t j = 0; j < p; ++j) centroids_[group * p + j] /= size;
    }
}

std::int32_t NearestPath::nearest_unvisited(std::int32_t group, const double* start) const {
    double least = kInf;
    std::int32_t nearest = -1;
    for (const std::int32_t id : members_[group]) {
        if (is_assigned(id)) continue;
        const double at = distance(start, table_.row(id), table_.p);
        if (nearest < 0 || at < least) least = at, nearest = id;
    }
    return nearest;
}

void NearestPath::visit_group(std::int32_t group, std::int32_t start, std::int32_t& position) {
    for (std::int32_t id = start; id >= 0; id = nearest_unvisited(group, table_.row(id))) {
        assign(id, position++);
    }
    const std::int64_t size = static_cast<std::int64_t>(members_[group].size());
    work_.left -= size * size;
}

Coroutine NearestPath::run() {
    centroid_.begin_round(0, table_.n);
    while (!centroid_.update(labels_, work_)) co_yield nullptr;
    std::int32_t id = 0;
    double most = -1.0;
    for (std::int32_t x = 0; x < table_.n; ++x) {
        const double at = distance(centroid_.mean(), table_.row(x), table_.p);
        if (at > most) most = at, id = x;
    }
    // The points to visit: records, or centroids of groups.
    const bool grouped = !members_.empty();
    const Table waypoints = grouped ? Table{centroids_.data(),
                                        static_cast<std::int32_t>(members_.size()), table_.p}
                                : table_;
    std::int32_t waypoint = id;
    if (grouped) {
        for (std::size_t group = 0; group < members_.size(); ++group) {
            const auto& ids = members_[group];
            if (std::binary_search(ids.begin(), ids.end(), id)) {
                waypoint = static_cast<std::int32_t>(group);
            }
        }
    }
    const std::unique_ptr<Records> unvisited = make_records(waypoints, Search::automatic);
    std::int32_t position = 0;
    for (;;) {
        if (grouped) {
            visit_group(waypoint, id, position);
        } else {
            assign(waypoint, position++);
        }
        while (!unvisited->prepare(work_)) co_yield nullptr;
        unvisited->erase(waypoint);
        if (unvisited->size() == 0) break;
        near_.start(waypoints.row(waypoint), 1);
        unvisited->begin(near_);
        while (!unvisited->nearest(near_, work_)) co_yield nullptr;
        const std::int32_t previous_waypoint = waypoint;
        waypoint = near_.results[0].id;
        if (grouped) id = nearest_unvisited(waypoint, waypoints.row(previous_waypoint));
    }
}

Coroutine PathCut::run() {
    const std::int32_t n = table_.n;
    const std::int32_t max_class_size = static_cast<std::int32_t>(
        std::min<std::int64_t>(n, 2 * std::int64_t{k_} - 1));
    const std::size_t p = table_.p;
    std::vector<double> min_loss(static_cast<std::size_t>(n) + 1, kInf), mean(p);
    std::vector<std::int32_t> class_start(static_cast<std::size_t>(n) + 1, -1);
    min_loss[0] = 0.0;
    for (std::int32_t end = k_; end <= n; ++end) {
        double square = 0.0;  // of the records from `begin` on, updated by Welford's algorithm
        std::fill(mean.begin(), mean.end(), 0.0);
        const std::int32_t first = std::max(0, end - max_class_size);
        for (std::int32_t begin = end - 1; begin >= first; --begin) {
            const double* row = table_.row(order_[begin]);
            const double size = end - begin;
            for (std::size_t j = 0; j < p; ++j) {
                const double gap = row[j] - mean[j];
                mean[j] += gap / size;
                square += gap * (row[j] - mean[j]);
            }
            const double total = min_loss[begin] + square;
            if (end - begin < k_ || (begin > 0 && class_start[begin] < 0)) continue;
            if (class_start[end] < 0 || total < min_loss[end]) {
                min_loss[end] = total;
                class_start[end] = begin;
            }
        }
        n_placed_ = end;
        work_.left -= std::int64_t{max_class_size} * std::max(1, table_.p / 4);
        if (work_.is_spent()) co_yield nullptr;
    }
    std::vector<std::int32_t> ends;
    for (std::int32_t end = n; end > 0; end = class_start[end]) {
        ends.push_back(end);
    }
    std::int32_t at = 0;
    for (std::size_t label = 0; label < ends.size(); ++label) {
        for (; at < ends[ends.size() - 1 - label]; ++at) {
            assign(order_[at], static_cast<std::int32_t>(label));
        }
    }
}

}  // namespace dbanon
