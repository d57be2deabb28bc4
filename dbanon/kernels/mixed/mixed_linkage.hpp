// Record linkage of mixed tables: for each query the nearest boxes, including ties, by the sum in
// EM4ADOM's eq. (11).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/kernel.hpp"
#include "mixed/box_tree.hpp"

namespace dbanon {

class MixedLinkage final : public Kernel {
   public:
    // Distances tie when they differ by this factor at most.
    static constexpr double kTie = 1.0 + 1e-9;

    // The arrays must outlive the kernel. In each tree, either all queries or all boxes are leaves.
    // `limits`: per query an expected bound of its distance, or null; it affects speed, never the
    // result. `weights`: one per box, or null for ones. `second`: also find the smallest distance
    // beyond the ties.
    MixedLinkage(std::vector<BoxColumn> columns, const Boxes& queries, const Boxes& boxes,
                 const double* limits, const std::int64_t* weights, bool find_second)
        : Kernel({nullptr, queries.n, 0}, 1),
          columns_(std::move(columns)),
          queries_(queries),
          limits_(limits),
          finds_second_(find_second),
          tree_(columns_, boxes, weights),
          nearest_(static_cast<std::size_t>(queries.n)),
          second_nearest_(find_second ? nearest_.size() : 0),
          tied_weight_(nearest_.size()) {}

    // By query.
    const std::vector<double>& nearest() const { return nearest_; }
    const std::vector<double>& second_nearest() const { return second_nearest_; }            // or nearest()
    const std::vector<std::int64_t>& tied_weight() const { return tied_weight_; }  // of all nearest boxes

   protected:
    Coroutine run() override;

   private:
    void search(std::int32_t id, double limit);
    double add(double distance, std::int64_t weight);
    bool is_complete(double limit) const;
    void write_answer(std::int32_t id);
    bool repeats_previous_query(std::int32_t id) const;
    // The first distance beyond the ties, or the end.
    std::size_t first_beyond_ties() const;

    const std::vector<BoxColumn> columns_;
    const Boxes queries_;
    const double* limits_;
    const bool finds_second_;
    BoxTree tree_;
    // The smallest distances so far, ascending, with their weights; none beyond the requested one.
    std::vector<std::pair<double, std::int64_t>> smallest_;
    double search_limit_ = 0.0;
    std::vector<double> nearest_, second_nearest_;
    std::vector<std::int64_t> tied_weight_;
};

}  // namespace dbanon
