// Record linkage: of every question the nearest of a set of points, with all that tie with it.
//
// Distances tie when their squares differ by a factor of at most kTie: centroids of classes lie
// equally far from several records by construction, but for rounding.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel.hpp"

namespace dbanon {

class Linkage final : public Kernel {
   public:
    static constexpr double kTie = 1.0 + 1e-9;

    // What these point to must outlive the kernel. `own`: a point of each question, or null; what
    // lies beyond it is not looked at. `weights`: one for each point, or null for ones. `second`:
    // also find the smallest distance beyond the ties.
    Linkage(const Table& questions, const Table& points, const std::int32_t* own,
            const std::int64_t* weights, bool second, Search search)
        : Kernel(questions, 1),
          points_(points),
          own_(own),
          weights_(weights),
          second_(second),
          records_(make_records(points, search, questions.n)),
          nearest_(static_cast<std::size_t>(questions.n)),
          next_(second ? nearest_.size() : 0),
          mine_(own ? nearest_.size() : 0),
          weight_(nearest_.size()) {}

    // By question. The label is the nearest point, of several at the very same distance the first.
    const std::vector<double>& nearest() const { return nearest_; }        // squared
    const std::vector<double>& next() const { return next_; }              // squared; or nearest()
    const std::vector<double>& own() const { return mine_; }               // squared
    const std::vector<std::int64_t>& weight() const { return weight_; }    // of all nearest points

   protected:
    Steps run() override;

   private:
    double to_own(std::int32_t id) const;
    bool complete() const;
    void answer(std::int32_t id);

    const Table points_;
    const std::int32_t* own_;
    const std::int64_t* weights_;
    const bool second_;
    std::unique_ptr<Records> records_;
    NearQuery near_;
    double limit_ = 0.0;
    std::vector<double> nearest_, next_, mine_;
    std::vector<std::int64_t> weight_;
};

}  // namespace dbanon
