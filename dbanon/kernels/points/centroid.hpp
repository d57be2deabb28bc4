// The running centroid of the remaining records. The update rule is fixed, so that the reference in
// tests/reference/methods.py gets the same bits.
//
// - The sum of each attribute is stored, and divided by the number of records on demand.
// - The sum starts at zero and adds the remaining records in index order ("refresh") at the start of
//   round 0, of every round whose number is a power of two, and of every round in which at most 7/8
//   of the records of the last refresh are left.
// - In between, the members of a class are subtracted one by one in the order in which they were
//   taken: the record the class was built around, then its neighbours by (distance, index).
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

    // `labels` is negative for remaining records.
    void begin_round(std::int64_t round, std::int32_t remaining) {
        remaining_ = remaining;
        const bool power = (round & (round - 1)) == 0;
        if (!power && 8 * std::int64_t{remaining} > 7 * std::int64_t{last_}) {
            next_ = -1;
            return;
        }
        last_ = remaining;
        next_ = 0;
        stored_ = 0;
        if (order_.empty()) {
            order_.resize(table_.n);
            for (std::int32_t i = 0; i < table_.n; ++i) order_[i] = i;
        }
        sum_.assign(width(), 0.0);
    }

    bool update(const std::vector<std::int32_t>& labels, Work& work) {
        if (next_ >= 0) {
            const std::int32_t size = static_cast<std::int32_t>(order_.size());
            while (next_ < size) {
                if (work.is_spent()) return false;
                const std::int32_t stop = std::min(next_ + 1024, size);
                work.left -= (stop - next_) / block_size(table_.p) * block_cost(table_.p) + 1;
                const std::int32_t from = stored_;
                for (; next_ < stop; ++next_) {
                    const std::int32_t id = order_[next_];
                    order_[stored_] = id;
                    stored_ += labels[id] < 0 ? 1 : 0;
                }
                std::size_t j = 0;
                for (; j + 4 <= width(); j += 4) add<4>(j, from);
                for (; j < width(); ++j) add<1>(j, from);
            }
            order_.resize(stored_);
            next_ = -1;
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
    // Add the stored records from this index on, for a few attributes, so that sums stay in
    // registers.
    template <int Some>
    void add(std::size_t j, std::int32_t from) {
        double sum[Some];
        std::copy_n(&sum_[j], Some, sum);
        for (; from < stored_; ++from) {
            const double* row = table_.row(order_[from]) + j;
            for (int i = 0; i < Some; ++i) sum[i] += row[i];
        }
        std::copy_n(sum, Some, &sum_[j]);
    }

    std::size_t width() const { return static_cast<std::size_t>(table_.p); }

    Table table_;
    std::vector<double> sum_, mean_;
    std::vector<std::int32_t> order_;  // the records at the last refresh, by index
    std::int32_t remaining_ = 0, last_ = 0, next_ = -1, stored_ = 0;
};

}  // namespace dbanon
