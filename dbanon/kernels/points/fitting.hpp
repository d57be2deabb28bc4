// Computes prices of records from a list of classes: a smoothed linear program that covers every
// record once.
//
// With prices y, class S is taken x(S) = exp((y(S) - SSE(S)) / smoothing) times. Iterative proportional
// fitting moves one price after the other so that its record is taken once:
//     y(i) -= smoothing * log(sum of x(S) over the classes S of i)
// Each step raises the dual of the program with an entropy as far as this price can (W. E. Deming and
// F. F. Stephan, "On a least squares adjustment of a sampled frequency table when the expected marginal
// totals are known", Annals of Mathematical Statistics 11 (1940)). Where all records are taken once, no
// x(S) is above 1: no listed class costs less than its prices. The smaller the smoothing, the nearer
// they are to the best prices, and the more sweeps it takes.
//
// The prices come without a guarantee: callers check for classes that cost less.
#pragma once

#include <vector>

#include "common/grid.hpp"
#include "common/kernel.hpp"

namespace dbanon {

class Fitting final : public Kernel {
   public:
    // `classes` (`count` of them, k records each) and `prices` are copied.
    Fitting(const Table& table, std::int32_t k, const std::int32_t* classes, std::size_t count,
            const double* prices, double smoothing, std::int64_t sweeps);

    const std::vector<double>& prices() const { return prices_; }
    // By class: the sum of its prices minus its SSE.
    const std::vector<double>& excess() const { return excess_; }

   protected:
    Coroutine run() override;
    double fraction_done() const override {
        return static_cast<double>(n_swept_) / (static_cast<double>(sweeps_) + 1.0);
    }

   private:
    void list_classes_by_record();
    void compute_excess(std::size_t c);
    void fit_price(std::int32_t id);

    const double smoothing_;
    const std::int64_t sweeps_;
    std::int64_t n_swept_ = 0;
    std::vector<double> prices_;
    Grid<std::int32_t> classes_;
    std::vector<double> excess_;
    std::vector<std::size_t> first_class_;    // by record: the start of its classes
    std::vector<std::int32_t> classes_of_record_;      // classes by record
};

}  // namespace dbanon
