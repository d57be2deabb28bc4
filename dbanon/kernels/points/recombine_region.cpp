#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "points/recombine.hpp"

namespace dbanon {

namespace {

constexpr int kRegionSteps = 100;  // of the prices
// A region grows by one of this many best classes of a record, at random.
constexpr std::int32_t kGrowing = 8;
constexpr std::size_t kLocal = 6000;     // limit of classes in a region
constexpr std::int64_t kEffort = 1 << 21;  // limit of classes visited by branch and bound
// Factors of the region width after a region that was too large, or was not, and its limits.
constexpr double kNarrower = 0.85, kWider = 1.02, kLeast = 48.0;
// The least gain, as a share of a region's loss; smaller ones may be rounding errors.
constexpr double kRegionGain = 1e-10;

}  // namespace

bool Mask::within(const Mask& other) const {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) out |= words_[i] & ~other.words_[i];
    return out == 0;
}

void Mask::remove(const Mask& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
}

std::int32_t Mask::pop() {
    std::size_t i = 0;
    while (words_[i] == 0) ++i;
    const int bit = std::countr_zero(words_[i]);
    words_[i] &= words_[i] - 1;
    return static_cast<std::int32_t>(64 * i) + bit;
}

void Recombine::enter(std::int32_t at) {
    region_loss_ += loss(at);
    region_reduced_ += reduced_[at];
    for (std::int32_t i = 0; i < size(at); ++i) {
        const std::int32_t id = members(at)[i];
        position_[id] = static_cast<std::int32_t>(records_.size());
        records_.push_back(id);
    }
}

// A class that costs more than its prices, and classes that share records with the best of others.
void Recombine::gather(Random& random) {
    records_.clear();
    region_loss_ = region_reduced_ = 0.0;
    const auto cost = [&](std::int32_t at) { return reduced_[at]; };
    const auto random_class = [&] { return current_[random.below(table_.n)]; };
    const std::int32_t first = random_class(), other = random_class();
    enter(cost(other) > cost(first) ? other : first);
    const std::int32_t wide = static_cast<std::int32_t>(width_);
    const std::int32_t most = wide / 2 + random.below(wide / 2);
    for (int tries = 2 * Mask::kRecords; tries > 0; --tries) {
        const std::int32_t count = static_cast<std::int32_t>(records_.size());
        if (count >= most) break;
        spent_ += 10 + 4 * k_;
        const std::size_t from = records_[random.below(count)];
        const std::int32_t best = std::min(first_[from + 1] - first_[from], kGrowing);
        const std::int32_t by = of_[first_[from] + random.below(best)];
        for (std::int32_t i = 0; i < size(by); ++i) {
            const std::size_t id = members(by)[i];
            const std::int32_t at = current_[id];
            const bool fits = static_cast<std::int32_t>(records_.size()) + size(at) <= Mask::kRecords;
            if (position_[id] < 0 && fits) enter(at);
        }
    }
}

// The classes within the region that may improve it.
void Recombine::collect() {
    local_.clear();
    for (std::size_t x = 0; x < records_.size(); ++x) {
        const std::size_t id = records_[x];
        for (std::int32_t i = first_[id]; i < first_[id + 1]; ++i) {
            const std::int32_t at = of_[i];
            if (reduced_[at] > region_reduced_) break;
            ++spent_;
            Local local{{}, 0.0, at};
            bool inside = true;
            for (std::int32_t l = 0; l < size(at) && inside; ++l) {
                const std::int32_t position = position_[members(at)[l]];
                // Only below x, since another record adds it otherwise.
                inside = position >= static_cast<std::int32_t>(x);
                if (inside) local.mask.add(position);
            }
            if (inside) local_.push_back(local);
        }
    }
    if (local_.size() > kLocal) {
        const auto cheaper = [&](const Local& a, const Local& b) {
            const double cost_a = reduced_[a.at];
            const double other = reduced_[b.at];
            return cost_a < other || (cost_a == other && a.at < b.at);
        };
        std::nth_element(local_.begin(), local_.begin() + kLocal, local_.end(), cheaper);
        local_.resize(kLocal);
    }
    inside_.resize(local_.size());
    for (std::size_t c = 0; c < local_.size(); ++c) {
        const std::int32_t at = local_[c].at;
        for (std::int32_t i = 0; i < size(at); ++i) {
            inside_.row(c)[i] = static_cast<std::uint8_t>(position_[members(at)[i]]);
        }
    }
    spent_ += std::ssize(local_) * (4 + k_) + 8 * std::ssize(records_);
    for (const std::int32_t id : records_) position_[id] = -1;
}

double Recombine::above(std::size_t c, const std::vector<double>& prices) const {
    const std::uint8_t* places = inside_.row(c);
    double left = loss(local_[c].at);
    for (std::int32_t i = 0; i < size(local_[c].at); ++i) left -= prices[places[i]];
    return left;
}

// Computes prices of the region; false if they prove that it is optimal.
bool Recombine::bound() {
    std::vector<double> from;
    for (const std::int32_t id : records_) from.push_back(ascent_.best[id]);
    around_.start(std::move(from));
    const double most = region_loss_ * (1.0 - kRegionGain);
    for (int step = 0; step < kRegionSteps; ++step) {
        lack_.assign(records_.size(), 1);
        double value = std::accumulate(around_.prices.begin(), around_.prices.end(), 0.0);
        for (std::size_t c = 0; c < local_.size(); ++c) {
            const double left = above(c, around_.prices);
            if (left >= 0.0) continue;
            value += left;
            const std::uint8_t* places = inside_.row(c);
            for (std::int32_t i = 0; i < size(local_[c].at); ++i) --lack_[places[i]];
        }
        spent_ += std::ssize(local_) * (2 + k_ / 2) + 4 * std::ssize(records_);
        if (!around_.step(value, most, lack_)) break;
    }
    return around_.bound < most;
}

// Lowers prices until no class costs less, and filters the classes that may still be chosen.
void Recombine::settle() {
    std::vector<double>& prices = around_.best;
    std::vector<double> less(prices.size(), 0.0);
    for (std::size_t c = 0; c < local_.size(); ++c) {
        const double share = above(c, prices) / size(local_[c].at);
        for (std::int32_t i = 0; i < size(local_[c].at); ++i) {
            double& most = less[inside_.row(c)[i]];
            most = std::min(most, share);
        }
    }
    for (std::size_t x = 0; x < prices.size(); ++x) prices[x] += less[x];
    least_ = region_loss_ * (1.0 - kRegionGain) - std::accumulate(prices.begin(), prices.end(), 0.0);
    std::size_t left = 0;
    for (std::size_t c = 0; c < local_.size(); ++c) {
        local_[c].cost = above(c, prices);
        if (local_[c].cost < least_) local_[left++] = local_[c];
    }
    local_.resize(left);
    std::sort(local_.begin(), local_.end(), [](const Local& a, const Local& b) {
        return a.cost < b.cost || (a.cost == b.cost && a.at < b.at);
    });
    of_position_.resize(Mask::kRecords);
    for (std::size_t x = 0; x < records_.size(); ++x) of_position_[x].clear();
    for (std::size_t c = 0; c < left; ++c) {
        for (Mask places = local_[c].mask; !places.empty();) {
            of_position_[places.pop()].push_back(static_cast<std::int32_t>(c));
        }
    }
    spent_ += static_cast<std::int64_t>(left) * (60 + 4 * k_);
}

// The uncovered record with the fewest usable classes; -1 if some record has none.
std::int32_t Recombine::hardest(Mask left, double cost) {
    std::int32_t branch_record = -1, fewest = std::numeric_limits<std::int32_t>::max();
    for (Mask uncovered = left; !uncovered.empty() && fewest > 1;) {
        const std::int32_t x = uncovered.pop();
        std::int32_t count = 0;
        for (const std::int32_t c : of_position_[x]) {
            const Local& candidate = local_[c];
            ++effort_;
            if (cost + candidate.cost >= least_ || count >= fewest) break;
            if (candidate.mask.within(left)) ++count;
        }
        if (count == 0) return -1;
        if (count < fewest) fewest = count, branch_record = x;
    }
    return branch_record;
}

void Recombine::branch(Mask left, double cost) {
    if (left.empty()) {
        least_ = cost;
        best_ = chosen_;
        return;
    }
    const std::int32_t x = hardest(left, cost);
    if (x < 0) return;
    for (const std::int32_t c : of_position_[x]) {
        const Local& candidate = local_[c];
        if (cost + candidate.cost >= least_ || ++effort_ > kEffort) return;
        if (!candidate.mask.within(left)) continue;
        Mask uncovered = left;
        uncovered.remove(candidate.mask);
        chosen_.push_back(candidate.at);
        branch(uncovered, cost + candidate.cost);
        chosen_.pop_back();
    }
}

bool Recombine::improve(Random& random) {
    gather(random);
    collect();
    if (!bound()) return false;
    settle();
    Mask all;
    for (std::size_t x = 0; x < records_.size(); ++x) all.add(static_cast<std::int32_t>(x));
    effort_ = 0;
    best_.clear();
    branch(all, 0.0);
    spent_ += 2 * effort_;
    // As wide as possible while most regions can be solved.
    width_ = std::clamp(width_ * (effort_ > kEffort ? kNarrower : kWider), kLeast, 1.0 * Mask::kRecords);
    for (const std::int32_t at : best_) {
        for (std::int32_t i = 0; i < size(at); ++i) {
            current_[members(at)[i]] = at;
        }
    }
    return !best_.empty();
}

}  // namespace dbanon
