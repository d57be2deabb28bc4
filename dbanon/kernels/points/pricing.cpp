#include "points/pricing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "points/distance.hpp"

namespace dbanon {

namespace {

// The maximum number of candidates whose pairwise distances are stored.
constexpr std::size_t kMaxCandidates = 3000;
// With fewer records, scanning is faster than the tree.
constexpr std::int32_t kMinIndexedRecords = 3000;

}  // namespace

Pricing::Pricing(const Table& table, std::int32_t k, const double* prices, const double* nearest_sums,
                 const double* smaller_class_prices, double threshold, std::int32_t classes_per_seed, std::int64_t max_steps,
                 const Tolls& tolls, Search search)
    : Kernel(table, k),
      prices_(prices),
      smaller_class_prices_(smaller_class_prices),
      weights_(table.n),
      threshold_(threshold),
      classes_per_seed_(classes_per_seed),
      max_steps_(max_steps),
      by_price_(table.n),
      lower_bounds_(by_price_.size(), 0.0),
      to_seed_(by_price_.size()),
      candidate_of_(by_price_.size(), -1),
      extensions_by_missing_(k) {
    std::iota(by_price_.begin(), by_price_.end(), 0);
    std::stable_sort(by_price_.begin(), by_price_.end(),
                     [&](std::int32_t a, std::int32_t b) { return prices_[a] > prices_[b]; });
    double highest = 0.0;
    for (std::int32_t id = 0; id < table.n; ++id) highest = std::max(highest, std::abs(prices[id]));
    for (std::int64_t i = 0; smaller_class_prices && i < std::int64_t{k - 2} * table.n; ++i) {
        highest = std::max(highest, std::abs(smaller_class_prices[i]) / k);
    }
    // Relevant bounds involve distances up to twice the prices of k records, with at most p + k * k
    // roundings; the remaining slack is a safety margin.
    slack_ = std::ldexp(1.0 * table.p + 1.0 * k * k + 64.0, -49) * 4.0 * k * (highest - threshold);
    const double* last = smaller_class_prices && k > 2 ? smaller_class_prices + std::int64_t{k - 3} * table.n : nullptr;
    for (std::int32_t id = 0; id < table.n; ++id) {
        weights_[id] = (last ? last[id] : nearest_sums[id] / 2) / k - prices[id];
    }
    list_tolls(tolls);
    if (search == Search::index || (search == Search::automatic && table.n > kMinIndexedRecords)) {
        tree_ = std::make_unique<WeightedTree>(table);
    }
}

void Pricing::list_tolls(const Tolls& tolls) {
    first_toll_.assign(by_price_.size() + 1, 0);
    for (std::size_t i = 0; i < 2 * tolls.count; ++i) {
        ++first_toll_[static_cast<std::size_t>(tolls.pairs[i]) + 1];
    }
    std::partial_sum(first_toll_.begin(), first_toll_.end(), first_toll_.begin());
    tolls_.resize(2 * tolls.count);
    std::vector<std::size_t> next(first_toll_.begin(), first_toll_.end() - 1);
    for (std::size_t i = 0; i < 2 * tolls.count; ++i) {
        const std::size_t from = tolls.pairs[i];
        tolls_[next[from]++] = {tolls.pairs[i ^ 1], k_ * tolls.tolls[i / 2]};
    }
}

Coroutine Pricing::run() {
    if (tree_) {
        while (!tree_->build(work_)) co_yield nullptr;
        std::vector<std::int32_t> ranks(by_price_.size());
        for (std::size_t i = 0; i < by_price_.size(); ++i) {
            ranks[by_price_[i]] = static_cast<std::int32_t>(i);
        }
        tree_->set_weights(weights_, ranks);
    }
    for (std::size_t position = 0; position < by_price_.size(); ++position) {
        search_from_seed(position);
        assign(by_price_[position], 0);
        work_.left -= steps_ + listing_steps_ * (1 + table_.p / 8);
        if (work_.is_spent()) co_yield nullptr;
    }
}

// The sum of the smallest values; reorders them.
double Pricing::least_sum(std::vector<double>& values, std::int32_t count) const {
    if (count <= 0) return 0.0;
    const auto end = values.begin() + count;
    std::nth_element(values.begin(), end - 1, values.end());
    return std::accumulate(values.begin(), end, 0.0);
}

void Pricing::search_from_seed(std::size_t position) {
    const std::int32_t seed = by_price_[position];
    best_classes_.clear();
    chosen_.clear();
    cost_limit_ = threshold_;
    skipped_bound_ = 0.0;
    steps_ = 0;
    listing_steps_ = 0;
    if (by_price_.size() - position < static_cast<std::size_t>(k_)) return;  // too few records after the seed
    list_candidates(position);
    for (const std::int32_t id : candidates_) {
        to_seed_[id] = distance(table_.row(seed), table_.row(id), table_.p);
    }
    for (const Toll& toll : tolls_of(seed)) {
        to_seed_[toll.other] += toll.distance;
    }
    double& lower_bound = lower_bounds_[seed];
    if (candidates_.size() + 1 >= static_cast<std::size_t>(k_) && filter_candidates(seed)) {
        std::vector<Extension>& extensions = extensions_by_missing_[k_ - 1];
        extensions.clear();
        for (std::int32_t c = 0; c < static_cast<std::int32_t>(candidates_.size()); ++c) {
            extensions.push_back({0.0, to_seed_[candidates_[c]], c});
        }
        choose_remaining(k_ - 1, -prices_[seed]);
    }
    lower_bound = std::min({0.0, cost_limit_, skipped_bound_, best_classes_.empty() ? 0.0 : best_classes_.front().cost}) - slack_;
    for (const Class& priced : best_classes_) {
        priced_classes_.push_back(seed);
        for (const std::int32_t c : priced.members) {
            priced_classes_.push_back(candidates_[c]);
        }
    }
}

// Candidates after the seed; the tree applies the first filter of narrow().
void Pricing::list_candidates(std::size_t position) {
    if (!tree_) {
        candidates_.assign(by_price_.begin() + static_cast<std::ptrdiff_t>(position) + 1, by_price_.end());
        listing_steps_ = static_cast<std::int64_t>(candidates_.size());
        return;
    }
    const std::int32_t seed = by_price_[position];
    const std::int32_t seed_position = static_cast<std::int32_t>(position);
    const double* point = table_.row(seed);
    const double scale = 1.0 / k_;
    listing_steps_ = 1 + tree_->find_least(point, scale, seed_position, std::numeric_limits<double>::infinity(), k_ - 2,
                               nearest_);
    double bound = -prices_[seed];
    for (const WeightedTree::Entry& neighbour : nearest_) bound += neighbour.value;
    listing_steps_ += tree_->find_below(point, scale, seed_position, cost_limit_ - bound + slack_, nearest_);
    std::sort(nearest_.begin(), nearest_.end(),
              [&](const WeightedTree::Entry& a, const WeightedTree::Entry& b) {
                  const double x = prices_[a.id], y = prices_[b.id];
                  return x > y || (x == y && a.id < b.id);
              });
    candidates_.clear();
    for (const WeightedTree::Entry& neighbour : nearest_) candidates_.push_back(neighbour.id);
}

// Filters the candidates to those that may be in a class below `cost_limit_`, and computes their pairwise
// costs; false if there are too few for a class, or too many to search.
bool Pricing::filter_candidates(std::int32_t seed) {
    const std::int32_t n_others = k_ - 2;  // besides the seed and the candidate that is rated
    for (bool has_pair_distances = false;; has_pair_distances = true) {
        const std::size_t before = candidates_.size();
        std::vector<double> bound(before);
        for (std::size_t c = 0; c < before; ++c) {
            const std::int32_t id = candidates_[c];
            bound[c] = has_pair_distances ? (to_seed_[id] + half_sums(n_others)[c]) / k_ - prices_[id]
                                : to_seed_[id] / k_ + weights_[id];
        }
        scratch_ = bound;
        const double others_bound = least_sum(scratch_, n_others) - prices_[seed];
        std::size_t left = 0;
        double lower_bound = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < before; ++c) {
            lower_bound = std::min(lower_bound, bound[c]);
            if (others_bound + bound[c] < cost_limit_) candidates_[left++] = candidates_[c];
        }
        if (left <= static_cast<std::size_t>(n_others)) return false;
        // Filter again only if many candidates drop out: recomputing costs more than keeping a few.
        if (has_pair_distances && left + before / 5 >= before) {
            if (left < before) {
                candidates_.resize(left);
                compute_pair_distances();
            }
            return true;
        }
        // Pairwise distances count as steps, too.
        if (left > kMaxCandidates || std::int64_t(left * left) > 4 * max_steps_) {
            skipped_bound_ = std::min(skipped_bound_, others_bound + lower_bound);
            return false;
        }
        candidates_.resize(left);
        compute_pair_distances();
    }
}

void Pricing::compute_pair_distances() {
    const std::size_t count = candidates_.size();
    distances_.assign(count, count);
    for (std::size_t a = 0; a < count; ++a) {
        distances_.row(a)[a] = 0.0;
        for (std::size_t b = 0; b < a; ++b) {
            distances_.row(a)[b] = distances_.row(b)[a] =
                distance(table_.row(candidates_[a]), table_.row(candidates_[b]), table_.p);
        }
    }
    add_tolls();
    half_sums_.assign(k_, count);
    const std::size_t most = std::min(count - 1, static_cast<std::size_t>(k_ - 2));
    for (std::size_t a = 0; a < count; ++a) {
        const double* from = distances_.row(a);
        scratch_.assign(from, from + count);
        scratch_.erase(scratch_.begin() + static_cast<std::ptrdiff_t>(a));
        std::partial_sort(scratch_.begin(), scratch_.begin() + static_cast<std::ptrdiff_t>(most), scratch_.end());
        double sum = 0.0;
        for (std::size_t r = 1; r <= most; ++r) {
            sum += scratch_[r - 1] / 2;
            half_sums_.row(r)[a] = sum;
        }
    }
    if (smaller_class_prices_) tighten_halves();
    steps_ += static_cast<std::int64_t>(count * count);
}

// Replaces half sums by the prices of smaller classes where these give better bounds.
void Pricing::tighten_halves() {
    for (std::int32_t r = 2; r < k_; ++r) {
        const double* smaller_class_prices = smaller_class_prices_ + std::int64_t{r - 2} * table_.n;
        double* half = half_sums(r - 1);
        double more = 0.0;
        for (std::size_t c = 0; c < candidates_.size(); ++c) more += smaller_class_prices[candidates_[c]] - half[c];
        if (!(more > 0.0)) continue;
        for (std::size_t c = 0; c < candidates_.size(); ++c) half[c] = smaller_class_prices[candidates_[c]];
    }
}

// Adds tolls to the pairwise distances of candidates.
void Pricing::add_tolls() {
    if (tolls_.empty()) return;
    const std::size_t count = candidates_.size();
    for (std::size_t c = 0; c < count; ++c) {
        candidate_of_[candidates_[c]] = static_cast<std::int32_t>(c);
    }
    for (std::size_t c = 0; c < count; ++c) {
        for (const Toll& toll : tolls_of(candidates_[c])) {
            const std::int32_t other = candidate_of_[toll.other];
            if (other >= 0) distances_.row(c)[other] += toll.distance;
        }
    }
    for (const std::int32_t id : candidates_) candidate_of_[id] = -1;
}

// Chooses the `missing` remaining members. `base` is D(T)/k - y(T), see pricing.hpp.
void Pricing::choose_remaining(std::int32_t missing, double base) {
    std::vector<Extension>& extensions = extensions_by_missing_[missing];
    const std::size_t count = extensions.size();
    const std::size_t needed = missing;
    if (count < needed) return;
    steps_ += static_cast<std::int64_t>(count);
    const double* half = half_sums(missing - 1);
    for (Extension& extension : extensions) {
        extension.bound = (extension.distance_sum + half[extension.index]) / k_ - price(extension.index);
    }
    if (missing == 1) {
        for (const Extension& extension : extensions) {
            if (base + extension.bound >= cost_limit_) continue;
            chosen_.push_back(extension.index);
            keep_class(base + extension.bound);
            chosen_.pop_back();
        }
        return;
    }
    std::sort(extensions.begin(), extensions.end(), [](const Extension& a, const Extension& b) {
        return a.bound < b.bound || (a.bound == b.bound && a.index < b.index);
    });
    if (missing == 2) {
        choose_last_two(extensions, base);
        return;
    }
    for (std::size_t first = 0; first + needed <= count; ++first) {
        double bound = base;
        for (std::size_t i = first; i < first + needed; ++i) bound += extensions[i].bound;
        if (bound >= cost_limit_) return;
        if (steps_ > max_steps_) {
            skipped_bound_ = std::min(skipped_bound_, bound);
            return;
        }
        const Extension extension = extensions[first];
        const double* candidate_distances = row(extension.index);
        std::vector<Extension>& next = extensions_by_missing_[needed - 1];
        next.clear();
        for (std::size_t i = first + 1; i < count; ++i) {
            const std::int32_t c = extensions[i].index;
            next.push_back({0.0, extensions[i].distance_sum + candidate_distances[c], c});
        }
        chosen_.push_back(extension.index);
        choose_remaining(missing - 1, base + extension.distance_sum / k_ - price(extension.index));
        chosen_.pop_back();
    }
}

// Chooses the last two members together.
void Pricing::choose_last_two(const std::vector<Extension>& extensions, double base) {
    for (std::size_t a = 0; a + 1 < extensions.size(); ++a) {
        const Extension& extension = extensions[a];
        if (base + extension.bound + extensions[a + 1].bound >= cost_limit_) return;
        const double* candidate_distances = row(extension.index);
        const double base_with_first = base + extension.distance_sum / k_ - price(extension.index);
        for (std::size_t b = a + 1; b < extensions.size(); ++b) {
            const Extension& other = extensions[b];
            if (base + extension.bound + other.bound >= cost_limit_) break;
            ++steps_;
            const double cost = base_with_first + (other.distance_sum + candidate_distances[other.index]) / k_ -
                                price(other.index);
            if (cost >= cost_limit_) continue;
            chosen_.push_back(extension.index);
            chosen_.push_back(other.index);
            keep_class(cost);
            chosen_.resize(chosen_.size() - 2);
        }
    }
}

void Pricing::keep_class(double cost) {
    const auto position = std::upper_bound(best_classes_.begin(), best_classes_.end(), cost,
                                        [](double c, const Class& element) { return c < element.cost; });
    best_classes_.insert(position, {cost, chosen_});
    if (best_classes_.size() > static_cast<std::size_t>(classes_per_seed_)) best_classes_.pop_back();
    if (best_classes_.size() == static_cast<std::size_t>(classes_per_seed_)) cost_limit_ = best_classes_.back().cost;
}

}  // namespace dbanon
