// Record linkage: for every query the nearest points, including ties.
//
// Distances tie if their squares differ by a factor of at most kTie, because centroids are equally
// far from several records by construction, up to rounding.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/kernel.hpp"
#include "points/records.hpp"

namespace dbanon {

class Linkage final : public Kernel {
   public:
    static constexpr double kTie = 1.0 + 1e-9;

    // The arrays must outlive the kernel. `limits`: for each query a squared distance within which
    // its answer is expected, or null: a guess affects the time, never the result. `weights`: one
    // for each point, or null for ones. `second`: also find the smallest distance beyond the ties.
    Linkage(const Table& queries, const Table& points, const double* limits,
            const std::int64_t* weights, bool find_second, Search search)
        : Kernel(queries, 1),
          points_(points),
          limits_(limits),
          weights_(weights),
          finds_second_(find_second),
          records_(make_records(points, search, queries.n)),
          nearest_(queries.n),
          second_(find_second ? nearest_.size() : 0),
          tied_weight_(nearest_.size()) {}

    // By query. The label is the nearest point, in an exact tie the first one.
    const std::vector<double>& nearest() const { return nearest_; }        // squared
    const std::vector<double>& second_nearest() const { return second_; }              // squared; nearest() if there is none
    const std::vector<std::int64_t>& tied_weight() const { return tied_weight_; }    // of all nearest points

   protected:
    Coroutine run() override;

   private:
    enum class SearchOutcome { all_ties, more_ties_possible, beyond_limit };
    SearchOutcome judge_search();
    void write_answer(std::int32_t id);

    const Table points_;
    const double* limits_;
    const std::int64_t* weights_;
    const bool finds_second_;
    std::unique_ptr<Records> records_;
    NearQuery near_;
    double search_limit_ = 0.0;  // limit of the current search
    double tie_limit_ = 0.0;    // limit for ties
    std::vector<double> nearest_, second_;
    std::vector<std::int64_t> tied_weight_;
};

}  // namespace dbanon
