#include "mixed/refine_loss.hpp"

#include "mixed/near_tuples.hpp"
#include "mixed/swaps.hpp"

namespace dbanon {

namespace {

// The last rounds change nearly nothing: the remaining improvement is bounded.
constexpr int kSweeps = 8;
constexpr std::int32_t kMeasured = 4096;  // rounds
// Entries in a pool: some classes of k, but few enough for a short round.
constexpr std::int32_t kClasses = 4, kFewest = 72, kMost = 400;
constexpr std::size_t kMostClasses = 8;  // in a pool
constexpr std::size_t kGuided = 256;     // values whose counts are added for each price

}  // namespace

RefineLoss::RefineLoss(Mixed mixed, const std::int32_t* labels,
                       std::int32_t k, std::int64_t rounds, std::uint64_t seed, Models models,
                       const std::vector<LabelCosts>& label_costs, std::int64_t min_saving_divisor,
                       bool swapping)
    : Kernel({nullptr, mixed->records(), mixed->n_attributes()}, k),
      mixed_(std::move(mixed)),
      rounds_(rounds),
      min_saving_divisor_(min_saving_divisor),
      swapping_(swapping),
      random_(seed),
      withheld_(mixed_->records(), false),
      entry_of_tuple_(mixed_->tuples(), -1),
      models_(std::move(models)),
      prices_consider_lack_(!models_.empty() && models_.n_counts() <= kGuided),
      pool_(*mixed_, label_costs,
            std::clamp(kClasses * std::min(k, kMost), kFewest, kMost),
            models_.n_counts()),
      merged_counts_(models_.n_counts()) {
    collect(labels);
}

// Classes as counts of tuples; classes with the same single tuple are joined, which loses nothing.
void RefineLoss::collect(const std::int32_t* labels) {
    const std::int32_t n = mixed_->records();
    std::int32_t count = 0;
    for (std::int32_t i = 0; i < n; ++i) count = std::max(count, labels[i] + 1);
    class_tuples_.classes.resize(count);
    for (std::int32_t t = 0; t < mixed_->tuples(); ++t) {
        for (std::int32_t at = mixed_->begin(t); at < mixed_->end(t); ++at) {
            const std::int32_t label = labels[mixed_->copy(at)];
            if (label < 0) {
                withheld_[mixed_->copy(at)] = true;
                continue;
            }
            auto& tuples = class_tuples_.classes[label].tuples;
            if (tuples.empty() || tuples.back().first != t) tuples.emplace_back(t, 0);
            ++tuples.back().second;
        }
    }
    std::vector<std::int32_t> pure(entry_of_tuple_.size(), -1);
    for (std::int32_t c = 0; c < count; ++c) {
        auto& tuples = class_tuples_.classes[c].tuples;
        if (tuples.size() != 1) continue;
        std::int32_t& first = pure[tuples[0].first];
        if (first < 0) {
            first = c;
        } else {
            class_tuples_.classes[first].tuples[0].second += tuples[0].second;
            tuples.clear();
            free_class_ids_.push_back(c);
        }
    }
    class_tuples_.classes_of_tuple.resize(entry_of_tuple_.size());
    for (std::int32_t c = 0; c < count; ++c) {
        ClassTuples::Class& at = class_tuples_.classes[c];
        for (std::size_t i = 0; i < at.tuples.size(); ++i) {
            const auto [tuple, copies] = at.tuples[i];
            class_tuples_.classes_of_tuple[tuple].push_back(c);
            if (i == 0) {
                pool_.shapes.set(pool_.without_shape, tuple, copies);
            } else {
                pool_.shapes.add(pool_.without_shape, tuple, copies);
            }
        }
        at.loss = at.tuples.empty() ? 0 : pool_.shapes.loss(pool_.without_shape);
    }
}

Coroutine RefineLoss::run() {
    const std::int32_t tuples = mixed_->tuples();
    const std::int32_t near = std::clamp(tuples - 1, 0, Swaps::kNear);
    neighbours_.assign(tuples, near);
    if (near > 0) {
        NearTuples tree(*mixed_);
        for (const std::int32_t t : tree.order()) {
            tree.nearest(t, near, neighbours_.row(t), work_);
            if (work_.left <= 0) co_yield nullptr;
        }
    }
    if (near > 0 && swapping_) {
        Swaps swaps(*mixed_, models_, pool_.shapes, pool_.most / 2, class_tuples_, k_);
        const std::size_t classes = class_tuples_.classes.size();
        std::int64_t before = -1;
        for (int sweep = 0; sweep < kSweeps && before < swaps.changes(); ++sweep) {
            before = swaps.changes();
            for (std::size_t c = 0; c < classes; ++c) {
                swaps.start(static_cast<std::int32_t>(c), neighbours_, work_);
                // In a late sweep most classes have nothing left to compare.
                for (bool more = true; more;) {
                    more = swaps.compare(work_);
                    if (work_.left <= 0) co_yield nullptr;
                }
                swept_share_ = (sweep + static_cast<double>(c) / static_cast<double>(classes)) / kSweeps;
            }
        }
    }
    for (const ClassTuples::Class& at : class_tuples_.classes) total_loss_ += at.loss;
    for (round_ = 0; round_ < rounds_ && is_worthwhile(); ++round_) {
        --work_.left;
        if (choose()) {
            Cost before = 0;
            for (const std::int32_t c : pool_.classes) before += class_tuples_.classes[c].loss;
            gather();
            agglomerate();
            move();
            merge_equal_clusters();
            const Cost after = total();
            if (after <= before) {
                accept_pool();
                total_loss_ -= before - after;
            }
            work_.left -= static_cast<std::int64_t>(pool_.entries.size() * pool_.entries.size());
        }
        if (work_.left <= 0) co_yield nullptr;
    }
    number_classes();
}

// Whether the rounds since the last call saved enough. Too few rounds are not representative.
bool RefineLoss::is_worthwhile() {
    if (min_saving_divisor_ == 0 || round_ < next_) return true;
    const bool first = next_ == 0;
    next_ = round_ + std::max(mixed_->records() / k_, kMeasured);
    const Cost saved = previous_loss_ - total_loss_;
    previous_loss_ = total_loss_;
    return first || saved >= total_loss_ / min_saving_divisor_;
}

// Labels: classes in the order of their first records.
void RefineLoss::number_classes() {
    const std::int32_t tuples = mixed_->tuples();
    std::vector<std::int32_t> next(entry_of_tuple_.size());
    for (std::int32_t t = 0; t < tuples; ++t) next[t] = mixed_->begin(t);
    std::vector<std::int32_t> number_classes(class_tuples_.classes.size(), -1), owner(labels_.size(), -1);
    for (std::size_t c = 0; c < class_tuples_.classes.size(); ++c) {
        for (const auto& [tuple, copies] : class_tuples_.classes[c].tuples) {
            for (std::int32_t i = 0; i < copies; ++i) {
                std::int32_t& at = next[tuple];
                while (withheld_[mixed_->copy(at)]) ++at;
                const std::int32_t record = mixed_->copy(at++);
                owner[record] = static_cast<std::int32_t>(c);
            }
        }
    }
    std::int32_t label = 0;
    for (std::int32_t i = 0; i < mixed_->records(); ++i) {
        const std::int32_t c = owner[i];
        if (c < 0) continue;
        if (number_classes[c] < 0) number_classes[c] = label++;
        assign(i, number_classes[c]);
    }
}

// A class with a loss, and a few classes that contain neighbours of its records.
bool RefineLoss::choose() {
    std::vector<std::int32_t>& pool = pool_.classes;
    pool.clear();
    if (class_tuples_.classes.empty()) return false;
    const auto c = static_cast<std::int32_t>(random_.below(class_tuples_.classes.size()));
    const ClassTuples::Class& seed = class_tuples_.classes[c];
    if (seed.loss == 0 || seed.tuples.size() > pool_.most / 2) return false;
    pool.push_back(c);
    std::size_t entries = seed.tuples.size();
    const std::size_t pool_size = 2 + random_.below(kMostClasses - 1);
    for (std::size_t tries = 4 * pool_size; tries > 0 && pool.size() < pool_size; --tries) {
        const ClassTuples::Class& from = class_tuples_.classes[pool[random_.below(pool.size())]];
        std::int32_t tuple = from.tuples[random_.below(from.tuples.size())].first;
        const std::uint32_t step = random_.below(neighbours_.width() + 1);
        if (step > 0) tuple = neighbours_.row(tuple)[step - 1];
        const auto& classes_with_tuple = class_tuples_.classes_of_tuple[tuple];
        if (classes_with_tuple.empty()) continue;
        const std::int32_t next = classes_with_tuple[random_.below(classes_with_tuple.size())];
        if (std::find(pool.begin(), pool.end(), next) != pool.end()) continue;
        const std::size_t more = class_tuples_.classes[next].tuples.size();
        if (entries + more > pool_.most) continue;
        entries += more;
        pool.push_back(next);
    }
    return true;
}

}  // namespace dbanon
