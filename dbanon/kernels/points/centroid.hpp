// The running centroid of the remaining records. The update rule is fixed, so that the reference
// implementation in tests/reference/methods.py gets bit-identical results.
//
// - The sum of each attribute is stored, and divided by the number of records on demand.
// - The sum starts at zero and adds the remaining records in index order ("refresh") at the start of
//   round 0, of every round whose number is a power of two, and of every round in which at most 7/8
//   of the records of the last refresh are left.
// - In between, the members of a class are subtracted one by one in the order in which they were
//   assigned: the record the class was built around, then its neighbours by (distance, index).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "points/records.hpp"

namespace dbanon {

class RunningCentroid {
   public:
    explicit RunningCentroid(const Table& table)
        : table_(table), sum_(width()), mean_(width()) {}

    // Starts a round, numbered from 0, with this number of remaining records.
    void begin_round(std::int64_t round, std::int32_t remaining) {
        remaining_ = remaining;
        const bool is_power_of_two = (round & (round - 1)) == 0;
        if (!is_power_of_two && 8 * std::int64_t{remaining} > 7 * std::int64_t{n_at_refresh_}) {
            next_candidate_ = -1;
            return;
        }
        n_at_refresh_ = remaining;
        next_candidate_ = 0;
        n_summed_ = 0;
        if (candidates_.empty()) {
            candidates_.resize(table_.n);
            for (std::int32_t i = 0; i < table_.n; ++i) candidates_[i] = i;
        }
        sum_.assign(width(), 0.0);
    }

    // Computes the mean, resumably: false if the slice is spent. `labels` is negative for remaining
    // records.
    bool update(const std::vector<std::int32_t>& labels, Work& work) {
        if (next_candidate_ >= 0) {
            const std::int32_t size = static_cast<std::int32_t>(candidates_.size());
            while (next_candidate_ < size) {
                if (work.is_spent()) return false;
                const std::int32_t stop = std::min(next_candidate_ + 1024, size);
                work.left -= (stop - next_candidate_) / block_records(table_.p) * block_cost(table_.p) + 1;
                const std::int32_t from = n_summed_;
                for (; next_candidate_ < stop; ++next_candidate_) {
                    const std::int32_t id = candidates_[next_candidate_];
                    candidates_[n_summed_] = id;
                    n_summed_ += labels[id] < 0 ? 1 : 0;
                }
                std::size_t j = 0;
                for (; j + 4 <= width(); j += 4) add<4>(j, from);
                for (; j < width(); ++j) add<1>(j, from);
            }
            candidates_.resize(n_summed_);
            next_candidate_ = -1;
        }
        for (std::size_t j = 0; j < width(); ++j) mean_[j] = sum_[j] / remaining_;
        return true;
    }

    void subtract(std::int32_t id) {
        const double* row = table_.row(id);
        for (std::size_t j = 0; j < width(); ++j) sum_[j] -= row[j];
    }

    const double* mean() const { return mean_.data(); }

   private:
    // Adds the records candidates_[from..n_summed_) to the sums of `Width` attributes from j on; so
    // few that their sums stay in registers.
    template <int Width>
    void add(std::size_t j, std::int32_t from) {
        double sum[Width];
        std::copy_n(&sum_[j], Width, sum);
        for (; from < n_summed_; ++from) {
            const double* row = table_.row(candidates_[from]) + j;
            for (int i = 0; i < Width; ++i) sum[i] += row[i];
        }
        std::copy_n(sum, Width, &sum_[j]);
    }

    std::size_t width() const { return static_cast<std::size_t>(table_.p); }

    Table table_;
    std::vector<double> sum_, mean_;
    std::vector<std::int32_t> candidates_;  // the records at the last refresh, by index
    std::int32_t remaining_ = 0, n_at_refresh_ = 0;
    std::int32_t next_candidate_ = -1;  // of a refresh that is under way; otherwise -1
    std::int32_t n_summed_ = 0;         // candidates that remain and are in the sum
};

}  // namespace dbanon
