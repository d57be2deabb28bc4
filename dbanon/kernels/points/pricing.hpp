// Finds the classes of k records that cost less than the sum of their records' prices: an exact
// search by branch and bound.
//
// A class S costs SSE(S), the squared distances of its pairs divided by k. Every record has a price
// y; the reduced cost of S is SSE(S) - sum of y over S. Where none is below 0, the prices are a lower
// bound of the loss of every partition into classes of k or more (see dbanon/bounds/certificate.py).
//
// Each class is searched from its member with the highest price, the seed, so the other k - 1 members
// are candidates with lower prices. With T the members chosen so far, and r members still missing,
// which are chosen among the candidates j,
//     reduced cost >= D(T)/k - y(T) + the r smallest of (d(T, j) + h_r(j))/k - y_j
// where D(T) is the sum of squared distances of the pairs in T, d(T, j) that of j to the members of T,
// and h_r(j) half the sum of the r - 1 smallest squared distances from j to other candidates: each
// pair of missing members is counted half from either end. Prices of smaller classes
// (`smaller_class_prices`), which no class of r records undercuts, usually give a better h. Pairs may
// have tolls, 0 or more, which a class pays if it holds both records: they are added to d.
//
// Rounding: all distances are sums of squares, so a bound differs from its exact value by a tiny
// share of its terms. lower_bounds() has that share (`slack_`) subtracted, so it is never too high.
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
    // The arrays must outlive the kernel. By record: `prices`, and `nearest_sums`, the sums of squared
    // distances to the k - 2 nearest records. `smaller_class_prices`, null or k - 2 rows of n values:
    // the squared distances within any r records add up to at least the sum of their values in row
    // r - 2. Finds classes whose reduced cost is below `threshold` (0 or less), for each seed at most
    // the `classes_per_seed` cheapest, within `max_steps` steps. Results do not depend on `search`.
    Pricing(const Table& table, std::int32_t k, const double* prices, const double* nearest_sums,
            const double* smaller_class_prices, double threshold, std::int32_t classes_per_seed, std::int64_t max_steps,
            const Tolls& tolls, Search search);

    // By seed: a lower bound of the reduced costs of its classes, at most 0; also valid if a search
    // reached `max_steps`.
    const std::vector<double>& lower_bounds() const { return lower_bounds_; }
    // The resulting classes, k records each.
    const std::vector<std::int32_t>& classes() const { return priced_classes_; }

   protected:
    Coroutine run() override;

   private:
    // A candidate that may extend the class that is being built.
    struct Extension {
        double bound;   // (d(T, j) + h(j))/k - y_j
        double distance_sum;  // d(T, j)
        std::int32_t index;  // in candidates_
    };
    struct Class {
        double cost;
        std::vector<std::int32_t> members;  // candidates
    };

    struct Toll {
        std::int32_t other;
        double distance;  // k times the toll, to be added to squared distances
    };

    void list_tolls(const Tolls& tolls);
    std::span<const Toll> tolls_of(std::int32_t id) const {
        const std::size_t* first = first_toll_.data() + id;
        return {tolls_.data() + first[0], first[1] - first[0]};
    }
    void search_from_seed(std::size_t position);
    void list_candidates(std::size_t position);
    bool filter_candidates(std::int32_t seed);
    void compute_pair_distances();
    void add_tolls();
    void tighten_halves();
    void choose_remaining(std::int32_t missing, double base);
    void choose_last_two(const std::vector<Extension>& extensions, double base);
    void keep_class(double cost);
    double price(std::int32_t candidate) const {
        return prices_[candidates_[candidate]];
    }
    double* row(std::int32_t candidate) { return distances_.row(candidate); }
    double* half_sums(std::int32_t missing) { return half_sums_.row(missing); }
    double least_sum(std::vector<double>& values, std::int32_t count) const;

    const double* prices_;
    const double* smaller_class_prices_;
    std::vector<double> weights_;  // by record: half of the least distance sum within a class, minus its price
    const double threshold_;
    const std::int32_t classes_per_seed_;
    const std::int64_t max_steps_;
    double slack_ = 0.0;
    std::vector<std::int32_t> by_price_;  // records by descending price
    std::unique_ptr<WeightedTree> tree_;
    std::vector<WeightedTree::Entry> nearest_;
    std::vector<Toll> tolls_;          // concatenated for all records
    std::vector<std::size_t> first_toll_;  // by record
    std::vector<double> lower_bounds_;
    std::vector<std::int32_t> priced_classes_;

    // For the current seed.
    std::vector<std::int32_t> candidates_;  // records
    std::vector<std::int32_t> chosen_;      // indices in candidates_
    std::vector<double> to_seed_;        // by record: squared distance
    std::vector<std::int32_t> candidate_of_;    // by record: its index in candidates_, or -1
    Grid<double> distances_;                 // between candidates
    Grid<double> half_sums_;                // by number of missing members, by candidate
    std::vector<double> scratch_;
    std::vector<std::vector<Extension>> extensions_by_missing_;  // by number of missing members
    std::vector<Class> best_classes_;
    double cost_limit_ = 0.0;   // only lower costs are useful
    double skipped_bound_ = 0.0;  // the smallest bound of the skipped branches
    std::int64_t steps_ = 0;
    std::int64_t listing_steps_ = 0;  // the steps of listing candidates
};

}  // namespace dbanon
