// Searches for classes of k records that cost less than their prices, from given centres: fast, but
// not exhaustive.
//
// A class costs the squared distances to its mean, and more relative to any other centre. So the k
// records with the least d(centre, j) - price(j) are taken, their mean becomes the centre, and so
// on until the class stays the same. The reduced cost decreases with each iteration.
#pragma once

#include <vector>

#include "common/grid.hpp"
#include "common/kernel.hpp"
#include "points/weighted_tree.hpp"

namespace dbanon {

class Gathering final : public Kernel {
   public:
    // The arrays must outlive the kernel: `prices` of the records, `count` centres.
    Gathering(const Table& table, std::int32_t k, const double* prices, const double* centres,
              std::size_t n_centres, double threshold);

    // The classes below the threshold, k records each, ascending.
    const std::vector<std::int32_t>& classes() const { return classes_; }

   protected:
    Coroutine run() override;
    double fraction_done() const override {
        return static_cast<double>(n_gathered_) / (static_cast<double>(n_centres_) + 1.0);
    }

   private:
    void gather_class(const double* centre);
    double compute_reduced_cost();

    const double* prices_;
    const double* centres_;
    const std::size_t n_centres_;
    const double threshold_;
    std::size_t n_gathered_ = 0;
    WeightedTree tree_;
    std::vector<WeightedTree::Entry> nearest_;
    std::vector<std::int32_t> members_, previous_members_, classes_;
    std::vector<double> mean_;
};

}  // namespace dbanon
