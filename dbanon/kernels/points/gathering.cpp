#include "points/gathering.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dbanon {

namespace {

constexpr int kTurns = 6;

}  // namespace

Gathering::Gathering(const Table& table, std::int32_t k, const double* prices,
                     const double* centres, std::size_t count, double threshold)
    : Kernel(table, k),
      prices_(prices),
      centres_(centres),
      count_(count),
      threshold_(threshold),
      tree_(table),
      mean_(table.p) {}

Coroutine Gathering::run() {
    while (!tree_.build(work_)) co_yield nullptr;
    std::vector<double> weights(table_.n);
    for (std::int32_t id = 0; id < table_.n; ++id) weights[id] = -prices_[id];
    tree_.weigh(weights, std::vector<std::int32_t>(table_.n, 0));
    for (; done_ < count_; ++done_) {
        gather(centres_ + done_ * static_cast<std::size_t>(table_.p));
        if (work_.is_spent()) co_yield nullptr;
    }
}

void Gathering::gather(const double* centre) {
    std::copy_n(centre, table_.p, mean_.begin());
    before_.clear();
    for (int turn = 0; turn < kTurns; ++turn) {
        // The records of the last iteration are k near ones.
        double limit = std::numeric_limits<double>::infinity();
        if (turn > 0) {
            limit = -limit;
            for (const std::int32_t id : before_) {
                limit = std::max(limit, tree_.value(mean_.data(), 1.0, id));
            }
            limit = std::nextafter(limit, std::numeric_limits<double>::infinity());
        }
        work_.left -= tree_.least(mean_.data(), 1.0, -1, limit, k_, nearest_);
        members_.clear();
        for (const WeightedTree::Found& member : nearest_) members_.push_back(member.id);
        std::sort(members_.begin(), members_.end());
        if (members_ == before_) break;
        before_ = members_;
        for (int j = 0; j < table_.p; ++j) {
            double sum = 0.0;
            for (const std::int32_t id : members_) sum += table_.row(id)[j];
            mean_[j] = sum / k_;
        }
    }
    if (cost() < threshold_) classes_.insert(classes_.end(), before_.begin(), before_.end());
}

// For the class about the mean.
double Gathering::cost() {
    double sum = 0.0;
    for (const std::int32_t id : before_) {
        for (int j = 0; j < table_.p; ++j) {
            const double gap = table_.row(id)[j] - mean_[j];
            sum += gap * gap;
        }
        sum -= prices_[id];
    }
    return sum;
}

}  // namespace dbanon
