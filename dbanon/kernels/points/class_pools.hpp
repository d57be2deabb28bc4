// Classes of k to 2k - 1 records. Neighbouring classes are taken into a pool, rearranged and written
// back. Base class of the refinements.
#pragma once

#include <memory>
#include <vector>

#include "common/pair_distances.hpp"
#include "common/kernel.hpp"
#include "points/refine_pool.hpp"

namespace dbanon {

class ClassPools : public Kernel {
   protected:
    using Members = std::vector<std::int32_t>;

    // `labels` has no gaps, and every class has at least k records. pair_distances: null for
    // records with coordinates.
    ClassPools(const Table& table, std::int32_t k, const std::int32_t* labels,
               std::unique_ptr<PairDistances> pair_distances);

    // The maximum number of records in a pool: larger pools spread too far. Measured on the three
    // CASC tables, k = 3, 4, 5 and 10.
    std::int32_t max_pooled_records() const { return 2 * max_class_size_ > kMinPoolRecords ? 2 * max_class_size_ : kMinPoolRecords; }
    std::int32_t classes() const {
        return static_cast<std::int32_t>(size_.size() - free_class_ids_.size());
    }
    std::int32_t& class_of(std::int32_t id) { return class_of_[static_cast<std::size_t>(id)]; }
    std::int32_t& size(std::int32_t class_id) { return size_[static_cast<std::size_t>(class_id)]; }
    double& loss(std::int32_t class_id) { return loss_[static_cast<std::size_t>(class_id)]; }
    std::int32_t* members(std::int32_t class_id) { return members_.data() + std::int64_t{class_id} * max_class_size_; }
    // Sets up the classes from the labels; classes of 2k or more records are split.
    void add_classes();
    // Copies the classes pool_classes_ into the pool.
    void fill_pool();
    // Replaces the classes pool_classes_ by those of the pool.
    void write_back();
    // Assigns final labels.
    void number_classes();

    const std::int32_t max_class_size_;             // 2k - 1
    std::vector<std::int32_t> class_of_;  // [record]
    std::vector<std::int32_t> members_;   // [class][max_class_size]
    std::vector<std::int32_t> size_;      // [class], 0 when unused
    std::vector<double> loss_;            // [class], as last seen in a pool
    std::vector<std::int32_t> free_class_ids_;    // unused class ids
    std::vector<std::int32_t> pool_classes_;    // the classes in the pool
    std::vector<std::int32_t> pool_records_;    // the records in the pool
    Pool pool_;
    const std::unique_ptr<PairDistances> pair_distances_;

   private:
    static constexpr std::int32_t kMinPoolRecords = 96;

    void add_class(const Members& ids);
    Members split(Members& ids) const;
    Members split_by_distances(Members& ids) const;
};

}  // namespace dbanon
