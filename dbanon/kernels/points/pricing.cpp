#include "points/pricing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "points/distance.hpp"

namespace dbanon {

namespace {

// The limit of candidates whose pairwise distances are stored.
constexpr std::size_t kMostCandidates = 3000;
// Fewer records are scanned.
constexpr std::int32_t kIndexed = 3000;

}  // namespace

Pricing::Pricing(const Table& table, std::int32_t k, const double* prices, const double* bars,
                 const double* inner, double threshold, std::int32_t classes_per_seed, std::int64_t effort,
                 const Tolls& tolls, Search search)
    : Kernel(table, k),
      prices_(prices),
      inner_(inner),
      weights_(table.n),
      threshold_(threshold),
      classes_per_seed_(classes_per_seed),
      effort_(effort),
      order_(table.n),
      least_(order_.size(), 0.0),
      to_seed_(order_.size()),
      candidate_of_(order_.size(), -1),
      options_(k) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::int32_t a, std::int32_t b) { return prices_[a] > prices_[b]; });
    double highest = 0.0;
    for (std::int32_t id = 0; id < table.n; ++id) highest = std::max(highest, std::abs(prices[id]));
    for (std::int64_t i = 0; inner && i < std::int64_t{k - 2} * table.n; ++i) {
        highest = std::max(highest, std::abs(inner[i]) / k);
    }
    // Relevant bounds involve distances up to twice the prices of k records, with at most p + k * k
    // roundings; the remaining slack is a safety margin.
    slack_ = std::ldexp(1.0 * table.p + 1.0 * k * k + 64.0, -49) * 4.0 * k * (highest - threshold);
    const double* last = inner && k > 2 ? inner + std::int64_t{k - 3} * table.n : nullptr;
    for (std::int32_t id = 0; id < table.n; ++id) {
        weights_[id] = (last ? last[id] : bars[id] / 2) / k - prices[id];
    }
    list_tolls(tolls);
    if (search == Search::index || (search == Search::automatic && table.n > kIndexed)) {
        tree_ = std::make_unique<WeightedTree>(table);
    }
}

void Pricing::list_tolls(const Tolls& tolls) {
    first_toll_.assign(order_.size() + 1, 0);
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
        std::vector<std::int32_t> places(order_.size());
        for (std::size_t i = 0; i < order_.size(); ++i) {
            places[order_[i]] = static_cast<std::int32_t>(i);
        }
        tree_->weigh(weights_, places);
    }
    for (std::size_t position = 0; position < order_.size(); ++position) {
        look_from(position);
        assign(order_[position], 0);
        work_.left -= steps_ + listed_ * (1 + table_.p / 8);
        if (work_.is_spent()) co_yield nullptr;
    }
}

// The sum of the smallest values; reorders them.
double Pricing::least_sum(std::vector<double>& of, std::int32_t count) const {
    if (count <= 0) return 0.0;
    const auto end = of.begin() + count;
    std::nth_element(of.begin(), end - 1, of.end());
    return std::accumulate(of.begin(), end, 0.0);
}

void Pricing::look_from(std::size_t position) {
    const std::int32_t seed = order_[position];
    best_.clear();
    chosen_.clear();
    bar_ = threshold_;
    open_ = 0.0;
    steps_ = 0;
    listed_ = 0;
    if (order_.size() - position < static_cast<std::size_t>(k_)) return;  // too few records after the seed
    list_candidates(position);
    for (const std::int32_t id : candidates_) {
        to_seed_[id] = distance(table_.row(seed), table_.row(id), table_.p);
    }
    for (const Toll& toll : tolls_of(seed)) {
        to_seed_[toll.other] += toll.distance;
    }
    double& least = least_[seed];
    if (candidates_.size() + 1 >= static_cast<std::size_t>(k_) && narrow(seed)) {
        std::vector<Option>& options = options_[k_ - 1];
        options.clear();
        for (std::int32_t c = 0; c < static_cast<std::int32_t>(candidates_.size()); ++c) {
            options.push_back({0.0, to_seed_[candidates_[c]], c});
        }
        branch(k_ - 1, -prices_[seed]);
    }
    least = std::min({0.0, bar_, open_, best_.empty() ? 0.0 : best_.front().cost}) - slack_;
    for (const Class& priced : best_) {
        classes_.push_back(seed);
        for (const std::int32_t c : priced.members) {
            classes_.push_back(candidates_[c]);
        }
    }
}

// Candidates after the seed; the tree applies the first filter of narrow().
void Pricing::list_candidates(std::size_t position) {
    if (!tree_) {
        candidates_.assign(order_.begin() + static_cast<std::ptrdiff_t>(position) + 1, order_.end());
        listed_ = static_cast<std::int64_t>(candidates_.size());
        return;
    }
    const std::int32_t seed = order_[position];
    const std::int32_t seed_position = static_cast<std::int32_t>(position);
    const double* point = table_.row(seed);
    const double scale = 1.0 / k_;
    listed_ = 1 + tree_->least(point, scale, seed_position, std::numeric_limits<double>::infinity(), k_ - 2,
                               nearest_);
    double bound = -prices_[seed];
    for (const WeightedTree::Found& neighbour : nearest_) bound += neighbour.value;
    listed_ += tree_->below(point, scale, seed_position, bar_ - bound + slack_, nearest_);
    std::sort(nearest_.begin(), nearest_.end(),
              [&](const WeightedTree::Found& a, const WeightedTree::Found& b) {
                  const double x = prices_[a.id], y = prices_[b.id];
                  return x > y || (x == y && a.id < b.id);
              });
    candidates_.clear();
    for (const WeightedTree::Found& neighbour : nearest_) candidates_.push_back(neighbour.id);
}

// Filters the candidates to those that may be in a class below the bar, and computes their pairwise
// costs; false if there are too few for a class, or too many to search.
bool Pricing::narrow(std::int32_t seed) {
    const std::int32_t others = k_ - 2;  // besides the seed and element candidate
    for (bool measured = false;; measured = true) {
        const std::size_t before = candidates_.size();
        std::vector<double> bound(before);
        for (std::size_t c = 0; c < before; ++c) {
            const std::int32_t id = candidates_[c];
            bound[c] = measured ? (to_seed_[id] + halves(others)[c]) / k_ - prices_[id]
                                : to_seed_[id] / k_ + weights_[id];
        }
        some_ = bound;
        const double least_others = least_sum(some_, others) - prices_[seed];
        std::size_t left = 0;
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < before; ++c) {
            least = std::min(least, bound[c]);
            if (least_others + bound[c] < bar_) candidates_[left++] = candidates_[c];
        }
        if (left <= static_cast<std::size_t>(others)) return false;
        // Filter again only if many candidates drop out: recomputing costs more than keeping a few.
        if (measured && left + before / 5 >= before) {
            if (left < before) {
                candidates_.resize(left);
                measure();
            }
            return true;
        }
        // Pairwise distances count as steps, too.
        if (left > kMostCandidates || std::int64_t(left * left) > 4 * effort_) {
            open_ = std::min(open_, least_others + least);
            return false;
        }
        candidates_.resize(left);
        measure();
    }
}

void Pricing::measure() {
    const std::size_t count = candidates_.size();
    apart_.assign(count, count);
    for (std::size_t a = 0; a < count; ++a) {
        apart_.row(a)[a] = 0.0;
        for (std::size_t b = 0; b < a; ++b) {
            apart_.row(a)[b] = apart_.row(b)[a] =
                distance(table_.row(candidates_[a]), table_.row(candidates_[b]), table_.p);
        }
    }
    add_tolls();
    halves_.assign(k_, count);
    const std::size_t most = std::min(count - 1, static_cast<std::size_t>(k_ - 2));
    for (std::size_t a = 0; a < count; ++a) {
        const double* from = apart_.row(a);
        some_.assign(from, from + count);
        some_.erase(some_.begin() + static_cast<std::ptrdiff_t>(a));
        std::partial_sort(some_.begin(), some_.begin() + static_cast<std::ptrdiff_t>(most), some_.end());
        double sum = 0.0;
        for (std::size_t r = 1; r <= most; ++r) {
            sum += some_[r - 1] / 2;
            halves_.row(r)[a] = sum;
        }
    }
    if (inner_) choose_inner();
    steps_ += static_cast<std::int64_t>(count * count);
}

// Replace halves by the prices of smaller classes if these give better bounds.
void Pricing::choose_inner() {
    for (std::int32_t r = 2; r < k_; ++r) {
        const double* inner = inner_ + std::int64_t{r - 2} * table_.n;
        double* half = halves(r - 1);
        double more = 0.0;
        for (std::size_t c = 0; c < candidates_.size(); ++c) more += inner[candidates_[c]] - half[c];
        if (!(more > 0.0)) continue;
        for (std::size_t c = 0; c < candidates_.size(); ++c) half[c] = inner[candidates_[c]];
    }
}

// Adds tolls to the pairwise costs of candidates.
void Pricing::add_tolls() {
    if (tolls_.empty()) return;
    const std::size_t count = candidates_.size();
    for (std::size_t c = 0; c < count; ++c) {
        candidate_of_[candidates_[c]] = static_cast<std::int32_t>(c);
    }
    for (std::size_t c = 0; c < count; ++c) {
        for (const Toll& toll : tolls_of(candidates_[c])) {
            const std::int32_t other = candidate_of_[toll.other];
            if (other >= 0) apart_.row(c)[other] += toll.distance;
        }
    }
    for (const std::int32_t id : candidates_) candidate_of_[id] = -1;
}

// Chooses the `missing` remaining members; base is D(T)/k - y(T).
void Pricing::branch(std::int32_t missing, double base) {
    std::vector<Option>& options = options_[missing];
    const std::size_t count = options.size();
    const std::size_t needed = missing;
    if (count < needed) return;
    steps_ += static_cast<std::int64_t>(count);
    const double* half = halves(missing - 1);
    for (Option& option : options) {
        option.bound = (option.together + half[option.candidate]) / k_ - price(option.candidate);
    }
    if (missing == 1) {
        for (const Option& option : options) {
            if (base + option.bound >= bar_) continue;
            chosen_.push_back(option.candidate);
            keep(base + option.bound);
            chosen_.pop_back();
        }
        return;
    }
    std::sort(options.begin(), options.end(), [](const Option& a, const Option& b) {
        return a.bound < b.bound || (a.bound == b.bound && a.candidate < b.candidate);
    });
    if (missing == 2) {
        pair(options, base);
        return;
    }
    for (std::size_t first = 0; first + needed <= count; ++first) {
        double bound = base;
        for (std::size_t i = first; i < first + needed; ++i) bound += options[i].bound;
        if (bound >= bar_) return;
        if (steps_ > effort_) {
            open_ = std::min(open_, bound);
            return;
        }
        const Option option = options[first];
        const double* apart = row(option.candidate);
        std::vector<Option>& next = options_[needed - 1];
        next.clear();
        for (std::size_t i = first + 1; i < count; ++i) {
            const std::int32_t c = options[i].candidate;
            next.push_back({0.0, options[i].together + apart[c], c});
        }
        chosen_.push_back(option.candidate);
        branch(missing - 1, base + option.together / k_ - price(option.candidate));
        chosen_.pop_back();
    }
}

// Chooses the last two members together.
void Pricing::pair(const std::vector<Option>& options, double base) {
    for (std::size_t a = 0; a + 1 < options.size(); ++a) {
        const Option& option = options[a];
        if (base + option.bound + options[a + 1].bound >= bar_) return;
        const double* apart = row(option.candidate);
        const double with_one = base + option.together / k_ - price(option.candidate);
        for (std::size_t b = a + 1; b < options.size(); ++b) {
            const Option& other = options[b];
            if (base + option.bound + other.bound >= bar_) break;
            ++steps_;
            const double cost = with_one + (other.together + apart[other.candidate]) / k_ -
                                price(other.candidate);
            if (cost >= bar_) continue;
            chosen_.push_back(option.candidate);
            chosen_.push_back(other.candidate);
            keep(cost);
            chosen_.resize(chosen_.size() - 2);
        }
    }
}

void Pricing::keep(double cost) {
    const auto position = std::upper_bound(best_.begin(), best_.end(), cost,
                                        [](double c, const Class& element) { return c < element.cost; });
    best_.insert(position, {cost, chosen_});
    if (best_.size() > static_cast<std::size_t>(classes_per_seed_)) best_.pop_back();
    if (best_.size() == static_cast<std::size_t>(classes_per_seed_)) bar_ = best_.back().cost;
}

}  // namespace dbanon
