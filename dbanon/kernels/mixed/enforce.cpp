#include "mixed/enforce.hpp"

#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace dbanon {

namespace {

// Smaller improvements are rounding errors.
constexpr double kLeastHelp = 1e-9;

}  // namespace

Enforce::Enforce(Mixed mixed, const std::int32_t* labels,
                 const std::int32_t* values, Models models, std::int64_t budget)
    : Kernel({nullptr, mixed->records(), mixed->d()}, 1),
      mixed_(std::move(mixed)),
      models_(std::move(models)),
      label_(labels, labels + mixed_->records()),
      values_(values, values + label_.size() * models_.attributes()),
      shapes_(*mixed_),
      together_(models_.cells()),
      budget_(budget) {
    for (int a = 0; a < mixed_->d(); ++a) all_ += mixed_->unit(a);
}

// All classes in their initial state.
void Enforce::begin() {
    const std::size_t classes = *std::max_element(label_.begin(), label_.end()) + 1;
    shapes_.resize(classes);
    counts_.assign(classes, models_.cells());
    withheld_.assign(classes, false);
    losses_.resize(classes);
    lacks_.resize(classes);
    alive_.resize(classes);
    std::iota(alive_.begin(), alive_.end(), std::size_t{0});
    into_ = alive_;
    spare_ = budget_;
    std::vector<bool> is_started(classes, false);
    for (std::int32_t i = 0; i < mixed_->records(); ++i) {
        const std::size_t at = i;
        if (label_[at] < 0) continue;
        const std::size_t c = label_[at];
        if (is_started[c]) {
            shapes_.add(c, mixed_->tuple_of(i), 1);
        } else {
            shapes_.set(c, mixed_->tuple_of(i), 1);
        }
        is_started[c] = true;
        models_.count(counts(c), values_.data() + at * models_.attributes(), 1);
    }
    for (std::size_t c = 0; c < classes; ++c) losses_[c] = shapes_.loss(c);
}

double Enforce::lack(const Count* counts) {
    work_.left -= models_.effort();
    return models_.lack(counts);
}

// Whether the other class is the best so far among those that help.
bool Enforce::look_at(std::size_t chosen, std::size_t other, Cost increase) {
    const double most = lacks_[chosen] + lacks_[other];
    const auto costs = [&](double help) {
        return static_cast<double>(increase) * help_ < static_cast<double>(least_better_) * help;
    };
    if (better_ != chosen && (by_help_ ? !costs(most) : increase >= least_better_)) return false;
    const Count* class_counts = counts(chosen);
    std::transform(class_counts, class_counts + models_.cells(), counts(other), together_.begin(), std::plus<>());
    const double lacks = lack(together_.data());
    if (!by_help_) return lacks == 0;
    const double help = most - lacks;
    if (help <= kLeastHelp || (better_ != chosen && !costs(help))) return false;
    help_ = help;
    return true;
}

// Finds the class to merge with; false if the slice is used up first.
bool Enforce::look(std::size_t chosen) {
    if (next_ == 0) best_ = better_ = chosen;
    for (; next_ < alive_.size(); ++next_) {
        if (work_.is_spent()) return false;
        --work_.left;
        const std::size_t other = alive_[next_];
        if (other == chosen) continue;
        const Cost increase = shapes_.loss(chosen, other) - losses_[other] - losses_[chosen];
        if (best_ == chosen || increase < least_) {
            least_ = increase;
            best_ = other;
        }
        if (look_at(chosen, other, increase)) {
            least_better_ = increase;
            better_ = other;
        }
    }
    next_ = 0;
    increase_ = better_ == chosen ? least_ : least_better_;
    if (better_ != chosen) best_ = better_;
    return true;
}

bool Enforce::withhold(std::size_t c) {
    const Cost size = shapes_.size(c);
    if (size > spare_ || alive_.size() == 1 || increase_ <= size * all_) return false;
    spare_ -= size;
    withheld_[c] = true;
    alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), c));
    --left_;
    return true;
}

// Merges into the class that was selected.
void Enforce::merge(std::size_t c) {
    const bool failed = lacks_[best_] > 0;
    shapes_.merge(best_, c);
    losses_[best_] = shapes_.loss(best_);
    std::transform(counts(best_), counts(best_) + models_.cells(), counts(c), counts(best_),
                   std::plus<>());
    lacks_[best_] = lack(counts(best_));
    into_[c] = best_;
    alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), c));
    left_ -= failed ? 2 : 1;
    left_ += lacks_[best_] > 0 ? 1 : 0;
}

Coroutine Enforce::run() {
    if (*std::max_element(label_.begin(), label_.end()) < 0) co_return;
    // By size, then by number; an entry is stale if its class has grown since.
    using Entry = std::pair<Cost, std::size_t>;
    const auto later = [this](const Entry& a, const Entry& b) {
        if (a.first == b.first) return a.second > b.second;
        return by_help_ ? a.first > b.first : a.first < b.first;
    };
    for (const bool by_help : {false, true}) {
        by_help_ = by_help;
        begin();
        std::priority_queue<Entry, std::vector<Entry>, decltype(later)> failing(later);
        for (const std::size_t c : alive_) {
            lacks_[c] = lack(counts(c));
            if (lacks_[c] > 0) failing.emplace(shapes_.size(c), c);
            if (work_.is_spent()) co_yield nullptr;
        }
        failing_ = left_ = failing.size();
        while (!failing.empty()) {
            const auto [size, c] = failing.top();
            failing.pop();
            if (into_[c] != c || shapes_.size(c) != size) continue;
            while (!look(c)) co_yield nullptr;
            if (withhold(c)) continue;
            if (alive_.size() == 1) break;
            merge(c);
            if (lacks_[best_] > 0) failing.emplace(shapes_.size(best_), best_);
            if (work_.is_spent()) co_yield nullptr;
        }
        end();
    }
}

void Enforce::end() {
    Cost loss = 0;
    for (const std::size_t c : alive_) loss += losses_[c];
    loss += (budget_ - spare_) * all_;
    const bool fails = lacks_[alive_.front()] > 0;
    std::vector<std::int32_t> number(into_.size(), -1), labels(label_.size(), -1);
    for (std::size_t i = 0; i < alive_.size(); ++i) {
        number[alive_[i]] = static_cast<std::int32_t>(i);
    }
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (label_[i] < 0) continue;
        std::size_t c = label_[i];
        while (into_[c] != c) c = into_[c] = into_[into_[c]];
        if (!withheld_[c]) labels[i] = number[c];
    }
    // The last remaining class fails.
    if (!by_help_) {
        best_labels_ = std::move(labels);
        loss_ = loss;
        first_fails_ = fails;
        return;
    }
    if (!fails && (first_fails_ || loss < loss_)) best_labels_ = std::move(labels);
    for (std::size_t i = 0; i < best_labels_.size(); ++i) {
        if (best_labels_[i] >= 0) assign(static_cast<std::int32_t>(i), best_labels_[i]);
    }
}

}  // namespace dbanon
