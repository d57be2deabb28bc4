#include "points/pricing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dbanon {

namespace {

// The distances between more candidates than these would not be worth their memory.
constexpr std::size_t kMostCandidates = 3000;

}  // namespace

Pricing::Pricing(const Table& table, std::int32_t k, const double* prices, const double* bars,
                 double threshold, std::int32_t wanted, std::int64_t effort, const Tolls& tolls)
    : Kernel(table, k),
      prices_(prices),
      bars_(bars),
      threshold_(threshold),
      wanted_(wanted),
      effort_(effort),
      order_(table.n),
      least_(order_.size(), 0.0),
      to_seed_(order_.size()),
      place_(order_.size(), -1),
      options_(k) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::int32_t a, std::int32_t b) { return prices_[a] > prices_[b]; });
    double highest = 0.0;
    for (std::int32_t id = 0; id < table.n; ++id) highest = std::max(highest, std::abs(prices[id]));
    // A bound that matters has distances of no more than twice the prices of k records; their terms
    // are rounded p + k * k times at most, and the rest is room to spare.
    slack_ = std::ldexp(1.0 * table.p + 1.0 * k * k + 64.0, -49) * 4.0 * k * (highest - threshold);
    list_tolls(tolls);
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

Steps Pricing::run() {
    for (std::size_t position = 0; position < order_.size(); ++position) {
        look_from(position);
        assign(order_[position], 0);
        work_.left -= steps_ + (table_.n - static_cast<std::int64_t>(position)) * (1 + table_.p / 8);
        if (work_.spent()) co_yield nullptr;
    }
}

double Pricing::distance(std::int32_t one, std::int32_t other) const {
    const double* a = table_.row(one);
    const double* b = table_.row(other);
    double sum = 0.0;
    for (int j = 0; j < table_.p; ++j) {
        const double gap = a[j] - b[j];
        sum += gap * gap;
    }
    return sum;
}

// The sum of the smallest; changes the order.
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
    candidates_.assign(order_.begin() + static_cast<std::ptrdiff_t>(position) + 1, order_.end());
    if (candidates_.size() + 1 < static_cast<std::size_t>(k_)) return;  // seed of no class
    for (const std::int32_t id : candidates_) {
        to_seed_[id] = distance(seed, id);
    }
    for (const Toll& toll : tolls_of(seed)) {
        to_seed_[toll.other] += toll.distance;
    }
    double& least = least_[seed];
    if (narrow(seed)) {
        std::vector<Option>& options = options_[k_ - 1];
        options.clear();
        for (std::int32_t c = 0; c < static_cast<std::int32_t>(candidates_.size()); ++c) {
            options.push_back({0.0, to_seed_[candidates_[c]], c});
        }
        branch(k_ - 1, -prices_[seed]);
    }
    least = std::min({0.0, bar_, open_, best_.empty() ? 0.0 : best_.front().cost}) - slack_;
    for (const Class& one : best_) {
        classes_.push_back(seed);
        for (const std::int32_t c : one.members) {
            classes_.push_back(candidates_[c]);
        }
    }
}

// Leaves the candidates that may be in a class below the bar, with what is between them; false
// where there are too few for a class, or too many to look into.
bool Pricing::narrow(std::int32_t seed) {
    const std::int32_t others = k_ - 2;  // beside the seed and one candidate
    for (bool measured = false;; measured = true) {
        const std::size_t before = candidates_.size();
        std::vector<double> bound(before);
        for (std::size_t c = 0; c < before; ++c) {
            const std::int32_t id = candidates_[c];
            const double half = measured ? halves(others)[c] : bars_[id] / 2;
            bound[c] = (to_seed_[id] + half) / k_ - prices_[id];
        }
        some_ = bound;
        const double rest = least_sum(some_, others) - prices_[seed];
        std::size_t left = 0;
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < before; ++c) {
            least = std::min(least, bound[c]);
            if (rest + bound[c] < bar_) candidates_[left++] = candidates_[c];
        }
        if (left <= static_cast<std::size_t>(others)) return false;
        // As many again are soon measured; what a last few cost is less than to measure all anew.
        if (measured && left + before / 5 >= before) {
            if (left < before) {
                candidates_.resize(left);
                measure();
            }
            return true;
        }
        if (left > kMostCandidates) {
            open_ = std::min(open_, rest + least);
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
            apart_.row(a)[b] = apart_.row(b)[a] = distance(candidates_[a], candidates_[b]);
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
    steps_ += static_cast<std::int64_t>(count * count);
}

// Adds the tolls of pairs of candidates to what is between them.
void Pricing::add_tolls() {
    if (tolls_.empty()) return;
    const std::size_t count = candidates_.size();
    for (std::size_t c = 0; c < count; ++c) {
        place_[candidates_[c]] = static_cast<std::int32_t>(c);
    }
    for (std::size_t c = 0; c < count; ++c) {
        for (const Toll& toll : tolls_of(candidates_[c])) {
            const std::int32_t other = place_[toll.other];
            if (other >= 0) apart_.row(c)[other] += toll.distance;
        }
    }
    for (const std::int32_t id : candidates_) place_[id] = -1;
}

// Chooses the `missing` members still to come; base is D(T)/k - y(T).
void Pricing::branch(std::int32_t missing, double base) {
    std::vector<Option>& options = options_[missing];
    const std::size_t count = options.size();
    const std::size_t needed = missing;
    if (count < needed) return;
    steps_ += static_cast<std::int64_t>(count);
    const double* half = halves(missing - 1);
    for (Option& one : options) {
        one.bound = (one.together + half[one.candidate]) / k_ - price(one.candidate);
    }
    if (missing == 1) {
        for (const Option& one : options) {
            if (base + one.bound >= bar_) continue;
            chosen_.push_back(one.candidate);
            keep(base + one.bound);
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
        const Option one = options[first];
        const double* apart = row(one.candidate);
        std::vector<Option>& next = options_[needed - 1];
        next.clear();
        for (std::size_t i = first + 1; i < count; ++i) {
            const std::int32_t c = options[i].candidate;
            next.push_back({0.0, options[i].together + apart[c], c});
        }
        chosen_.push_back(one.candidate);
        branch(missing - 1, base + one.together / k_ - price(one.candidate));
        chosen_.pop_back();
    }
}

// The last two at once.
void Pricing::pair(const std::vector<Option>& options, double base) {
    for (std::size_t a = 0; a + 1 < options.size(); ++a) {
        const Option& one = options[a];
        if (base + one.bound + options[a + 1].bound >= bar_) return;
        const double* apart = row(one.candidate);
        const double with_one = base + one.together / k_ - price(one.candidate);
        for (std::size_t b = a + 1; b < options.size(); ++b) {
            const Option& other = options[b];
            if (base + one.bound + other.bound >= bar_) break;
            ++steps_;
            const double cost = with_one + (other.together + apart[other.candidate]) / k_ -
                                price(other.candidate);
            if (cost >= bar_) continue;
            chosen_.push_back(one.candidate);
            chosen_.push_back(other.candidate);
            keep(cost);
            chosen_.resize(chosen_.size() - 2);
        }
    }
}

void Pricing::keep(double cost) {
    const auto place = std::upper_bound(best_.begin(), best_.end(), cost,
                                        [](double c, const Class& one) { return c < one.cost; });
    best_.insert(place, {cost, chosen_});
    if (best_.size() > static_cast<std::size_t>(wanted_)) best_.pop_back();
    if (best_.size() == static_cast<std::size_t>(wanted_)) bar_ = best_.back().cost;
}

}  // namespace dbanon
