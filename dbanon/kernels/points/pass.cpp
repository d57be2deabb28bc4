#include "points/pass.hpp"

#include <algorithm>
#include <memory>

#include "points/records.hpp"

namespace dbanon {

namespace {

// For one class. With more of them the search takes longer and gains less.
constexpr std::int32_t kNear = 7;
// For one record, if classes have no centres.
constexpr std::int32_t kHeld = 8;
// In the last sweeps few pools are unsettled, and nearly nothing is gained: the remaining
// improvement is bounded, whatever the rounding.
constexpr int kSweeps = 8;

}  // namespace

Coroutine Pass::run() {
    add_classes();
    reach_ = std::min(classes() - 1, kNear);
    if (reach_ > 0) {
        Coroutine search = pair_distances_ ? find_holding() : find_near();
        while (!search.resume()) co_yield nullptr;
        changed_.assign(static_cast<std::size_t>(classes()), 0);
        seen_.assign(static_cast<std::size_t>(classes()), -1);
        std::int32_t before = -1;
        for (int sweep = 0; sweep < kSweeps && before < pools_; ++sweep) {
            before = pools_;
            for (std::int32_t class_id = 0; class_id < classes(); ++class_id) {
                if (settled(class_id)) continue;
                descend(class_id);
                work_.left -= pool_.take_work();
                done_ = std::min(0.3 + 0.3 * (sweep + 1.0 * class_id / classes()), 0.99);
                if (work_.is_spent()) co_yield nullptr;
            }
        }
    }
    number_classes();
}

// The classes with the nearest centres.
Coroutine Pass::find_near() {
    add_centres();
    const Table centres{centres_.data(), classes(), table_.p};
    const std::unique_ptr<Records> records = make_records(centres, Search::automatic, classes());
    while (!records->prepare(work_)) co_yield nullptr;
    for (std::int32_t class_id = 0; class_id < classes(); ++class_id) {
        query_.start(centres.row(class_id), reach_, class_id);
        records->begin(query_);
        while (!records->nearest(query_, work_)) co_yield nullptr;
        query_.sort();
        for (std::int32_t i = 0; i < reach_; ++i) near_.push_back(query_.results[i].id);
        done_ = 0.3 * class_id / classes();
    }
}

// The classes with most of the nearest records; in a tie the smaller number first.
Coroutine Pass::find_holding() {
    const std::int32_t count = std::min(table_.n - 1, kHeld);
    std::vector<std::int32_t> neighbours(static_cast<std::size_t>(count)), holding;
    std::vector<std::pair<std::int32_t, std::int32_t>> order;
    for (std::int32_t class_id = 0; class_id < classes(); ++class_id) {
        holding.clear();
        for (std::int32_t i = 0; i < size(class_id); ++i) {
            pair_distances_->find_nearest(members(class_id)[i], count, neighbours.data(), work_);
            for (const std::int32_t id : neighbours) holding.push_back(class_of(id));
            if (work_.is_spent()) co_yield nullptr;
        }
        std::sort(holding.begin(), holding.end());
        order.clear();
        for (const std::int32_t other : holding) {
            if (other == class_id) continue;
            if (order.empty() || order.back().second != other) order.emplace_back(0, other);
            --order.back().first;
        }
        std::sort(order.begin(), order.end());
        for (std::size_t i = 0; i < static_cast<std::size_t>(reach_); ++i) {
            near_.push_back(i < order.size() ? order[i].second : class_id);
        }
        done_ = 0.3 * class_id / classes();
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
bool Pass::settled(std::int32_t class_id) {
    std::int32_t last = changed(class_id);
    for (std::int32_t i = 0; i < reach_; ++i) last = std::max(last, changed(near(class_id)[i]));
    return last <= seen_[static_cast<std::size_t>(class_id)];
}

void Pass::descend(std::int32_t class_id) {
    pool_classes_.assign(1, class_id);
    std::int32_t records = size(class_id);
    for (std::int32_t i = 0; i < reach_; ++i) {
        if (near(class_id)[i] == class_id) break;
        records += size(near(class_id)[i]);
        if (records > max_pooled_records()) break;
        pool_classes_.push_back(near(class_id)[i]);
    }
    fill_pool();
    pool_.descend();
    ++pools_;
    std::int32_t x = 0;
    for (std::size_t part = 0; part < pool_classes_.size(); ++part) {
        for (const std::int32_t end = x + size(pool_classes_[part]); x < end; ++x) {
            const std::int32_t now = pool_.class_of(x);
            if (now == static_cast<std::int32_t>(part)) continue;
            changed(pool_classes_[part]) = changed(pool_classes_[static_cast<std::size_t>(now)]) = pools_;
        }
    }
    seen_[static_cast<std::size_t>(class_id)] = pools_;
    write_back();
}

}  // namespace dbanon
