#include "points/fitting.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dbanon {

namespace {

// exp(-kNothing) is negligible relative to 1 in the multiplicity of a class.
constexpr double kNothing = 25.0;

}  // namespace

Fitting::Fitting(const Table& table, std::int32_t k, const std::int32_t* classes, std::size_t count,
                 const double* prices, double spread, std::int64_t sweeps)
    : Kernel(table, k),
      spread_(spread),
      sweeps_(sweeps),
      prices_(prices, prices + table.n),
      classes_(count, static_cast<std::size_t>(k)),
      excess_(count) {
    if (count) std::copy_n(classes, count * classes_.width(), classes_.row(0));
}

Coroutine Fitting::run() {
    for (std::size_t c = 0; c < excess_.size(); ++c) {
        measure(c);
        work_.left -= k_;
        if (work_.is_spent()) co_yield nullptr;
    }
    list();
    for (; swept_ < sweeps_; ++swept_) {
        for (std::int32_t id = 0; id < table_.n; ++id) {
            fit(id);
            work_.left -= 1 + static_cast<std::int64_t>(first_[id + 1] - first_[id]);
            if (work_.is_spent()) co_yield nullptr;
        }
    }
}

void Fitting::list() {
    const std::vector<std::int32_t>& members = classes_.values();
    first_.assign(prices_.size() + 1, 0);
    for (const std::int32_t id : members) ++first_[static_cast<std::size_t>(id) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    of_.resize(members.size());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t i = 0; i < members.size(); ++i) {
        of_[next[members[i]]++] = static_cast<std::int32_t>(i / classes_.width());
    }
}

void Fitting::measure(std::size_t c) {
    const std::int32_t* members = classes_.row(c);
    double cost = 0.0;
    for (int j = 0; j < table_.p; ++j) {
        double mean = 0.0;
        for (std::int32_t i = 0; i < k_; ++i) mean += table_.row(members[i])[j];
        mean /= k_;
        for (std::int32_t i = 0; i < k_; ++i) {
            const double gap = table_.row(members[i])[j] - mean;
            cost += gap * gap;
        }
    }
    double sum = 0.0;
    for (std::int32_t i = 0; i < k_; ++i) sum += prices_[members[i]];
    excess_[c] = sum - cost;
}

// Takes the record once, or more often if its price is 0.
void Fitting::fit(std::int32_t id) {
    const std::size_t begin = first_[id], end = first_[id + 1];
    if (begin == end) return;
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = begin; i < end; ++i) most = std::max(most, excess_[of_[i]]);
    double sum = 0.0;
    const double floor = most - kNothing * spread_;
    for (std::size_t i = begin; i < end; ++i) {
        const double excess = excess_[of_[i]];
        if (excess > floor) sum += std::exp((excess - most) / spread_);
    }
    const double price = std::max(0.0, prices_[id] - (most + spread_ * std::log(sum)));
    const double change = price - prices_[id];
    prices_[id] = price;
    for (std::size_t i = begin; i < end; ++i) excess_[of_[i]] += change;
}

}  // namespace dbanon
