// Minimum spanning tree partitioning (Laszlo & Mukherjee 2005).
#pragma once

#include "kernel.hpp"

namespace dbanon {

class Mst final : public Kernel {
   public:
    // `diametric`: trees of 2k or more records are split by the diameter-based method.
    Mst(const Table& table, std::int32_t k, bool diametric)
        : Kernel(table, k), diametric_(diametric) {}

   protected:
    Steps run() override;
    double fraction() const override { return 0.9 * done_ / (table_.n + 1.0); }

   private:
    void cut();
    std::vector<std::vector<std::int32_t>> trees() const;
    void split(std::vector<std::int32_t> ids, std::vector<std::vector<std::int32_t>>& found);

    const bool diametric_;
    std::int32_t done_ = 0;
    std::vector<std::int32_t> grown_;   // records in the order in which the tree took them
    std::vector<std::int32_t> parent_;  // [record], -1 for a root
    std::vector<double> length_;        // [record], squared, of the edge to the parent
};

}  // namespace dbanon
