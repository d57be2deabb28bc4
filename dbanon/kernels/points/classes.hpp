// Classes as they grow, for the methods in which leftover records join the class with the nearest mean.
#pragma once

#include <cstdint>
#include <vector>

#include "common/kernel.hpp"
#include "points/records.hpp"

namespace dbanon {

// Sums add the members one by one in the order in which they are taken.
class ClassMeans {
   public:
    explicit ClassMeans(const Table& table) : table_(table) {}

    void add(std::int32_t id, std::int32_t label) {
        const std::size_t p = table_.p;
        const std::size_t at = static_cast<std::size_t>(label) * p;
        if (at == values_.size()) {
            values_.resize(at + p, 0.0);
            count_.push_back(0);
        }
        const double* row = table_.row(id);
        for (std::size_t j = 0; j < p; ++j) values_[at + j] += row[j];
        ++count_[label];
    }

    // From sums to means; nothing may be added afterwards.
    void close() {
        const std::size_t p = table_.p;
        for (std::size_t i = 0; i < values_.size(); ++i) values_[i] /= count_[i / p];
    }

    void start() {
        next_ = 0;
        best_ = {-1.0, -1};
    }
    bool nearest(const double* point, Work& work) {
        const std::size_t p = table_.p;
        for (; next_ < count_.size(); ++next_) {
            if (work.spent()) return false;
            --work.left;
            double squared = 0.0;
            for (std::size_t j = 0; j < p; ++j) {
                const double gap = point[j] - values_[next_ * p + j];
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
    std::vector<double> values_;
    std::vector<std::int32_t> count_;
    std::size_t next_ = 0;
    Found best_{-1.0, -1};
};

// A kernel that takes records one after the other and leaves fewer than k for the end.
class TakingKernel : public Kernel {
   public:
    TakingKernel(const Table& table, std::int32_t k, Search search)
        : Kernel(table, k), records_(make_records(table, search)), means_(table) {}

   protected:
    void take(std::int32_t id, std::int32_t label) {
        assign(id, label);
        means_.add(id, label);
        records_->erase(id);
    }
    void take(NearQuery& q, std::int32_t label) {
        q.sort();
        for (std::int32_t i = 0; i < q.count; ++i) take(q.found[i].id, label);
    }

    // Leftover records join the class with the nearest mean, as the means were before.
    void begin_settling() {
        means_.close();
        means_.start();
        leftover_ = 0;
    }
    bool settle(Work& work) {
        for (; leftover_ < table_.n; ++leftover_) {
            if (assigned(leftover_)) {
                if (leftover_ % 1024 == 0) work.left -= 64;
                if (work.spent()) return false;
                continue;
            }
            if (!means_.nearest(table_.row(leftover_), work)) return false;
            assign(leftover_, means_.label());
            means_.start();
        }
        return true;
    }

    std::unique_ptr<Records> records_;
    ClassMeans means_;
    NearQuery near_;
    FarQuery far_;

   private:
    std::int32_t leftover_ = 0;
};

}  // namespace dbanon
