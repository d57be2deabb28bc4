#include "points/refine.hpp"

#include <algorithm>
#include <numeric>

namespace dbanon {

namespace {

// Measured on the three CASC tables, k = 3, 4, 5 and 10: with more neighbours pools spread too far;
// with fewer than seven, classes of 10 to 14 records miss too much.
constexpr std::int32_t kNeighbours = 8;
constexpr int kFirstSweeps = 2;
constexpr std::int32_t kSweepClasses = 6;
constexpr int kRepairsPerPool = 3;         // repairs of a pool, which takes as long to set up
constexpr double kSwapShare = 0.7;    // share of repairs that only swap a few records
constexpr int kSeedDraws = 2;         // records drawn for a pool, which starts with the class of most loss
constexpr int kCoolingCycles = 2;        // number of times that the temperature falls from its maximum to zero
constexpr double kSaveBestShare = 0.3;  // the best state is kept over the last part of a cycle
constexpr double kCollectShare = 0.6;   // classes are collected over the last part of a cycle
constexpr double kRecombineShare = 0.3;  // share of the work for recombination after each cycle
constexpr double kGainlessShare = 0.4;  // share of that without a gain after which it ends
constexpr double kCollectSlack = 0.2;     // classes of pools whose loss is higher by up to this share are collected, too

}  // namespace

Refine::Refine(const Table& table, std::int32_t k, const std::int32_t* labels,
               const RefineSettings& settings, std::unique_ptr<PairDistances> pair_distances)
    : ClassPools(table, k, labels, std::move(pair_distances)),
      settings_(settings),
      n_neighbours_(std::min(table.n - 1, kNeighbours)),
      random_(settings.seed),
      records_(pair_distances_ ? nullptr : make_records(table, Search::automatic)),
      recombine_(table, k, pair_distances_.get()) {}

Coroutine Refine::find_neighbours() {
    neighbours_.resize(static_cast<std::size_t>(table_.n) * static_cast<std::size_t>(n_neighbours_));
    while (records_ && !records_->prepare(work_)) co_yield nullptr;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (pair_distances_) {
            pair_distances_->find_nearest(id, n_neighbours_, neighbours(id), work_);
            if (work_.is_spent()) co_yield nullptr;
        } else {
            near_.start(table_.row(id), n_neighbours_, id);
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
            near_.sort();
            for (std::int32_t i = 0; i < n_neighbours_; ++i) neighbours(id)[i] = near_.results[i].id;
        }
        fraction_done_ = 0.1 * id / table_.n;
    }
    records_.reset();
}

Coroutine Refine::run() {
    start_time_ = std::chrono::steady_clock::now();
    add_classes();
    if (classes() == 1) {
        number_classes();
        co_return;
    }
    Coroutine search = find_neighbours();
    while (!search.resume()) co_yield nullptr;
    for (int round = 0; round < kFirstSweeps; ++round) {
        for (std::int32_t class_id = 0; class_id < classes(); ++class_id) {
            sweep(class_id);
            work_.left -= pool_.take_work();
            fraction_done_ = 0.1 + 0.1 * (round + static_cast<double>(class_id) / classes()) / kFirstSweeps;
            if (work_.is_spent()) co_yield nullptr;
        }
    }
    save_best();
    std::int64_t spent = 0, iteration = 0;
    for (int cycle = kCoolingCycles - 1; cycle >= 0; --cycle) {
        const std::int64_t before = spent;
        for (;; ++iteration) {
            const double left = fraction_left(iteration, spent);
            if (left <= 0.0 || left * kCoolingCycles < cycle) break;
            const double relative_temperature = std::min(left * kCoolingCycles - cycle, 1.0);
            repair(settings_.initial_heat * relative_temperature * relative_temperature, uses_recombination() && relative_temperature < kCollectShare);
            const std::int64_t price = pool_.take_work() + recombine_.take_work() + 1;
            spent += price;
            work_.left -= price;
            fraction_done_ = std::max(fraction_done_, 0.2 + 0.8 * (1.0 - left));
            if (work_.is_spent()) co_yield nullptr;
            if (relative_temperature < kSaveBestShare && iteration % table_.n == 0) save_best();
        }
        save_best();
        if (uses_recombination()) {
            recombine_.start_from(best_);
            const double share = kRecombineShare / (1.0 - kRecombineShare);
            const double most = share * static_cast<double>(spent - before);
            double used = 0.0, gained = 0.0;
            for (bool pricing = true; used < most && used < gained + kGainlessShare * most && has_time_left();) {
                const bool better = !pricing && recombine_.improve(random_);
                pricing = pricing && recombine_.step_prices();
                const std::int64_t price = recombine_.take_work() + 1;
                used += static_cast<double>(price);
                if (pricing || better) gained = used;
                work_.left -= price;
                if (work_.is_spent()) co_yield nullptr;
            }
            unused_recombine_work_ += static_cast<std::int64_t>(std::max(most - used, 0.0));
            best_ = recombine_.labels();
        }
        restore_best();
    }
    number_classes();
}

double Refine::fraction_left(std::int64_t iteration, std::int64_t spent) const {
    const auto share = [](std::int64_t done, std::int64_t all) {
        return all > 0 ? 1.0 - static_cast<double>(done) / static_cast<double>(all) : 0.0;
    };
    std::int64_t work = settings_.max_work;
    if (uses_recombination()) {
        work -= static_cast<std::int64_t>(kRecombineShare * static_cast<double>(work));
        work += unused_recombine_work_;
    }
    const double left = std::min(share(iteration, settings_.max_iterations), share(spent, work));
    if (settings_.max_seconds <= 0.0) return left;
    // The last recombination has its own share of time.
    const double searching = uses_recombination() ? 1.0 - kRecombineShare / kCoolingCycles : 1.0;
    return std::min(left, 1.0 - elapsed_seconds() / (searching * settings_.max_seconds));
}

double Refine::elapsed_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_time_).count();
}

// Chooses a class and classes near it, drawn by neighbours of members.
void Refine::gather(std::int32_t first, std::int32_t n_classes) {
    const std::int32_t most = max_pooled_records();
    pool_classes_.assign(1, first);
    std::int32_t records = size(first);
    for (std::int32_t tries = 4 * n_classes; tries > 0; --tries) {
        const std::int32_t count = static_cast<std::int32_t>(pool_classes_.size());
        if (count == n_classes) break;
        const std::int32_t from = pool_classes_[static_cast<std::size_t>(random_.below(count))];
        const std::int32_t id = members(from)[random_.below(size(from))];
        const std::int32_t class_id = class_of(neighbours(id)[random_.below(n_neighbours_)]);
        if (std::find(pool_classes_.begin(), pool_classes_.end(), class_id) != pool_classes_.end()) continue;
        if (records + size(class_id) > most) break;
        records += size(class_id);
        pool_classes_.push_back(class_id);
    }
}

// The pool's current classes, whether they are accepted or not.
void Refine::collect_classes() {
    pool_members_.resize(static_cast<std::size_t>(pool_.n_classes()));
    for (Members& ids : pool_members_) ids.clear();
    for (std::int32_t x = 0; x < pool_.n_records(); ++x) {
        pool_members_[static_cast<std::size_t>(pool_.class_of(x))].push_back(pool_records_[static_cast<std::size_t>(x)]);
    }
    for (const Members& ids : pool_members_) {
        recombine_.add(ids.data(), static_cast<std::int32_t>(ids.size()));
    }
}

void Refine::sweep(std::int32_t class_id) {
    gather(class_id, kSweepClasses);
    if (pool_classes_.size() < 2) return;
    fill_pool();
    pool_.descend();
    write_back();
}

void Refine::repair(double temperature, bool collecting) {
    std::int32_t first = class_of(random_.below(table_.n));
    for (int draws = 1; draws < kSeedDraws; ++draws) {
        const std::int32_t other = class_of(random_.below(table_.n));
        if (loss(other) > loss(first)) first = other;
    }
    gather(first, 2 + random_.below(settings_.max_pool_classes - 1));
    if (pool_classes_.size() < 2) return;
    fill_pool();
    double before = pool_.loss();
    pool_.save();
    for (int tries = kRepairsPerPool; tries > 0; --tries) {
        if (random_.uniform() < kSwapShare) {
            pool_.swap_random(random_, 1 + random_.below(3));
        } else {
            pool_.rebuild(random_);
        }
        pool_.descend();
        const double after = pool_.loss();
        if (collecting && after < before * (1.0 + kCollectSlack)) collect_classes();
        if (after < before * (1.0 + temperature * random_.uniform())) {
            loss_change_ += after - before;
            write_back();
            before = after;
            pool_.save();
        } else if (tries > 1) {
            pool_.restore();
        }
    }
}

// The current state is the best, unless it only gained a rounding error.
void Refine::save_best() {
    if (!best_.empty() && loss_change_ >= best_loss_change_) return;
    best_loss_change_ = loss_change_;
    best_ = class_of_;
}

void Refine::restore_best() {
    loss_change_ = best_loss_change_;
    class_of_ = best_;
    std::fill(size_.begin(), size_.end(), 0);
    for (std::int32_t id = 0; id < table_.n; ++id) {
        const std::int32_t class_id = class_of(id);
        members(class_id)[size(class_id)++] = id;
    }
    free_class_ids_.clear();
    for (std::size_t class_id = size_.size(); class_id-- > 0;) {
        if (size_[class_id] == 0) free_class_ids_.push_back(static_cast<std::int32_t>(class_id));
    }
}

}  // namespace dbanon
