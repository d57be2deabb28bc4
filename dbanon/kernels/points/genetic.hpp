// Microaggregation by a genetic algorithm (Solanas et al. 2006), for small sets.
#pragma once

#include "common/grid.hpp"
#include "common/kernel.hpp"
#include "points/records.hpp"
#include "points/refine_pool.hpp"

namespace dbanon {

class Genetic final : public Kernel {
   public:
    struct Settings {
        std::int32_t population, generations;
        double crossover, mutation;  // probability for each child, and for each of its genes
        std::uint64_t seed;
    };
    Genetic(const Table& table, std::int32_t k, const Settings& settings)
        : Kernel(table, k), settings_(settings), random_(settings.seed), classes_(table.n / k) {}

   protected:
    Coroutine run() override;
    double fraction_done() const override { return fraction_done_; }

   private:
    // One gene per record: the number of its class. Some numbers may be unused.
    using Genes = std::vector<std::int32_t>;

    Genes random_genes();
    void repair(Genes& genes);
    double loss(const Genes& genes);
    std::size_t draw_parent(const std::vector<double>& fitness, double total);
    std::int32_t draw_member(const Genes& genes, std::int32_t drawn_class);

    const Settings settings_;
    Random random_;
    const std::int32_t classes_;
    double fraction_done_ = 0.0;
    std::vector<std::int32_t> size_;
    Grid<double> sum_;
};

}  // namespace dbanon
