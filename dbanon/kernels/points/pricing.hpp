// Which classes of k records cost less than their prices: exact, by branch and bound.
//
// A class S costs SSE(S), the squared distances of its pairs divided by k. Every record has a price
// y; the reduced cost of S is SSE(S) - sum of y over S. Where none is below 0, the prices are a lower
// bound of the loss of every partition into classes of k or more (see dbanon/bounds/certificate.py).
//
// Each class is looked for from its member of the highest price, the seed; the other k - 1 are then
// candidates of lower prices. With r members still to come of candidates j, T being those chosen,
//     reduced cost >= D(T)/k - y(T) + the r smallest of (d(T, j) + h_r(j))/k - y_j
// where D are pairs inside T, d(T, j) those of j with T, and h_r(j) half the r - 1 smallest squared
// distances of j among the candidates: every pair to come is counted by halves, and no more. Prices
// that no class of r records costs less than (`inner`, r times them) are mostly the better h. Some
// pairs may have tolls, 0 or more, which a class pays that holds both: they are added to d.
//
// Rounding: all distances are sums of squares, so that a bound differs from its exact value by a tiny
// share of its terms. What least() says has that share taken off, `slack_`, and is never too high.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "common/grid.hpp"
#include "common/kernel.hpp"
#include "points/records.hpp"
#include "points/weighted_tree.hpp"

namespace dbanon {

// The toll of classes that hold both records of a pair; repeated pairs are charged repeatedly.
struct Tolls {
    const std::int32_t* pairs;  // two records each
    const double* tolls;        // 0 or more
    std::size_t count;
};

class Pricing final : public Kernel {
   public:
    // The arrays must outlive the kernel. Per record: `prices`, and `bars`, the sums of squared
    // distances to the k - 2 nearest records. `inner`, null or k - 2 rows: the squared distances
    // within any r records add up to at least the sum of their values in row r - 2. Finds classes
    // below `threshold` (0 or less), the `classes_per_seed` best of each seed; `effort` limits the
    // steps per seed. The result does not depend on `search`.
    Pricing(const Table& table, std::int32_t k, const double* prices, const double* bars,
            const double* inner, double threshold, std::int32_t classes_per_seed, std::int64_t effort,
            const Tolls& tolls, Search search);

    // By seed: a lower bound of the reduced costs of its classes, at most 0; also valid if effort
    // ended a search.
    const std::vector<double>& least() const { return least_; }
    // The resulting classes, k records each.
    const std::vector<std::int32_t>& classes() const { return classes_; }

   protected:
    Coroutine run() override;

   private:
    struct Option {
        double bound;   // (d(T, j) + h(j))/k - y_j
        double together;  // d(T, j)
        std::int32_t candidate;
    };
    struct Class {
        double cost;
        std::vector<std::int32_t> members;  // candidates
    };

    struct Toll {
        std::int32_t other;
        double distance;  // k times the toll, as it counts among distances
    };

    void list_tolls(const Tolls& tolls);
    std::span<const Toll> tolls_of(std::int32_t id) const {
        const std::size_t* first = first_toll_.data() + id;
        return {tolls_.data() + first[0], first[1] - first[0]};
    }
    void look_from(std::size_t position);
    void list_candidates(std::size_t position);
    bool narrow(std::int32_t seed);
    void measure();
    void add_tolls();
    void choose_inner();
    void branch(std::int32_t missing, double base);
    void pair(const std::vector<Option>& options, double base);
    void keep(double cost);
    double price(std::int32_t candidate) const {
        return prices_[candidates_[candidate]];
    }
    double* row(std::int32_t candidate) { return apart_.row(candidate); }
    double* halves(std::int32_t missing) { return halves_.row(missing); }
    double least_sum(std::vector<double>& of, std::int32_t count) const;

    const double* prices_;
    const double* inner_;
    std::vector<double> weights_;  // by record: half of the least inner distance, minus its price
    const double threshold_;
    const std::int32_t classes_per_seed_;
    const std::int64_t effort_;
    double slack_ = 0.0;
    std::vector<std::int32_t> order_;  // by falling price
    std::unique_ptr<WeightedTree> tree_;
    std::vector<WeightedTree::Found> nearest_;
    std::vector<Toll> tolls_;          // concatenated for all records
    std::vector<std::size_t> first_toll_;  // by record
    std::vector<double> least_;
    std::vector<std::int32_t> classes_;

    // For the current seed.
    std::vector<std::int32_t> candidates_, chosen_;
    std::vector<double> to_seed_;        // by record
    std::vector<std::int32_t> candidate_of_;    // by record: its candidate, or -1
    Grid<double> apart_;                 // between candidates
    Grid<double> halves_;                // by number of missing members, by candidate
    std::vector<double> some_;
    std::vector<std::vector<Option>> options_;  // by number of missing members
    std::vector<Class> best_;
    double bar_ = 0.0;   // only lower costs are useful
    double open_ = 0.0;  // the least bound of skipped branches
    std::int64_t steps_ = 0;
    std::int64_t listed_ = 0;  // the steps of listing candidates
};

}  // namespace dbanon
