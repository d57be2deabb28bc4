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
    : Kernel({nullptr, mixed->records(), mixed->n_attributes()}, 1),
      mixed_(std::move(mixed)),
      models_(std::move(models)),
      initial_labels_(labels, labels + mixed_->records()),
      values_(values, values + initial_labels_.size() * models_.attributes()),
      shapes_(*mixed_),
      merged_counts_(models_.n_counts()),
      budget_(budget) {
    for (int a = 0; a < mixed_->n_attributes(); ++a) withheld_loss_ += mixed_->unit(a);
}

// All classes in their initial state.
void Enforce::start_strategy() {
    const std::size_t classes = *std::max_element(initial_labels_.begin(), initial_labels_.end()) + 1;
    shapes_.resize(classes);
    counts_.assign(classes, models_.n_counts());
    withheld_.assign(classes, false);
    losses_.resize(classes);
    lack_by_class_.resize(classes);
    alive_.resize(classes);
    std::iota(alive_.begin(), alive_.end(), std::size_t{0});
    merged_into_ = alive_;
    remaining_budget_ = budget_;
    std::vector<bool> is_started(classes, false);
    for (std::int32_t i = 0; i < mixed_->records(); ++i) {
        const std::size_t at = i;
        if (initial_labels_[at] < 0) continue;
        const std::size_t c = initial_labels_[at];
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
    work_.left -= models_.work_per_check();
    return models_.lack(counts);
}

// Whether the other class is the best so far among those that help.
bool Enforce::rate_partner(std::size_t chosen, std::size_t other, Cost increase) {
    const double most = lack_by_class_[chosen] + lack_by_class_[other];
    const auto costs = [&](double help) {
        return static_cast<double>(increase) * best_help_ < static_cast<double>(least_satisfying_increase_) * help;
    };
    if (cheapest_satisfying_ != chosen && (is_second_strategy_ ? !costs(most) : increase >= least_satisfying_increase_)) return false;
    const Count* class_counts = counts(chosen);
    std::transform(class_counts, class_counts + models_.n_counts(), counts(other), merged_counts_.begin(), std::plus<>());
    const double lacks = lack(merged_counts_.data());
    if (!is_second_strategy_) return lacks == 0;
    const double help = most - lacks;
    if (help <= kLeastHelp || (cheapest_satisfying_ != chosen && !costs(help))) return false;
    best_help_ = help;
    return true;
}

// Finds the class to merge with; false if the slice is used up first.
bool Enforce::find_partner(std::size_t chosen) {
    if (next_partner_ == 0) cheapest_partner_ = cheapest_satisfying_ = chosen;
    for (; next_partner_ < alive_.size(); ++next_partner_) {
        if (work_.is_spent()) return false;
        --work_.left;
        const std::size_t other = alive_[next_partner_];
        if (other == chosen) continue;
        const Cost increase = shapes_.loss(chosen, other) - losses_[other] - losses_[chosen];
        if (cheapest_partner_ == chosen || increase < least_increase_) {
            least_increase_ = increase;
            cheapest_partner_ = other;
        }
        if (rate_partner(chosen, other, increase)) {
            least_satisfying_increase_ = increase;
            cheapest_satisfying_ = other;
        }
    }
    next_partner_ = 0;
    chosen_increase_ = cheapest_satisfying_ == chosen ? least_increase_ : least_satisfying_increase_;
    if (cheapest_satisfying_ != chosen) cheapest_partner_ = cheapest_satisfying_;
    return true;
}

bool Enforce::withhold(std::size_t c) {
    const Cost size = shapes_.size(c);
    if (size > remaining_budget_ || alive_.size() == 1 || chosen_increase_ <= size * withheld_loss_) return false;
    remaining_budget_ -= size;
    withheld_[c] = true;
    alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), c));
    --n_left_;
    return true;
}

// Merges into the class that was selected.
void Enforce::merge(std::size_t c) {
    const bool failed = lack_by_class_[cheapest_partner_] > 0;
    shapes_.merge(cheapest_partner_, c);
    losses_[cheapest_partner_] = shapes_.loss(cheapest_partner_);
    std::transform(counts(cheapest_partner_), counts(cheapest_partner_) + models_.n_counts(), counts(c), counts(cheapest_partner_),
                   std::plus<>());
    lack_by_class_[cheapest_partner_] = lack(counts(cheapest_partner_));
    merged_into_[c] = cheapest_partner_;
    alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), c));
    n_left_ -= failed ? 2 : 1;
    n_left_ += lack_by_class_[cheapest_partner_] > 0 ? 1 : 0;
}

Coroutine Enforce::run() {
    if (*std::max_element(initial_labels_.begin(), initial_labels_.end()) < 0) co_return;
    // By size, then by number; an entry is stale if its class has grown since.
    using Entry = std::pair<Cost, std::size_t>;
    const auto later = [this](const Entry& a, const Entry& b) {
        if (a.first == b.first) return a.second > b.second;
        return is_second_strategy_ ? a.first > b.first : a.first < b.first;
    };
    for (const bool by_help : {false, true}) {
        is_second_strategy_ = by_help;
        start_strategy();
        std::priority_queue<Entry, std::vector<Entry>, decltype(later)> failing(later);
        for (const std::size_t c : alive_) {
            lack_by_class_[c] = lack(counts(c));
            if (lack_by_class_[c] > 0) failing.emplace(shapes_.size(c), c);
            if (work_.is_spent()) co_yield nullptr;
        }
        n_failing_ = n_left_ = failing.size();
        while (!failing.empty()) {
            const auto [size, c] = failing.top();
            failing.pop();
            if (merged_into_[c] != c || shapes_.size(c) != size) continue;
            while (!find_partner(c)) co_yield nullptr;
            if (withhold(c)) continue;
            if (alive_.size() == 1) break;
            merge(c);
            if (lack_by_class_[cheapest_partner_] > 0) failing.emplace(shapes_.size(cheapest_partner_), cheapest_partner_);
            if (work_.is_spent()) co_yield nullptr;
        }
        finish_strategy();
    }
}

void Enforce::finish_strategy() {
    Cost loss = 0;
    for (const std::size_t c : alive_) loss += losses_[c];
    loss += (budget_ - remaining_budget_) * withheld_loss_;
    const bool fails = lack_by_class_[alive_.front()] > 0;
    std::vector<std::int32_t> number(merged_into_.size(), -1), labels(initial_labels_.size(), -1);
    for (std::size_t i = 0; i < alive_.size(); ++i) {
        number[alive_[i]] = static_cast<std::int32_t>(i);
    }
    for (std::size_t i = 0; i < labels.size(); ++i) {
        if (initial_labels_[i] < 0) continue;
        std::size_t c = initial_labels_[i];
        while (merged_into_[c] != c) c = merged_into_[c] = merged_into_[merged_into_[c]];
        if (!withheld_[c]) labels[i] = number[c];
    }
    // The last remaining class fails.
    if (!is_second_strategy_) {
        first_strategy_labels_ = std::move(labels);
        first_strategy_loss_ = loss;
        first_strategy_fails_ = fails;
        return;
    }
    if (!fails && (first_strategy_fails_ || loss < first_strategy_loss_)) first_strategy_labels_ = std::move(labels);
    for (std::size_t i = 0; i < first_strategy_labels_.size(); ++i) {
        if (first_strategy_labels_[i] >= 0) assign(static_cast<std::int32_t>(i), first_strategy_labels_[i]);
    }
}

}  // namespace dbanon
