#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "points/recombine.hpp"

namespace dbanon {

namespace {

constexpr int kRegionPriceSteps = 100;  // of price computation
// A region grows by one of this many best classes of a record, at random.
constexpr std::int32_t kBestClasses = 8;
constexpr std::size_t kMaxRegionClasses = 6000;     // limit of classes in a region
constexpr std::int64_t kMaxVisited = 1 << 21;  // limit of classes visited by branch and bound
// Factors of the region width after a region that was too large, or was not, and its limits.
constexpr double kShrinkFactor = 0.85, kGrowthFactor = 1.02, kMinRegionWidth = 48.0;
// The least gain, as a share of a region's loss; smaller ones may be rounding errors.
constexpr double kRegionGain = 1e-10;

}  // namespace

bool RecordSet::is_subset_of(const RecordSet& other) const {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) out |= words_[i] & ~other.words_[i];
    return out == 0;
}

void RecordSet::remove(const RecordSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
}

std::int32_t RecordSet::pop_first() {
    std::size_t i = 0;
    while (words_[i] == 0) ++i;
    const int bit = std::countr_zero(words_[i]);
    words_[i] &= words_[i] - 1;
    return static_cast<std::int32_t>(64 * i) + bit;
}

void Recombine::add_to_region(std::int32_t class_id) {
    region_loss_ += loss(class_id);
    region_reduced_ += reduced_costs_[class_id];
    for (std::int32_t i = 0; i < size(class_id); ++i) {
        const std::int32_t id = members(class_id)[i];
        position_[id] = static_cast<std::int32_t>(records_.size());
        records_.push_back(id);
    }
}

// Chooses a region: a class that costs more than its prices, then repeatedly the classes that share
// records with a class of low reduced cost.
void Recombine::choose_region(Random& random) {
    records_.clear();
    region_loss_ = region_reduced_ = 0.0;
    const auto cost = [&](std::int32_t class_id) { return reduced_costs_[class_id]; };
    const auto random_class = [&] { return current_[random.below(table_.n)]; };
    const std::int32_t first = random_class(), other = random_class();
    add_to_region(cost(other) > cost(first) ? other : first);
    const std::int32_t region_width = static_cast<std::int32_t>(region_width_);
    const std::int32_t most = region_width / 2 + random.below(region_width / 2);
    for (int tries = 2 * RecordSet::kCapacity; tries > 0; --tries) {
        const std::int32_t count = static_cast<std::int32_t>(records_.size());
        if (count >= most) break;
        work_done_ += 10 + 4 * k_;
        const std::size_t from = records_[random.below(count)];
        const std::int32_t best = std::min(first_class_[from + 1] - first_class_[from], kBestClasses);
        const std::int32_t neighbour_class = classes_of_record_[first_class_[from] + random.below(best)];
        for (std::int32_t i = 0; i < size(neighbour_class); ++i) {
            const std::size_t id = members(neighbour_class)[i];
            const std::int32_t class_id = current_[id];
            const bool fits = static_cast<std::int32_t>(records_.size()) + size(class_id) <= RecordSet::kCapacity;
            if (position_[id] < 0 && fits) add_to_region(class_id);
        }
    }
}

// The classes within the region that may improve it.
void Recombine::collect_region_classes() {
    region_classes_.clear();
    for (std::size_t x = 0; x < records_.size(); ++x) {
        const std::size_t id = records_[x];
        for (std::int32_t i = first_class_[id]; i < first_class_[id + 1]; ++i) {
            const std::int32_t class_id = classes_of_record_[i];
            if (reduced_costs_[class_id] > region_reduced_) break;
            ++work_done_;
            RegionClass region_class{{}, 0.0, class_id};
            bool inside = true;
            for (std::int32_t l = 0; l < size(class_id) && inside; ++l) {
                const std::int32_t position = position_[members(class_id)[l]];
                // Only below x, since another record adds it otherwise.
                inside = position >= static_cast<std::int32_t>(x);
                if (inside) region_class.record_set.add(position);
            }
            if (inside) region_classes_.push_back(region_class);
        }
    }
    if (region_classes_.size() > kMaxRegionClasses) {
        const auto cheaper = [&](const RegionClass& a, const RegionClass& b) {
            const double cost_a = reduced_costs_[a.class_id];
            const double other = reduced_costs_[b.class_id];
            return cost_a < other || (cost_a == other && a.class_id < b.class_id);
        };
        std::nth_element(region_classes_.begin(), region_classes_.begin() + kMaxRegionClasses, region_classes_.end(), cheaper);
        region_classes_.resize(kMaxRegionClasses);
    }
    region_positions_.resize(region_classes_.size());
    for (std::size_t c = 0; c < region_classes_.size(); ++c) {
        const std::int32_t class_id = region_classes_[c].class_id;
        for (std::int32_t i = 0; i < size(class_id); ++i) {
            region_positions_.row(c)[i] = static_cast<std::uint8_t>(position_[members(class_id)[i]]);
        }
    }
    work_done_ += std::ssize(region_classes_) * (4 + k_) + 8 * std::ssize(records_);
    for (const std::int32_t id : records_) position_[id] = -1;
}

double Recombine::region_reduced_cost(std::size_t c, const std::vector<double>& prices) const {
    const std::uint8_t* positions = region_positions_.row(c);
    double left = loss(region_classes_[c].class_id);
    for (std::int32_t i = 0; i < size(region_classes_[c].class_id); ++i) left -= prices[positions[i]];
    return left;
}

// Computes prices of the region; false if they prove that it is optimal.
bool Recombine::compute_bound() {
    std::vector<double> from;
    for (const std::int32_t id : records_) from.push_back(ascent_.best[id]);
    region_ascent_.start(std::move(from));
    const double most = region_loss_ * (1.0 - kRegionGain);
    for (int step = 0; step < kRegionPriceSteps; ++step) {
        shortfall_.assign(records_.size(), 1);
        double value = std::accumulate(region_ascent_.prices.begin(), region_ascent_.prices.end(), 0.0);
        for (std::size_t c = 0; c < region_classes_.size(); ++c) {
            const double left = region_reduced_cost(c, region_ascent_.prices);
            if (left >= 0.0) continue;
            value += left;
            const std::uint8_t* positions = region_positions_.row(c);
            for (std::int32_t i = 0; i < size(region_classes_[c].class_id); ++i) --shortfall_[positions[i]];
        }
        work_done_ += std::ssize(region_classes_) * (2 + k_ / 2) + 4 * std::ssize(records_);
        if (!region_ascent_.step(value, most, shortfall_)) break;
    }
    return region_ascent_.bound < most;
}

// Lowers prices until no class costs less, and filters the classes that may still be chosen.
void Recombine::filter_by_prices() {
    std::vector<double>& prices = region_ascent_.best;
    std::vector<double> less(prices.size(), 0.0);
    for (std::size_t c = 0; c < region_classes_.size(); ++c) {
        const double share = region_reduced_cost(c, prices) / size(region_classes_[c].class_id);
        for (std::int32_t i = 0; i < size(region_classes_[c].class_id); ++i) {
            double& most = less[region_positions_.row(c)[i]];
            most = std::min(most, share);
        }
    }
    for (std::size_t x = 0; x < prices.size(); ++x) prices[x] += less[x];
    best_cost_ = region_loss_ * (1.0 - kRegionGain) - std::accumulate(prices.begin(), prices.end(), 0.0);
    std::size_t left = 0;
    for (std::size_t c = 0; c < region_classes_.size(); ++c) {
        region_classes_[c].cost = region_reduced_cost(c, prices);
        if (region_classes_[c].cost < best_cost_) region_classes_[left++] = region_classes_[c];
    }
    region_classes_.resize(left);
    std::sort(region_classes_.begin(), region_classes_.end(), [](const RegionClass& a, const RegionClass& b) {
        return a.cost < b.cost || (a.cost == b.cost && a.class_id < b.class_id);
    });
    classes_of_position_.resize(RecordSet::kCapacity);
    for (std::size_t x = 0; x < records_.size(); ++x) classes_of_position_[x].clear();
    for (std::size_t c = 0; c < left; ++c) {
        for (RecordSet positions = region_classes_[c].record_set; !positions.empty();) {
            classes_of_position_[positions.pop_first()].push_back(static_cast<std::int32_t>(c));
        }
    }
    work_done_ += static_cast<std::int64_t>(left) * (60 + 4 * k_);
}

// The uncovered record with the fewest usable classes; -1 if some record has none.
std::int32_t Recombine::most_constrained_record(RecordSet left, double cost) {
    std::int32_t branch_record = -1, fewest = std::numeric_limits<std::int32_t>::max();
    for (RecordSet uncovered = left; !uncovered.empty() && fewest > 1;) {
        const std::int32_t x = uncovered.pop_first();
        std::int32_t count = 0;
        for (const std::int32_t c : classes_of_position_[x]) {
            const RegionClass& candidate = region_classes_[c];
            ++n_visited_;
            if (cost + candidate.cost >= best_cost_ || count >= fewest) break;
            if (candidate.record_set.is_subset_of(left)) ++count;
        }
        if (count == 0) return -1;
        if (count < fewest) fewest = count, branch_record = x;
    }
    return branch_record;
}

void Recombine::branch(RecordSet left, double cost) {
    if (left.empty()) {
        best_cost_ = cost;
        best_ = chosen_;
        return;
    }
    const std::int32_t x = most_constrained_record(left, cost);
    if (x < 0) return;
    for (const std::int32_t c : classes_of_position_[x]) {
        const RegionClass& candidate = region_classes_[c];
        if (cost + candidate.cost >= best_cost_ || ++n_visited_ > kMaxVisited) return;
        if (!candidate.record_set.is_subset_of(left)) continue;
        RecordSet uncovered = left;
        uncovered.remove(candidate.record_set);
        chosen_.push_back(candidate.class_id);
        branch(uncovered, cost + candidate.cost);
        chosen_.pop_back();
    }
}

bool Recombine::improve(Random& random) {
    choose_region(random);
    collect_region_classes();
    if (!compute_bound()) return false;
    filter_by_prices();
    RecordSet all;
    for (std::size_t x = 0; x < records_.size(); ++x) all.add(static_cast<std::int32_t>(x));
    n_visited_ = 0;
    best_.clear();
    branch(all, 0.0);
    work_done_ += 2 * n_visited_;
    // As wide as possible while most regions can be solved.
    region_width_ = std::clamp(region_width_ * (n_visited_ > kMaxVisited ? kShrinkFactor : kGrowthFactor), kMinRegionWidth, 1.0 * RecordSet::kCapacity);
    for (const std::int32_t class_id : best_) {
        for (std::int32_t i = 0; i < size(class_id); ++i) {
            current_[members(class_id)[i]] = class_id;
        }
    }
    return !best_.empty();
}

}  // namespace dbanon
