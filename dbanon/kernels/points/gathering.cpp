#include "points/gathering.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dbanon {

namespace {

constexpr int kMaxIterations = 6;

}  // namespace

Gathering::Gathering(const Table& table, std::int32_t k, const double* prices,
                     const double* centres, std::size_t n_centres, double threshold)
    : Kernel(table, k),
      prices_(prices),
      centres_(centres),
      n_centres_(n_centres),
      threshold_(threshold),
      tree_(table),
      mean_(table.p) {}

Coroutine Gathering::run() {
    while (!tree_.build(work_)) co_yield nullptr;
    std::vector<double> weights(table_.n);
    for (std::int32_t id = 0; id < table_.n; ++id) weights[id] = -prices_[id];
    tree_.set_weights(weights, std::vector<std::int32_t>(table_.n, 0));
    for (; n_gathered_ < n_centres_; ++n_gathered_) {
        gather_class(centres_ + n_gathered_ * static_cast<std::size_t>(table_.p));
        if (work_.is_spent()) co_yield nullptr;
    }
}

void Gathering::gather_class(const double* centre) {
    std::copy_n(centre, table_.p, mean_.begin());
    previous_members_.clear();
    for (int iteration = 0; iteration < kMaxIterations; ++iteration) {
        // The records of the last iteration are k near ones.
        double limit = std::numeric_limits<double>::infinity();
        if (iteration > 0) {
            limit = -limit;
            for (const std::int32_t id : previous_members_) {
                limit = std::max(limit, tree_.value(mean_.data(), 1.0, id));
            }
            limit = std::nextafter(limit, std::numeric_limits<double>::infinity());
        }
        work_.left -= tree_.find_least(mean_.data(), 1.0, -1, limit, k_, nearest_);
        members_.clear();
        for (const WeightedTree::Entry& member : nearest_) members_.push_back(member.id);
        std::sort(members_.begin(), members_.end());
        if (members_ == previous_members_) break;
        previous_members_ = members_;
        for (int j = 0; j < table_.p; ++j) {
            double sum = 0.0;
            for (const std::int32_t id : members_) sum += table_.row(id)[j];
            mean_[j] = sum / k_;
        }
    }
    if (compute_reduced_cost() < threshold_) classes_.insert(classes_.end(), previous_members_.begin(), previous_members_.end());
}

// For the class about the mean.
double Gathering::compute_reduced_cost() {
    double sum = 0.0;
    for (const std::int32_t id : previous_members_) {
        for (int j = 0; j < table_.p; ++j) {
            const double gap = table_.row(id)[j] - mean_[j];
            sum += gap * gap;
        }
        sum -= prices_[id];
    }
    return sum;
}

}  // namespace dbanon
