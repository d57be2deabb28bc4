#include "points/path.hpp"

#include <algorithm>

#include "points/distance.hpp"

namespace dbanon {

NearestPath::NearestPath(const Table& table, const std::int32_t* groups)
    : Kernel(table, 1), mean_(table) {
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

std::int32_t NearestPath::nearest_in(std::int32_t group, const double* from) const {
    double least = kInf;
    std::int32_t nearest = -1;
    for (const std::int32_t id : members_[group]) {
        if (is_assigned(id)) continue;
        const double at = distance(from, table_.row(id), table_.p);
        if (nearest < 0 || at < least) least = at, nearest = id;
    }
    return nearest;
}

void NearestPath::walk(std::int32_t group, std::int32_t from, std::int32_t& position) {
    for (std::int32_t id = from; id >= 0; id = nearest_in(group, table_.row(id))) {
        assign(id, position++);
    }
    const std::int64_t size = static_cast<std::int64_t>(members_[group].size());
    work_.left -= size * size;
}

Coroutine NearestPath::run() {
    mean_.begin_round(0, table_.n);
    while (!mean_.update(labels_, work_)) co_yield nullptr;
    std::int32_t id = 0;
    double most = -1.0;
    for (std::int32_t x = 0; x < table_.n; ++x) {
        const double at = distance(mean_.mean(), table_.row(x), table_.p);
        if (at > most) most = at, id = x;
    }
    // The points to visit: records, or centroids of groups.
    const bool grouped = !members_.empty();
    const Table stops = grouped ? Table{centroids_.data(),
                                        static_cast<std::int32_t>(members_.size()), table_.p}
                                : table_;
    std::int32_t stop = id;
    if (grouped) {
        for (std::size_t group = 0; group < members_.size(); ++group) {
            const auto& ids = members_[group];
            if (std::binary_search(ids.begin(), ids.end(), id)) {
                stop = static_cast<std::int32_t>(group);
            }
        }
    }
    const std::unique_ptr<Records> waiting = make_records(stops, Search::automatic);
    std::int32_t position = 0;
    for (;;) {
        if (grouped) {
            walk(stop, id, position);
        } else {
            assign(stop, position++);
        }
        while (!waiting->prepare(work_)) co_yield nullptr;
        waiting->erase(stop);
        if (waiting->size() == 0) break;
        near_.start(stops.row(stop), 1);
        waiting->begin(near_);
        while (!waiting->nearest(near_, work_)) co_yield nullptr;
        const std::int32_t before = stop;
        stop = near_.results[0].id;
        if (grouped) id = nearest_in(stop, stops.row(before));
    }
}

Coroutine PathCut::run() {
    const std::int32_t n = table_.n;
    const std::int32_t longest = static_cast<std::int32_t>(
        std::min<std::int64_t>(n, 2 * std::int64_t{k_} - 1));
    const std::size_t p = table_.p;
    std::vector<double> best(static_cast<std::size_t>(n) + 1, kInf), mean(p);
    std::vector<std::int32_t> start(static_cast<std::size_t>(n) + 1, -1);
    best[0] = 0.0;
    for (std::int32_t end = k_; end <= n; ++end) {
        double square = 0.0;  // of the records from `from` on, updated by Welford's algorithm
        std::fill(mean.begin(), mean.end(), 0.0);
        const std::int32_t first = std::max(0, end - longest);
        for (std::int32_t from = end - 1; from >= first; --from) {
            const double* row = table_.row(order_[from]);
            const double size = end - from;
            for (std::size_t j = 0; j < p; ++j) {
                const double gap = row[j] - mean[j];
                mean[j] += gap / size;
                square += gap * (row[j] - mean[j]);
            }
            const double total = best[from] + square;
            if (end - from < k_ || (from > 0 && start[from] < 0)) continue;
            if (start[end] < 0 || total < best[end]) {
                best[end] = total;
                start[end] = from;
            }
        }
        done_ = end;
        work_.left -= std::int64_t{longest} * std::max(1, table_.p / 4);
        if (work_.is_spent()) co_yield nullptr;
    }
    std::vector<std::int32_t> ends;
    for (std::int32_t end = n; end > 0; end = start[end]) {
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
