#include "points/fitting.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dbanon {

namespace {

// exp(-kNothing) is negligible relative to 1 in the multiplicity of a class.
constexpr double kNegligibleExponent = 25.0;

}  // namespace

Fitting::Fitting(const Table& table, std::int32_t k, const std::int32_t* classes, std::size_t count,
                 const double* prices, double smoothing, std::int64_t sweeps)
    : Kernel(table, k),
      smoothing_(smoothing),
      sweeps_(sweeps),
      prices_(prices, prices + table.n),
      classes_(count, static_cast<std::size_t>(k)),
      excess_(count) {
    if (count) std::copy_n(classes, count * classes_.width(), classes_.row(0));
}

Coroutine Fitting::run() {
    for (std::size_t c = 0; c < excess_.size(); ++c) {
        compute_excess(c);
        work_.left -= k_;
        if (work_.is_spent()) co_yield nullptr;
    }
    list_classes_by_record();
    for (; n_swept_ < sweeps_; ++n_swept_) {
        for (std::int32_t id = 0; id < table_.n; ++id) {
            fit_price(id);
            work_.left -= 1 + static_cast<std::int64_t>(first_class_[id + 1] - first_class_[id]);
            if (work_.is_spent()) co_yield nullptr;
        }
    }
}

void Fitting::list_classes_by_record() {
    const std::vector<std::int32_t>& members = classes_.values();
    first_class_.assign(prices_.size() + 1, 0);
    for (const std::int32_t id : members) ++first_class_[static_cast<std::size_t>(id) + 1];
    std::partial_sum(first_class_.begin(), first_class_.end(), first_class_.begin());
    classes_of_record_.resize(members.size());
    std::vector<std::size_t> next(first_class_.begin(), first_class_.end() - 1);
    for (std::size_t i = 0; i < members.size(); ++i) {
        classes_of_record_[next[members[i]]++] = static_cast<std::int32_t>(i / classes_.width());
    }
}

void Fitting::compute_excess(std::size_t c) {
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
void Fitting::fit_price(std::int32_t id) {
    const std::size_t begin = first_class_[id], end = first_class_[id + 1];
    if (begin == end) return;
    double max_excess = -std::numeric_limits<double>::infinity();
    for (std::size_t i = begin; i < end; ++i) max_excess = std::max(max_excess, excess_[classes_of_record_[i]]);
    double sum = 0.0;
    const double floor = max_excess - kNegligibleExponent * smoothing_;
    for (std::size_t i = begin; i < end; ++i) {
        const double excess = excess_[classes_of_record_[i]];
        if (excess > floor) sum += std::exp((excess - max_excess) / smoothing_);
    }
    const double price = std::max(0.0, prices_[id] - (max_excess + smoothing_ * std::log(sum)));
    const double change = price - prices_[id];
    prices_[id] = price;
    for (std::size_t i = begin; i < end; ++i) excess_[classes_of_record_[i]] += change;
}

}  // namespace dbanon
