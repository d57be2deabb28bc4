// Class means, for methods that assign leftover records to the class with the nearest mean.
#pragma once

#include <cstdint>
#include <vector>

#include "common/grid.hpp"
#include "common/kernel.hpp"
#include "points/records.hpp"

namespace dbanon {

// The means of classes. Members are added to the sums one by one, in the order of assignment.
class ClassMeans {
   public:
    explicit ClassMeans(const Table& table) : table_(table), values_(table.p) {}

    void add(std::int32_t id, std::int32_t label) {
        if (static_cast<std::size_t>(label) == count_.size()) {
            count_.push_back(0);
            values_.resize(count_.size());
        }
        const double* row = table_.row(id);
        double* sum = values_.row(label);
        for (int j = 0; j < table_.p; ++j) sum[j] += row[j];
        ++count_[label];
    }

    // Turns sums into means; nothing may be added afterwards.
    void close() {
        for (std::size_t c = 0; c < count_.size(); ++c) {
            for (int j = 0; j < table_.p; ++j) values_.row(c)[j] /= count_[c];
        }
    }
    // Starts a search for the nearest mean: nearest() continues it, label() is its result.
    void start() {
        next_ = 0;
        best_ = {-1.0, -1};
    }
    bool nearest(const double* point, Work& work) {
        for (; next_ < count_.size(); ++next_) {
            if (work.is_spent()) return false;
            --work.left;
            const double* mean = values_.row(next_);
            double squared = 0.0;
            for (int j = 0; j < table_.p; ++j) {
                const double gap = point[j] - mean[j];
                squared += gap * gap;
            }
            if (best_.id < 0 || squared < best_.distance) {
                best_ = {squared, static_cast<std::int32_t>(next_)};
            }
        }
        return true;
    }
    std::int32_t label() const { return best_.id; }

   private:
    Table table_;
    Grid<double> values_;  // sums, then means, by class
    std::vector<std::int32_t> count_;
    std::size_t next_ = 0;
    RecordDistance best_{-1.0, -1};
};

// A kernel that assigns records one after the other and leaves fewer than k at the end.
class SequentialKernel : public Kernel {
   public:
    SequentialKernel(const Table& table, std::int32_t k, Search search)
        : Kernel(table, k), records_(make_records(table, search)), means_(table) {}

   protected:
    void take(std::int32_t id, std::int32_t label) {
        assign(id, label);
        means_.add(id, label);
        records_->erase(id);
    }
    void take(NearQuery& q, std::int32_t label) {
        q.sort();
        for (std::int32_t i = 0; i < q.count; ++i) take(q.results[i].id, label);
    }

    // Assigns leftover records to the class with the nearest mean; the means do not include any
    // leftover record.
    void begin_leftovers() {
        means_.close();
        means_.start();
        next_leftover_ = 0;
    }
    bool assign_leftovers(Work& work) {
        for (; next_leftover_ < table_.n; ++next_leftover_) {
            if (is_assigned(next_leftover_)) {
                if (next_leftover_ % 1024 == 0) work.left -= 64;
                if (work.is_spent()) return false;
                continue;
            }
            if (!means_.nearest(table_.row(next_leftover_), work)) return false;
            assign(next_leftover_, means_.label());
            means_.start();
        }
        return true;
    }

    std::unique_ptr<Records> records_;
    ClassMeans means_;
    NearQuery near_;
    FarQuery far_;

   private:
    std::int32_t next_leftover_ = 0;
};

}  // namespace dbanon
