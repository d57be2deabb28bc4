#include "points/pass.hpp"

#include <algorithm>
#include <memory>

#include "points/records.hpp"

namespace dbanon {

namespace {

// For one class. With more of them the search takes longer and gains less.
constexpr std::int32_t kNearClasses = 7;
// For one record, if classes have no centres.
constexpr std::int32_t kNeighboursPerRecord = 8;
// In the last sweeps few pools are unsettled, and nearly nothing is gained: the remaining
// improvement is bounded, whatever the rounding.
constexpr int kSweeps = 8;

}  // namespace

Coroutine Pass::run() {
    add_classes();
    n_near_classes_ = std::min(classes() - 1, kNearClasses);
    if (n_near_classes_ > 0) {
        Coroutine search = pair_distances_ ? find_near_by_records() : find_near_by_centres();
        while (!search.resume()) co_yield nullptr;
        last_changes_.assign(static_cast<std::size_t>(classes()), 0);
        last_searches_.assign(static_cast<std::size_t>(classes()), -1);
        std::int32_t previous_pools = -1;
        for (int sweep = 0; sweep < kSweeps && previous_pools < n_searched_pools_; ++sweep) {
            previous_pools = n_searched_pools_;
            for (std::int32_t class_id = 0; class_id < classes(); ++class_id) {
                if (is_settled(class_id)) continue;
                improve_pool_of(class_id);
                work_.left -= pool_.take_work();
                fraction_done_ = std::min(0.3 + 0.3 * (sweep + 1.0 * class_id / classes()), 0.99);
                if (work_.is_spent()) co_yield nullptr;
            }
        }
    }
    number_classes();
}

// The classes with the nearest centres.
Coroutine Pass::find_near_by_centres() {
    add_centres();
    const Table centres{centres_.data(), classes(), table_.p};
    const std::unique_ptr<Records> records = make_records(centres, Search::automatic, classes());
    while (!records->prepare(work_)) co_yield nullptr;
    for (std::int32_t class_id = 0; class_id < classes(); ++class_id) {
        query_.start(centres.row(class_id), n_near_classes_, class_id);
        records->begin(query_);
        while (!records->nearest(query_, work_)) co_yield nullptr;
        query_.sort();
        for (std::int32_t i = 0; i < n_near_classes_; ++i) near_classes_.push_back(query_.results[i].id);
        fraction_done_ = 0.3 * class_id / classes();
    }
}

// The classes with most of the nearest records; in a tie the smaller number first.
Coroutine Pass::find_near_by_records() {
    const std::int32_t count = std::min(table_.n - 1, kNeighboursPerRecord);
    std::vector<std::int32_t> neighbours(static_cast<std::size_t>(count)), neighbour_classes;
    std::vector<std::pair<std::int32_t, std::int32_t>> order;
    for (std::int32_t class_id = 0; class_id < classes(); ++class_id) {
        neighbour_classes.clear();
        for (std::int32_t i = 0; i < size(class_id); ++i) {
            pair_distances_->find_nearest(members(class_id)[i], count, neighbours.data(), work_);
            for (const std::int32_t id : neighbours) neighbour_classes.push_back(class_of(id));
            if (work_.is_spent()) co_yield nullptr;
        }
        std::sort(neighbour_classes.begin(), neighbour_classes.end());
        order.clear();
        for (const std::int32_t other : neighbour_classes) {
            if (other == class_id) continue;
            if (order.empty() || order.back().second != other) order.emplace_back(0, other);
            --order.back().first;
        }
        std::sort(order.begin(), order.end());
        for (std::size_t i = 0; i < static_cast<std::size_t>(n_near_classes_); ++i) {
            near_classes_.push_back(i < order.size() ? order[i].second : class_id);
        }
        fraction_done_ = 0.3 * class_id / classes();
    }
}

// Shares are added, as sums of large coordinates could overflow.
void Pass::add_centres() {
    const std::size_t p = static_cast<std::size_t>(table_.p);
    centres_.assign(static_cast<std::size_t>(classes()) * p, 0.0);
    for (std::int32_t class_id = 0; class_id < classes(); ++class_id) {
        double* centre = centres_.data() + static_cast<std::size_t>(class_id) * p;
        const double share = 1.0 / size(class_id);
        for (std::int32_t i = 0; i < size(class_id); ++i) {
            const double* row = table_.row(members(class_id)[i]);
            for (std::size_t j = 0; j < p; ++j) centre[j] += share * row[j];
        }
    }
}

// Whether its pool is unchanged since it was last searched.
bool Pass::is_settled(std::int32_t class_id) {
    std::int32_t latest_change = last_change(class_id);
    for (std::int32_t i = 0; i < n_near_classes_; ++i) latest_change = std::max(latest_change, last_change(near_classes(class_id)[i]));
    return latest_change <= last_searches_[static_cast<std::size_t>(class_id)];
}

void Pass::improve_pool_of(std::int32_t class_id) {
    pool_classes_.assign(1, class_id);
    std::int32_t records = size(class_id);
    for (std::int32_t i = 0; i < n_near_classes_; ++i) {
        if (near_classes(class_id)[i] == class_id) break;
        records += size(near_classes(class_id)[i]);
        if (records > max_pooled_records()) break;
        pool_classes_.push_back(near_classes(class_id)[i]);
    }
    fill_pool();
    pool_.descend();
    ++n_searched_pools_;
    std::int32_t x = 0;
    for (std::size_t pool_class = 0; pool_class < pool_classes_.size(); ++pool_class) {
        for (const std::int32_t end = x + size(pool_classes_[pool_class]); x < end; ++x) {
            const std::int32_t new_pool_class = pool_.class_of(x);
            if (new_pool_class == static_cast<std::int32_t>(pool_class)) continue;
            last_change(pool_classes_[pool_class]) = last_change(pool_classes_[static_cast<std::size_t>(new_pool_class)]) = n_searched_pools_;
        }
    }
    last_searches_[static_cast<std::size_t>(class_id)] = n_searched_pools_;
    write_back();
}

}  // namespace dbanon
