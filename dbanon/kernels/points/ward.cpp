#include "points/ward.hpp"

#include <algorithm>
#include <cmath>

#include "points/dispatch.hpp"
#include "points/distance.hpp"

namespace dbanon {

namespace {

// Below this number of clusters, scanning all beats the index.
constexpr std::size_t kMinIndexedClusters = 512;

bool equal_rows(const Table& table, std::int32_t a, std::int32_t b) {
    return std::equal(table.row(a), table.row(a) + table.p, table.row(b));
}

struct FarPair {
    std::int32_t r, s;
    std::int64_t cost;
};

// The two records of `ids` that are farthest apart (smallest indices in a tie), and the steps it
// took.
FarPair far_pair(const Table& table, const std::vector<std::int32_t>& ids) {
    // The distance of a pair is bounded by the sum of both distances from the middle of the box.
    const int p = table.p;
    std::vector<double> middle(p);
    for (int j = 0; j < p; ++j) {
        double low = kInf, high = -kInf;
        for (const std::int32_t id : ids) {
            low = std::min(low, table.row(id)[j]);
            high = std::max(high, table.row(id)[j]);
        }
        middle[j] = low + (high - low) / 2;
    }
    // The first of equal records represents them.
    std::vector<std::int32_t> distinct = ids;
    std::sort(distinct.begin(), distinct.end(), [&](std::int32_t a, std::int32_t b) {
        const auto order = std::lexicographical_compare_three_way(
            table.row(a), table.row(a) + p, table.row(b), table.row(b) + p);
        return order != 0 ? order < 0 : a < b;
    });
    distinct.erase(std::unique(distinct.begin(), distinct.end(),
                               [&](std::int32_t a, std::int32_t b) { return equal_rows(table, a, b); }),
                   distinct.end());
    std::vector<std::pair<double, std::int32_t>> by_distance_from_middle;
    for (const std::int32_t id : distinct) {
        by_distance_from_middle.emplace_back(-std::sqrt(distance(middle.data(), table.row(id), p)), id);
    }
    std::sort(by_distance_from_middle.begin(), by_distance_from_middle.end());
    FarPair far_pair{ids[0], ids[1], 32 * static_cast<std::int64_t>(ids.size())};
    double most = -1.0;
    for (std::size_t i = 0; i < by_distance_from_middle.size(); ++i) {
        // The slack makes the bound safe against rounding.
        const double radius = -by_distance_from_middle[i].first;
        const auto cannot_be_farther = [&](double other) {
            return (radius + other) * (radius + other) * (1 + 1e-12) < most;
        };
        if (cannot_be_farther(radius)) break;
        for (std::size_t l = i + 1; l < by_distance_from_middle.size(); ++l) {
            if (cannot_be_farther(-by_distance_from_middle[l].first)) break;
            ++far_pair.cost;
            const std::int32_t r = std::min(by_distance_from_middle[i].second, by_distance_from_middle[l].second);
            const std::int32_t s = std::max(by_distance_from_middle[i].second, by_distance_from_middle[l].second);
            const double at = distance(table.row(r), table.row(s), p);
            const bool earlier = r < far_pair.r || (r == far_pair.r && s < far_pair.s);
            if (at > most || (at == most && earlier)) {
                most = at;
                far_pair.r = r;
                far_pair.s = s;
            }
        }
    }
    return far_pair;
}

// Takes the record at `from` and its k - 1 nearest out of `ids` (by distance, then index).
std::vector<std::int32_t> take_around(const Table& table, std::vector<std::int32_t>& ids,
                                      std::int32_t from, std::int32_t k) {
    std::vector<RecordDistance> order;
    for (const std::int32_t id : ids) {
        order.push_back({id == from ? -1.0 : distance(table.row(from), table.row(id), table.p), id});
    }
    const auto end = order.begin() + std::min<std::ptrdiff_t>(k, std::ssize(order));
    std::partial_sort(order.begin(), end, order.end(), is_nearer);
    std::vector<std::int32_t> group;
    for (auto at = order.begin(); at != end; ++at) group.push_back(at->id);
    std::vector<std::int32_t> sorted = group;
    std::sort(sorted.begin(), sorted.end());
    std::erase_if(ids, [&](std::int32_t id) {
        return std::binary_search(sorted.begin(), sorted.end(), id);
    });
    return group;
}

}  // namespace

Ward::Ward(const Table& table, std::int32_t k, Search search)
    : Kernel(table, k), centroids_(table.p), search_(search), index_(table.p, k, ops_for(table.p)) {}

void Ward::add(const Members& ids) {
    const int p = table_.p;
    const std::int32_t size = static_cast<std::int32_t>(ids.size());
    centroids_.resize(clusters_.size() + 1);
    double* mean = centroids_.row(clusters_.size());
    for (int j = 0; j < p; ++j) {
        double total = 0.0;
        for (const std::int32_t id : ids) total += table_.row(id)[j];
        mean[j] = total / size;
    }
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
        next_member_[ids[i]] = ids[i + 1];
    }
    next_member_[ids.back()] = -1;
    const std::int32_t number = static_cast<std::int32_t>(slot_.size());
    slot_.push_back(clusters_.size());
    clusters_.push_back({size, ids.back(), number, ids.front()});
    if (size < k_) ++n_small_clusters_;
}

void Ward::start_group(Members ids) {
    clusters_.clear();
    centroids_.resize(0);
    chain_.clear();
    slot_.clear();
    n_small_clusters_ = 0;
    const FarPair ends = far_pair(table_, ids);
    work_.left -= ends.cost;
    const Members around_r = take_around(table_, ids, ends.r, k_);
    const bool s_is_near_r = std::find(around_r.begin(), around_r.end(), ends.s) != around_r.end();
    // All records are in the class of r, for example because they are equal: use any other class.
    const Members around_s = take_around(table_, ids, s_is_near_r ? ids.front() : ends.s, k_);
    add(around_r);
    add(around_s);
    for (const std::int32_t id : ids) add({id});
}

bool Ward::may_merge(std::size_t a, std::size_t b) const {
    return clusters_[a].size < k_ || clusters_[b].size < k_;
}

double Ward::merging_cost(std::size_t a, std::size_t b) const {
    const double n = clusters_[a].size, m = clusters_[b].size;
    return merging_factor(n, m) * distance(centroids_.row(a), centroids_.row(b), table_.p);
}

bool Ward::should_use_index() const {
    return search_ == Search::index || (search_ == Search::automatic && clusters_.size() >= kMinIndexedClusters);
}

// Rebuilds the index of all clusters, or of the young ones. False if means have overflowed, since
// then they cannot be ordered.
bool Ward::fill_index(bool rebuild_all) {
    const std::size_t p = table_.p;
    std::vector<std::int32_t> cluster_numbers;
    if (rebuild_all) {
        index_.start(static_cast<std::int32_t>(slot_.size()));
        for (const Cluster& cluster : clusters_) cluster_numbers.push_back(cluster.number);
        std::sort(cluster_numbers.begin(), cluster_numbers.end());
    } else {
        cluster_numbers = index_.start_young();
    }
    work_.left -= 4 * std::ssize(cluster_numbers);
    for (const std::int32_t number : cluster_numbers) {
        const std::size_t at = slot_[number];
        const double* mean = centroids_.row(at);
        if (!std::all_of(mean, mean + p, [](double value) { return std::isfinite(value); })) {
            return false;
        }
        index_.add(number, clusters_[at].size, mean);
    }
    return true;
}

// The cluster that is cheapest to merge with. Ties prefer the previous one in the chain, then the
// smallest number.
std::size_t Ward::nearest(std::size_t cluster_index, std::size_t previous) {
    const std::size_t none = clusters_.size();
    std::size_t partner = previous < none && may_merge(cluster_index, previous) ? previous : none;
    double least = partner == none ? kInf : merging_cost(cluster_index, partner);
    const auto offer = [&](std::size_t other) {
        if (other == cluster_index || !may_merge(cluster_index, other)) return;
        const double at = merging_cost(cluster_index, other);
        const bool tie = at == least && partner != previous && partner != none &&
                         clusters_[other].number < clusters_[partner].number;
        if (partner == none || at < least || tie) least = at, partner = other;
    };
    if (uses_index_) {
        const Cluster& cluster = clusters_[cluster_index];
        index_.visit_partners(cluster.number, cluster.size,
                        centroids_.row(cluster_index), least, work_,
                        [&](std::int32_t number) { offer(slot_[number]); });
        if (partner != none) return partner;
    }
    for (std::size_t other = 0; other < none; ++other) offer(other);
    work_.left -= static_cast<std::int64_t>(none) * std::max(1, table_.p / 4);
    return partner;
}

// The union replaces a; the last cluster moves to the slot of b.
void Ward::merge(std::size_t a, std::size_t b) {
    Cluster& to = clusters_[a];
    const Cluster from = clusters_[b];
    const double n = to.size, m = from.size;
    if (uses_index_) {
        index_.erase(to.number);
        index_.erase(from.number);
    }
    double* mean = centroids_.row(a);
    const double* other = centroids_.row(b);
    for (int j = 0; j < table_.p; ++j) mean[j] += (other[j] - mean[j]) * (m / (n + m));
    n_small_clusters_ -= static_cast<std::size_t>(to.size < k_) + static_cast<std::size_t>(from.size < k_);
    to.size += from.size;
    n_small_clusters_ += static_cast<std::size_t>(to.size < k_);
    next_member_[to.last] = from.first;
    to.last = from.last;
    if (from.number < to.number) {
        to.number = from.number;
        slot_[to.number] = a;
    }
    if (uses_index_) index_.insert(to.number);
    const std::size_t last = clusters_.size() - 1;
    if (b != last) {
        clusters_[b] = clusters_[last];
        centroids_.copy(last, b);
        slot_[clusters_[b].number] = b;
    }
    clusters_.pop_back();
    centroids_.resize(last);
}

// If all records are equal, merges are free, and all records would join the first class except the
// second k, for which the same applies.
bool Ward::split_if_all_equal(const Members& ids, std::vector<Members>& groups) const {
    const auto equal = [&](std::int32_t id) { return equal_rows(table_, ids[0], id); };
    if (!std::all_of(ids.begin() + 1, ids.end(), equal)) return false;
    auto next = ids.begin() + k_;
    for (; ids.end() - next >= k_; next += k_) groups.emplace_back(next, next + k_);
    groups.emplace_back(ids.begin(), ids.begin() + k_);
    groups.back().insert(groups.back().end(), next, ids.end());
    return true;
}

Ward::Members Ward::members(const Cluster& cluster) const {
    Members ids;
    for (std::int32_t id = cluster.first; id >= 0; id = next_member_[id]) {
        ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end());
    return ids;
}

Coroutine Ward::run() {
    next_member_.resize(table_.n, -1);
    std::vector<Members> pending_groups(1);
    for (std::int32_t id = 0; id < table_.n; ++id) pending_groups[0].push_back(id);
    std::vector<Members> groups;
    while (!pending_groups.empty()) {
        Members ids = std::move(pending_groups.back());
        pending_groups.pop_back();
        if (static_cast<std::int64_t>(ids.size()) < 2 * std::int64_t{k_}) {
            groups.push_back(std::move(ids));
            continue;
        }
        if (split_if_all_equal(ids, groups)) {
            work_.left -= static_cast<std::int64_t>(ids.size());
            if (work_.is_spent()) co_yield nullptr;
            continue;
        }
        start_group(std::move(ids));
        std::size_t next_small = 0;  // all clusters before it are large enough
        uses_index_ = should_use_index() && fill_index(true);
        while (uses_index_ && !index_.build(work_)) co_yield nullptr;
        while (n_small_clusters_ > 0) {
            if (uses_index_ && (index_.outdated() || !should_use_index())) {
                uses_index_ = should_use_index() && fill_index(index_.too_many_young());
                while (uses_index_ && !index_.build(work_)) co_yield nullptr;
            }
            if (chain_.empty()) {
                for (next_small = next_small < clusters_.size() ? next_small : 0; clusters_[next_small].size >= k_;) {
                    next_small = next_small + 1 < clusters_.size() ? next_small + 1 : 0;
                }
                chain_.push_back(clusters_[next_small].number);
            }
            const std::size_t at = slot_[chain_.back()];
            const std::size_t previous =
                chain_.size() > 1 ? slot_[chain_[chain_.size() - 2]] : clusters_.size();
            const std::size_t other = nearest(at, previous);
            work_.left -= 16;
            if (other == previous) {
                chain_.resize(chain_.size() - 2);
                merge(std::min(at, other), std::max(at, other));
            } else {
                chain_.push_back(clusters_[other].number);
            }
            if (work_.is_spent()) co_yield nullptr;
        }
        for (const Cluster& cluster : clusters_) pending_groups.push_back(members(cluster));
    }
    std::sort(groups.begin(), groups.end());
    for (std::size_t label = 0; label < groups.size(); ++label) {
        for (const std::int32_t id : groups[label]) assign(id, static_cast<std::int32_t>(label));
    }
}

}  // namespace dbanon
