// One round of the search: the classes of a pool taken apart, arranged anew, and kept if better.
#include <limits>

#include "mixed/refine_loss.hpp"

namespace dbanon {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Of uniting two clusters, in records that they lack less: what does not help costs much, not all.
constexpr double kLeastHelp = 1.0 / 16;

}  // namespace

void RefineLoss::gather() {
    entries_.clear();
    for (const std::int32_t c : pool_) {
        for (const auto& [tuple, copies] : classes_[c].tuples) {
            std::int32_t& slot = slot_[tuple];
            if (slot < 0) {
                slot = static_cast<std::int32_t>(entries_.size());
                entries_.push_back({tuple, 0, slot});
            }
            entries_[slot].count += copies;
        }
    }
    for (const Entry& entry : entries_) slot_[entry.tuple] = -1;
    alive_.clear();
    for (std::size_t e = 0; e < entries_.size(); ++e) {
        shapes_.set(e, entries_[e].tuple, entries_[e].count);
        std::fill_n(counts(e), models_.cells(), 0);
        count(e, entries_[e].tuple, entries_[e].count);
        lack_[e] = lack(e);
        alive_.push_back(static_cast<std::int32_t>(e));
    }
    loss_.assign(entries_.size(), 0);
    best_.assign(entries_.size(), -1);
    price_.assign(entries_.size(), kNever);
}

void RefineLoss::count(std::size_t shape, std::int32_t tuple, Count copies) {
    if (!models_.empty()) models_.count(counts(shape), mixed_->beside(tuple), copies);
}

// Whether a cluster would keep to the models with copies of a tuple more, or less.
bool RefineLoss::keeps_with(std::size_t shape, std::int32_t tuple, Count copies) {
    if (models_.empty()) return true;
    count(shape, tuple, copies);
    work_.left -= models_.effort();
    const bool kept = models_.keeps(counts(shape));
    count(shape, tuple, -copies);
    return kept;
}

// Records that a cluster lacks to be a class, and what models say of those it has.
double RefineLoss::lack(std::size_t shape) {
    const auto records = static_cast<double>(std::max<Cost>(k_ - shapes_.size(shape), 0));
    if (models_.empty()) return records;
    work_.left -= models_.effort();
    return records + models_.lack(counts(shape));
}

// Copies of one tuple lend what they have above k. Not loss 0: where an attribute's weight is 0,
// different tuples lose nothing together.
bool RefineLoss::lends(std::int32_t j) const {
    const Entry& own = entries_[j];
    return models_.empty() && own.owner == j && own.count > k_ &&
           own.count == shapes_.size(static_cast<std::size_t>(j));
}

// How much less two clusters lack when they are one.
double RefineLoss::help(std::size_t a, std::size_t b) {
    std::transform(counts(a), counts(a) + models_.cells(), counts(b), together_.begin(),
                   std::plus<>());
    work_.left -= models_.effort();
    const Cost records = std::max<Cost>(k_ - shapes_.size(a) - shapes_.size(b), 0);
    return std::max(lack_[a] + lack_[b] - static_cast<double>(records) -
                        models_.lack(together_.data()),
                    kLeastHelp);
}

// What uniting a small cluster i with j costs, made noisy so that each round tries another way;
// under models for what it helps them both, and kNever where it is more than `most`.
double RefineLoss::price(std::int32_t i, std::int32_t j, double most) {
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
    const Cost need = k_ - shapes_.size(a);
    Cost increase;
    if (lends(j)) {
        const Cost lent = std::min(need, shapes_.size(b) - k_);
        increase = shapes_.loss_with(a, b, lent) - loss_[a];
    } else {
        increase = shapes_.loss(a, b) - loss_[a] - loss_[b];
    }
    const double noisy = static_cast<double>(increase) * (1.0 + noise_ * chance_.share());
    if (!guided_) return noisy;
    if (noisy >= most * std::max(lack_[a] + lack_[b], kLeastHelp)) return kNever;
    return noisy / help(a, b);
}

void RefineLoss::cheapest(std::int32_t i) {
    const auto a = static_cast<std::size_t>(i);
    best_[a] = -1;
    price_[a] = kNever;
    for (const std::int32_t j : alive_) {
        if (j == i) continue;
        const double value = price(i, j, price_[a]);
        if (value < price_[a]) {
            price_[a] = value;
            best_[a] = j;
        }
    }
}

// Small clusters merge, the cheapest first, until every cluster holds k records.
void RefineLoss::agglomerate() {
    static constexpr double kNoise[] = {0.0, 0.8, 1.6, 3.2, 6.4};
    noise_ = kNoise[chance_.below(5)];
    for (const std::int32_t i : alive_) {
        if (lack_[i] > 0) cheapest(i);
    }
    while (alive_.size() > 1) {
        std::int32_t chosen = -1;
        double least = kNever;
        for (const std::int32_t i : alive_) {
            if (price_[i] < least) {
                least = price_[i];
                chosen = i;
            }
        }
        if (chosen < 0) break;
        unite(chosen, best_[chosen]);
    }
}

void RefineLoss::unite(std::int32_t i, std::int32_t j) {
    const auto a = static_cast<std::size_t>(i), b = static_cast<std::size_t>(j);
    if (lends(j)) {
        const Cost lent = std::min<Cost>(k_ - shapes_.size(a), shapes_.size(b) - k_);
        const std::int32_t tuple = entries_[b].tuple;
        shapes_.add(a, tuple, lent);
        shapes_.take_copies(b, tuple, lent);
        entries_[b].count -= static_cast<std::int32_t>(lent);
        entries_.push_back({tuple, static_cast<std::int32_t>(lent), i});
    } else {
        shapes_.merge(a, b);
        std::transform(counts(a), counts(a) + models_.cells(), counts(b), counts(a), std::plus<>());
        for (Entry& entry : entries_) {
            if (entry.owner == j) entry.owner = i;
        }
        alive_.erase(std::find(alive_.begin(), alive_.end(), j));
        price_[b] = kNever;
    }
    loss_[a] = shapes_.loss(a);
    price_[a] = kNever;
    lack_[a] = lack(a);
    if (lack_[a] > 0) cheapest(i);
    for (const std::int32_t other : alive_) {
        const auto c = static_cast<std::size_t>(other);
        if (other == i || lack_[c] == 0) continue;
        if (best_[c] == i || best_[c] == j) {
            cheapest(other);
        } else if (const double value = price(other, i, price_[c]); value < price_[c]) {
            price_[c] = value;
            best_[c] = i;
        }
    }
}

// Shape `scratch`: the cluster of entry e without it.
void RefineLoss::without(std::size_t e, std::size_t scratch) {
    bool empty = true;
    for (std::size_t other = 0; other < entries_.size(); ++other) {
        const Entry& entry = entries_[other];
        if (other == e || entry.owner != entries_[e].owner || entry.count == 0) continue;
        if (empty) {
            shapes_.set(scratch, entry.tuple, entry.count);
        } else {
            shapes_.add(scratch, entry.tuple, entry.count);
        }
        empty = false;
    }
}

// Records of clusters with more than k move where the loss falls most.
void RefineLoss::move() {
    const std::size_t scratch = shapes_.count() - 1, point = scratch - 1;
    bool moved = true;
    for (int pass = 0; moved && pass < 4; ++pass) {
        moved = false;
        for (std::size_t e = 0; e < entries_.size(); ++e) {
            const Entry entry = entries_[e];
            const auto a = static_cast<std::size_t>(entry.owner);
            const Cost spare = shapes_.size(a) - k_;
            if (spare <= 0 || loss_[a] == 0 || entry.count == 0) continue;
            const Cost copies = std::min<Cost>(spare, entry.count);
            const bool all = copies == entry.count;
            Cost rest;
            if (all) {
                without(e, scratch);
                rest = shapes_.loss(scratch);
            } else {
                rest = shapes_.loss_without(a, entry.tuple, copies);
            }
            const Cost gain = loss_[a] - rest;
            const auto moving = static_cast<Count>(copies);
            if (gain <= 0 || !keeps_with(a, entry.tuple, -moving)) continue;
            shapes_.set(point, entry.tuple, copies);
            Cost least = gain;
            std::int32_t target = -1;
            for (const std::int32_t other : alive_) {
                if (other == entry.owner) continue;
                const auto b = static_cast<std::size_t>(other);
                const Cost increase = shapes_.loss(b, point) - loss_[b];
                if (increase < least && keeps_with(b, entry.tuple, moving)) {
                    least = increase;
                    target = other;
                }
            }
            if (target < 0) continue;
            const auto b = static_cast<std::size_t>(target);
            if (all) {
                shapes_.copy(a, scratch);
                entries_[e].owner = target;
            } else {
                shapes_.take_copies(a, entry.tuple, copies);
                entries_[e].count -= static_cast<std::int32_t>(copies);
                entries_.push_back({entry.tuple, static_cast<std::int32_t>(copies), target});
            }
            shapes_.merge(b, point);
            count(a, entry.tuple, -moving);
            count(b, entry.tuple, moving);
            loss_[a] = rest;
            loss_[b] += least;
            moved = true;
        }
    }
}

// Classes with the same released values are one class, with more records to spare.
void RefineLoss::join_same() {
    for (std::size_t x = 0; x < alive_.size(); ++x) {
        for (std::size_t y = alive_.size() - 1; y > x; --y) {
            const auto a = static_cast<std::size_t>(alive_[x]), b = static_cast<std::size_t>(alive_[y]);
            if (!shapes_.same(a, b)) continue;
            shapes_.merge(a, b);
            std::transform(counts(a), counts(a) + models_.cells(), counts(b), counts(a),
                           std::plus<>());
            loss_[a] += loss_[b];
            for (Entry& entry : entries_) {
                if (entry.owner == alive_[y]) entry.owner = alive_[x];
            }
            alive_.erase(alive_.begin() + static_cast<std::ptrdiff_t>(y));
        }
    }
}

Cost RefineLoss::total() {
    Cost sum = 0;
    for (const std::int32_t i : alive_) {
        if (!keeps(static_cast<std::size_t>(i))) return std::numeric_limits<Cost>::max();
        sum += loss_[i];
    }
    return sum;
}

void RefineLoss::keep() {
    for (const std::int32_t c : pool_) {
        for (const auto& held : classes_[c].tuples) {
            auto& holding = classes_of_[held.first];
            *std::find(holding.begin(), holding.end(), c) = holding.back();
            holding.pop_back();
        }
        classes_[c].tuples.clear();
        classes_[c].loss = 0;
        free_.push_back(c);
    }
    for (const std::int32_t i : alive_) {
        if (free_.empty()) {
            free_.push_back(static_cast<std::int32_t>(classes_.size()));
            classes_.emplace_back();
        }
        const std::int32_t c = free_.back();
        free_.pop_back();
        Class& made = classes_[c];
        made.loss = loss_[i];
        for (const Entry& entry : entries_) {
            if (entry.owner != i || entry.count == 0) continue;
            const auto same = std::find_if(made.tuples.begin(), made.tuples.end(),
                                           [&](const auto& t) { return t.first == entry.tuple; });
            if (same != made.tuples.end()) {
                same->second += entry.count;
                continue;
            }
            made.tuples.emplace_back(entry.tuple, entry.count);
            classes_of_[entry.tuple].push_back(c);
        }
    }
}

}  // namespace dbanon
