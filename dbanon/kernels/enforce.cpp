#include "enforce.hpp"

#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace dbanon {

Enforce::Enforce(std::unique_ptr<MixedTable> mixed, const std::int32_t* labels,
                 const std::int32_t* values, Models models, std::int64_t budget)
    : Kernel({nullptr, mixed->records(), mixed->d()}, 1),
      mixed_(std::move(mixed)),
      models_(std::move(models)),
      label_(labels, labels + mixed_->records()),
      shapes_(*mixed_),
      together_(models_.cells()),
      budget_(budget) {
    const std::int32_t n = mixed_->records();
    const auto classes = static_cast<std::size_t>(*std::max_element(labels, labels + n) + 1);
    shapes_.resize(classes);
    counts_.assign(classes * models_.cells(), 0);
    std::vector<bool> begun(classes, false);
    for (std::int32_t i = 0; i < n; ++i) {
        if (labels[i] < 0) continue;
        const auto c = static_cast<std::size_t>(labels[i]);
        if (begun[c]) {
            shapes_.add(c, mixed_->tuple_of(i), 1);
        } else {
            shapes_.set(c, mixed_->tuple_of(i), 1);
        }
        begun[c] = true;
        models_.count(counts(c),
                      values + static_cast<std::size_t>(i) * models_.attributes(), 1);
    }
    for (int a = 0; a < mixed_->d(); ++a) all_ += mixed_->unit(a);
    withheld_.resize(classes);
    losses_.resize(classes);
    alive_.resize(classes);
    std::iota(alive_.begin(), alive_.end(), std::size_t{0});
    for (std::size_t c = 0; c < classes; ++c) losses_[c] = shapes_.loss(c);
}

std::size_t Enforce::target(std::size_t chosen) {
    const Count* own = counts(chosen);
    std::size_t best = chosen, kept = chosen;
    Cost least = 0, least_kept = 0;
    for (const std::size_t other : alive_) {
        if (other == chosen) continue;
        const Cost increase = shapes_.loss(chosen, other) - losses_[other];
        if (best == chosen || increase < least) {
            least = increase;
            best = other;
        }
        if (kept != chosen && increase >= least_kept) continue;
        std::transform(own, own + models_.cells(), counts(other), together_.begin(),
                       std::plus<>());
        if (models_.keeps(together_.data())) {
            least_kept = increase;
            kept = other;
        }
    }
    increase_ = (kept == chosen ? least : least_kept) - losses_[chosen];
    return kept == chosen ? best : kept;
}

bool Enforce::withhold(std::size_t c) {
    const Cost size = shapes_.size(c);
    if (size > budget_ || alive_.size() == 1 || increase_ <= size * all_) return false;
    budget_ -= size;
    withheld_[c] = true;
    alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), c));
    --left_;
    return true;
}

Steps Enforce::run() {
    // By size, the smaller number first; an entry whose class has grown since is out of date.
    using Entry = std::pair<Cost, std::size_t>;
    const auto later = [](const Entry& a, const Entry& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
    };
    std::priority_queue<Entry, std::vector<Entry>, decltype(later)> failing(later);
    for (const std::size_t c : alive_) {
        if (!models_.keeps(counts(c))) failing.emplace(shapes_.size(c), c);
    }
    failing_ = left_ = failing.size();
    std::vector<std::size_t> into(alive_.size());
    std::iota(into.begin(), into.end(), std::size_t{0});
    while (!failing.empty()) {
        const auto [size, c] = failing.top();
        failing.pop();
        if (into[c] != c || shapes_.size(c) != size) continue;
        const std::size_t best = target(c);
        work_.left -= static_cast<std::int64_t>(alive_.size());
        if (withhold(c)) continue;
        if (alive_.size() == 1) break;
        const bool failed = !models_.keeps(counts(best));
        shapes_.merge(best, c);
        losses_[best] = shapes_.loss(best);
        std::transform(counts(best), counts(best) + models_.cells(), counts(c), counts(best),
                       std::plus<>());
        into[c] = best;
        alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), c));
        const bool fails_now = !models_.keeps(counts(best));
        if (fails_now) failing.emplace(shapes_.size(best), best);
        left_ -= failed ? 2 : 1;
        left_ += fails_now ? 1 : 0;
        if (work_.left <= 0) co_yield nullptr;
    }
    std::vector<std::int32_t> number(into.size(), -1);
    for (std::size_t i = 0; i < alive_.size(); ++i) number[alive_[i]] = static_cast<std::int32_t>(i);
    for (std::int32_t i = 0; i < mixed_->records(); ++i) {
        if (label_[static_cast<std::size_t>(i)] < 0) continue;
        auto c = static_cast<std::size_t>(label_[static_cast<std::size_t>(i)]);
        while (into[c] != c) c = into[c] = into[into[c]];
        if (!withheld_[c]) assign(i, number[c]);
    }
}

}  // namespace dbanon
