#include "points/refine.hpp"

#include <algorithm>
#include <numeric>

namespace dbanon {

namespace {

// Measured on the three CASC tables, k = 3, 4, 5 and 10: with more neighbours pools spread too far;
// with fewer than seven, classes of 10 to 14 records miss too much.
constexpr std::int32_t kReach = 8;
constexpr int kFirstSweeps = 2;
constexpr std::int32_t kSweepClasses = 6;
constexpr int kTries = 3;         // repairs of a pool, which takes as long to set up
constexpr double kKicks = 0.7;    // share of repairs that only swap a few records
constexpr int kDraws = 2;         // records drawn for a pool, which starts with the class of most loss
constexpr int kCycles = 2;        // number of times that the temperature falls from its maximum to zero
constexpr double kKeeping = 0.3;  // the best state is kept over the last part of a cycle
constexpr double kCollecting = 0.6;   // classes are collected over the last part of a cycle
constexpr double kRecombining = 0.3;  // share of the work for recombination after each cycle
constexpr double kGainless = 0.4;  // share of that without a gain after which it ends
constexpr double kSlack = 0.2;     // classes of pools whose loss is higher by up to this share are collected, too

}  // namespace

Refine::Refine(const Table& table, std::int32_t k, const std::int32_t* labels,
               const Effort& effort, std::unique_ptr<Apart> apart)
    : ClassPools(table, k, labels, std::move(apart)),
      effort_(effort),
      reach_(std::min(table.n - 1, kReach)),
      random_(effort.seed),
      records_(apart_ ? nullptr : make_records(table, Search::automatic)),
      recombine_(table, k, apart_.get()) {}

Steps Refine::find_neighbours() {
    neighbours_.resize(static_cast<std::size_t>(table_.n) * static_cast<std::size_t>(reach_));
    while (records_ && !records_->prepare(work_)) co_yield nullptr;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (apart_) {
            apart_->nearest(id, reach_, neighbours(id), work_);
            if (work_.spent()) co_yield nullptr;
        } else {
            near_.start(table_.row(id), reach_, id);
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
            near_.sort();
            for (std::int32_t i = 0; i < reach_; ++i) neighbours(id)[i] = near_.found[i].id;
        }
        done_ = 0.1 * id / table_.n;
    }
    records_.reset();
}

Steps Refine::run() {
    start_time_ = std::chrono::steady_clock::now();
    add_classes();
    if (classes() == 1) {
        number_classes();
        co_return;
    }
    Steps search = find_neighbours();
    while (!search.resume()) co_yield nullptr;
    for (int round = 0; round < kFirstSweeps; ++round) {
        for (std::int32_t at = 0; at < classes(); ++at) {
            sweep(at);
            work_.left -= pool_.spent();
            done_ = 0.1 + 0.1 * (round + static_cast<double>(at) / classes()) / kFirstSweeps;
            if (work_.spent()) co_yield nullptr;
        }
    }
    keep_best();
    std::int64_t spent = 0, iteration = 0;
    for (int cycle = kCycles - 1; cycle >= 0; --cycle) {
        const std::int64_t before = spent;
        for (;; ++iteration) {
            const double left = share_left(iteration, spent);
            if (left <= 0.0 || left * kCycles < cycle) break;
            const double warmth = std::min(left * kCycles - cycle, 1.0);
            repair(effort_.heat * warmth * warmth, recombines() && warmth < kCollecting);
            const std::int64_t price = pool_.spent() + recombine_.spent() + 1;
            spent += price;
            work_.left -= price;
            done_ = std::max(done_, 0.2 + 0.8 * (1.0 - left));
            if (work_.spent()) co_yield nullptr;
            if (warmth < kKeeping && iteration % table_.n == 0) keep_best();
        }
        keep_best();
        if (recombines()) {
            recombine_.begin(best_);
            const double share = kRecombining / (1.0 - kRecombining);
            const double most = share * static_cast<double>(spent - before);
            double used = 0.0, gained = 0.0;
            for (bool pricing = true; used < most && used < gained + kGainless * most && in_time();) {
                const bool better = !pricing && recombine_.improve(random_);
                pricing = pricing && recombine_.price();
                const std::int64_t price = recombine_.spent() + 1;
                used += static_cast<double>(price);
                if (pricing || better) gained = used;
                work_.left -= price;
                if (work_.spent()) co_yield nullptr;
            }
            saved_ += static_cast<std::int64_t>(std::max(most - used, 0.0));
            best_ = recombine_.labels();
        }
        take_best();
    }
    number_classes();
}

double Refine::share_left(std::int64_t iteration, std::int64_t spent) const {
    const auto share = [](std::int64_t done, std::int64_t all) {
        return all > 0 ? 1.0 - static_cast<double>(done) / static_cast<double>(all) : 0.0;
    };
    std::int64_t work = effort_.work;
    if (recombines()) {
        work -= static_cast<std::int64_t>(kRecombining * static_cast<double>(work));
        work += saved_;
    }
    const double left = std::min(share(iteration, effort_.iterations), share(spent, work));
    if (effort_.seconds <= 0.0) return left;
    // The last recombination has its own share of time.
    const double searching = recombines() ? 1.0 - kRecombining / kCycles : 1.0;
    return std::min(left, 1.0 - elapsed_seconds() / (searching * effort_.seconds));
}

double Refine::elapsed_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time_).count();
}

// Chooses a class and classes near it, drawn by neighbours of members.
void Refine::gather(std::int32_t first, std::int32_t n_classes) {
    const std::int32_t most = most_pooled();
    chosen_.assign(1, first);
    std::int32_t records = size(first);
    for (std::int32_t tries = 4 * n_classes; tries > 0; --tries) {
        const std::int32_t count = static_cast<std::int32_t>(chosen_.size());
        if (count == n_classes) break;
        const std::int32_t from = chosen_[static_cast<std::size_t>(random_.below(count))];
        const std::int32_t id = members(from)[random_.below(size(from))];
        const std::int32_t at = class_of(neighbours(id)[random_.below(reach_)]);
        if (std::find(chosen_.begin(), chosen_.end(), at) != chosen_.end()) continue;
        if (records + size(at) > most) break;
        records += size(at);
        chosen_.push_back(at);
    }
}

// The pool's current classes, whether they are accepted or not.
void Refine::collect() {
    improved_.resize(static_cast<std::size_t>(pool_.parts()));
    for (Members& ids : improved_) ids.clear();
    for (std::int32_t x = 0; x < pool_.records(); ++x) {
        improved_[static_cast<std::size_t>(pool_.part(x))].push_back(pooled_[static_cast<std::size_t>(x)]);
    }
    for (const Members& ids : improved_) {
        recombine_.add(ids.data(), static_cast<std::int32_t>(ids.size()));
    }
}

void Refine::sweep(std::int32_t at) {
    gather(at, kSweepClasses);
    if (chosen_.size() < 2) return;
    fill_pool();
    pool_.descend();
    write_back();
}

void Refine::repair(double heat, bool collecting) {
    std::int32_t first = class_of(random_.below(table_.n));
    for (int draws = 1; draws < kDraws; ++draws) {
        const std::int32_t other = class_of(random_.below(table_.n));
        if (loss(other) > loss(first)) first = other;
    }
    gather(first, 2 + random_.below(effort_.classes - 1));
    if (chosen_.size() < 2) return;
    fill_pool();
    double before = pool_.loss();
    pool_.save();
    for (int tries = kTries; tries > 0; --tries) {
        if (random_.share() < kKicks) {
            pool_.kick(random_, 1 + random_.below(3));
        } else {
            pool_.rebuild(random_);
        }
        pool_.descend();
        const double after = pool_.loss();
        if (collecting && after < before * (1.0 + kSlack)) collect();
        if (after < before * (1.0 + heat * random_.share())) {
            change_ += after - before;
            write_back();
            before = after;
            pool_.save();
        } else if (tries > 1) {
            pool_.restore();
        }
    }
}

// The current state is the best, unless it only gained a rounding error.
void Refine::keep_best() {
    if (!best_.empty() && change_ >= least_) return;
    least_ = change_;
    best_ = class_of_;
}

void Refine::take_best() {
    change_ = least_;
    class_of_ = best_;
    std::fill(size_.begin(), size_.end(), 0);
    for (std::int32_t id = 0; id < table_.n; ++id) {
        const std::int32_t at = class_of(id);
        members(at)[size(at)++] = id;
    }
    unused_.clear();
    for (std::size_t at = size_.size(); at-- > 0;) {
        if (size_[at] == 0) unused_.push_back(static_cast<std::int32_t>(at));
    }
}

}  // namespace dbanon
