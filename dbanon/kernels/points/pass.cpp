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

Steps Pass::run() {
    add_classes();
    reach_ = std::min(classes() - 1, kNear);
    if (reach_ > 0) {
        Steps search = apart_ ? find_holding() : find_near();
        while (!search.resume()) co_yield nullptr;
        changed_.assign(static_cast<std::size_t>(classes()), 0);
        seen_.assign(static_cast<std::size_t>(classes()), -1);
        std::int32_t before = -1;
        for (int sweep = 0; sweep < kSweeps && before < pools_; ++sweep) {
            before = pools_;
            for (std::int32_t at = 0; at < classes(); ++at) {
                if (settled(at)) continue;
                descend(at);
                work_.left -= pool_.spent();
                done_ = std::min(0.3 + 0.3 * (sweep + 1.0 * at / classes()), 0.99);
                if (work_.spent()) co_yield nullptr;
            }
        }
    }
    number_classes();
}

// The classes with the nearest centres.
Steps Pass::find_near() {
    add_centres();
    const Table centres{centres_.data(), classes(), table_.p};
    const std::unique_ptr<Records> records = make_records(centres, Search::automatic, classes());
    while (!records->prepare(work_)) co_yield nullptr;
    for (std::int32_t at = 0; at < classes(); ++at) {
        query_.start(centres.row(at), reach_, at);
        records->begin(query_);
        while (!records->nearest(query_, work_)) co_yield nullptr;
        query_.sort();
        for (std::int32_t i = 0; i < reach_; ++i) near_.push_back(query_.found[i].id);
        done_ = 0.3 * at / classes();
    }
}

// The classes with most of the nearest records; in a tie the smaller number first.
Steps Pass::find_holding() {
    const std::int32_t count = std::min(table_.n - 1, kHeld);
    std::vector<std::int32_t> neighbours(static_cast<std::size_t>(count)), holding;
    std::vector<std::pair<std::int32_t, std::int32_t>> order;
    for (std::int32_t at = 0; at < classes(); ++at) {
        holding.clear();
        for (std::int32_t i = 0; i < size(at); ++i) {
            apart_->nearest(members(at)[i], count, neighbours.data(), work_);
            for (const std::int32_t id : neighbours) holding.push_back(class_of(id));
            if (work_.spent()) co_yield nullptr;
        }
        std::sort(holding.begin(), holding.end());
        order.clear();
        for (const std::int32_t other : holding) {
            if (other == at) continue;
            if (order.empty() || order.back().second != other) order.emplace_back(0, other);
            --order.back().first;
        }
        std::sort(order.begin(), order.end());
        for (std::size_t i = 0; i < static_cast<std::size_t>(reach_); ++i) {
            near_.push_back(i < order.size() ? order[i].second : at);
        }
        done_ = 0.3 * at / classes();
    }
}

// Shares are added, as sums of large coordinates could overflow.
void Pass::add_centres() {
    const std::size_t p = static_cast<std::size_t>(table_.p);
    centres_.assign(static_cast<std::size_t>(classes()) * p, 0.0);
    for (std::int32_t at = 0; at < classes(); ++at) {
        double* centre = centres_.data() + static_cast<std::size_t>(at) * p;
        const double share = 1.0 / size(at);
        for (std::int32_t i = 0; i < size(at); ++i) {
            const double* row = table_.row(members(at)[i]);
            for (std::size_t j = 0; j < p; ++j) centre[j] += share * row[j];
        }
    }
}

// Whether its pool is unchanged since it was last searched.
bool Pass::settled(std::int32_t at) {
    std::int32_t last = changed(at);
    for (std::int32_t i = 0; i < reach_; ++i) last = std::max(last, changed(near(at)[i]));
    return last <= seen_[static_cast<std::size_t>(at)];
}

void Pass::descend(std::int32_t at) {
    chosen_.assign(1, at);
    std::int32_t records = size(at);
    for (std::int32_t i = 0; i < reach_; ++i) {
        if (near(at)[i] == at) break;
        records += size(near(at)[i]);
        if (records > most_pooled()) break;
        chosen_.push_back(near(at)[i]);
    }
    fill_pool();
    pool_.descend();
    ++pools_;
    std::int32_t x = 0;
    for (std::size_t part = 0; part < chosen_.size(); ++part) {
        for (const std::int32_t end = x + size(chosen_[part]); x < end; ++x) {
            const std::int32_t now = pool_.part(x);
            if (now == static_cast<std::int32_t>(part)) continue;
            changed(chosen_[part]) = changed(chosen_[static_cast<std::size_t>(now)]) = pools_;
        }
    }
    seen_[static_cast<std::size_t>(at)] = pools_;
    write_back();
}

}  // namespace dbanon
