#include "mixed/refine_loss.hpp"

#include "mixed/near_tuples.hpp"

namespace dbanon {

namespace {

constexpr std::int32_t kNeighbours = 12;
// Entries in a pool: those of some classes of k, but a round must stay short.
constexpr std::int32_t kClasses = 4, kFewest = 72, kMost = 400;
constexpr std::size_t kMostClasses = 8;  // in a pool
constexpr std::size_t kGuided = 256;     // values whose counts are added up for each price

}  // namespace

RefineLoss::RefineLoss(Mixed mixed, const std::int32_t* labels,
                       std::int32_t k, std::int64_t rounds, std::uint64_t seed, Models models,
                       const std::vector<LabelCosts>& label_costs)
    : Kernel({nullptr, mixed->records(), mixed->d()}, k),
      mixed_(std::move(mixed)),
      rounds_(rounds),
      chance_(seed),
      withheld_(mixed_->records(), false),
      slot_(mixed_->tuples(), -1),
      models_(std::move(models)),
      guided_(!models_.empty() && models_.cells() <= kGuided),
      pool_(*mixed_, label_costs,
            std::clamp(kClasses * std::min(k, kMost), kFewest, kMost),
            models_.cells()),
      together_(models_.cells()) {
    collect(labels);
}

// The classes as numbers of copies of tuples; classes of one tuple are joined, which loses nothing.
void RefineLoss::collect(const std::int32_t* labels) {
    const std::int32_t n = mixed_->records();
    std::int32_t count = 0;
    for (std::int32_t i = 0; i < n; ++i) count = std::max(count, labels[i] + 1);
    classes_.resize(count);
    for (std::int32_t t = 0; t < mixed_->tuples(); ++t) {
        for (std::int32_t at = mixed_->begin(t); at < mixed_->end(t); ++at) {
            const std::int32_t label = labels[mixed_->copy(at)];
            if (label < 0) {
                withheld_[mixed_->copy(at)] = true;
                continue;
            }
            auto& tuples = classes_[label].tuples;
            if (tuples.empty() || tuples.back().first != t) tuples.emplace_back(t, 0);
            ++tuples.back().second;
        }
    }
    std::vector<std::int32_t> pure(slot_.size(), -1);
    for (std::int32_t c = 0; c < count; ++c) {
        auto& tuples = classes_[c].tuples;
        if (tuples.size() != 1) continue;
        std::int32_t& first = pure[tuples[0].first];
        if (first < 0) {
            first = c;
        } else {
            classes_[first].tuples[0].second += tuples[0].second;
            tuples.clear();
            free_.push_back(c);
        }
    }
    classes_of_.resize(slot_.size());
    for (std::int32_t c = 0; c < count; ++c) {
        Class& at = classes_[c];
        for (std::size_t i = 0; i < at.tuples.size(); ++i) {
            const auto [tuple, copies] = at.tuples[i];
            classes_of_[tuple].push_back(c);
            if (i == 0) {
                pool_.shapes.set(pool_.rest, tuple, copies);
            } else {
                pool_.shapes.add(pool_.rest, tuple, copies);
            }
        }
        at.loss = at.tuples.empty() ? 0 : pool_.shapes.loss(pool_.rest);
    }
}

Steps RefineLoss::run() {
    const std::int32_t tuples = mixed_->tuples();
    const std::int32_t near = std::clamp(tuples - 1, 0, kNeighbours);
    neighbours_.assign(tuples, near);
    if (near > 0) {
        NearTuples tree(*mixed_);
        for (const std::int32_t t : tree.order()) {
            tree.nearest(t, near, neighbours_.row(t), work_);
            if (work_.left <= 0) co_yield nullptr;
        }
    }
    for (round_ = 0; round_ < rounds_; ++round_) {
        --work_.left;
        if (choose()) {
            Cost before = 0;
            for (const std::int32_t c : pool_.classes) before += classes_[c].loss;
            gather();
            agglomerate();
            move();
            join_same();
            if (total() <= before) keep();
            work_.left -= static_cast<std::int64_t>(pool_.entries.size() * pool_.entries.size());
        }
        if (work_.left <= 0) co_yield nullptr;
    }
    // Classes in the order of their first records.
    std::vector<std::int32_t> next(slot_.size());
    for (std::int32_t t = 0; t < tuples; ++t) next[t] = mixed_->begin(t);
    std::vector<std::int32_t> number(classes_.size(), -1), owner(labels_.size(), -1);
    for (std::size_t c = 0; c < classes_.size(); ++c) {
        for (const auto& [tuple, copies] : classes_[c].tuples) {
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
        if (number[c] < 0) number[c] = label++;
        assign(i, number[c]);
    }
}

// A class that loses something and a few classes that hold neighbours of its records.
bool RefineLoss::choose() {
    std::vector<std::int32_t>& pool = pool_.classes;
    pool.clear();
    if (classes_.empty()) return false;
    const auto c = static_cast<std::int32_t>(chance_.below(classes_.size()));
    const Class& seed = classes_[c];
    if (seed.loss == 0 || seed.tuples.size() > pool_.most / 2) return false;
    pool.push_back(c);
    std::size_t entries = seed.tuples.size();
    const std::size_t wanted = 2 + chance_.below(kMostClasses - 1);
    for (std::size_t tries = 4 * wanted; tries > 0 && pool.size() < wanted; --tries) {
        const Class& from = classes_[pool[chance_.below(pool.size())]];
        std::int32_t tuple = from.tuples[chance_.below(from.tuples.size())].first;
        const std::uint32_t step = chance_.below(neighbours_.width() + 1);
        if (step > 0) tuple = neighbours_.row(tuple)[step - 1];
        const auto& holding = classes_of_[tuple];
        if (holding.empty()) continue;
        const std::int32_t next = holding[chance_.below(holding.size())];
        if (std::find(pool.begin(), pool.end(), next) != pool.end()) continue;
        const std::size_t more = classes_[next].tuples.size();
        if (entries + more > pool_.most) continue;
        entries += more;
        pool.push_back(next);
    }
    return true;
}

}  // namespace dbanon
