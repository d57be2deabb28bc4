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
    MixedLinkage(std::vector<BoxColumn> columns, const Boxes& questions, const Boxes& boxes,
                 const double* limits, const std::int64_t* weights, bool second)
        : Kernel({nullptr, questions.n, 0}, 1),
          columns_(std::move(columns)),
          questions_(questions),
          limits_(limits),
          second_(second),
          tree_(columns_, boxes, weights),
          nearest_(static_cast<std::size_t>(questions.n)),
          next_(second ? nearest_.size() : 0),
          weight_(nearest_.size()) {}

    // By query.
    const std::vector<double>& nearest() const { return nearest_; }
    const std::vector<double>& next() const { return next_; }            // or nearest()
    const std::vector<std::int64_t>& weight() const { return weight_; }  // of all nearest boxes

   protected:
    Coroutine run() override;

   private:
    void search(std::int32_t id, double limit);
    double add(double distance, std::int64_t weight);
    bool complete(double limit) const;
    void answer(std::int32_t id);
    bool repeats(std::int32_t id) const;
    // The first distance beyond the ties, or the end.
    std::size_t beyond() const;

    const std::vector<BoxColumn> columns_;
    const Boxes questions_;
    const double* limits_;
    const bool second_;
    BoxTree tree_;
    // The smallest distances so far, ascending, with their weights; none beyond the requested one.
    std::vector<std::pair<double, std::int64_t>> smallest_;
    double limit_ = 0.0;
    std::vector<double> nearest_, next_;
    std::vector<std::int64_t> weight_;
};

}  // namespace dbanon
