// Minimum spanning tree partitioning (Laszlo & Mukherjee 2005).
#pragma once

#include "common/kernel.hpp"
#include "points/records.hpp"

namespace dbanon {

class Mst final : public Kernel {
   public:
    // `diametric`: trees of 2k or more records are split by the diameter-based method.
    Mst(const Table& table, std::int32_t k, bool diametric, Search search)
        : Kernel(table, k),
          diametric_(diametric),
          search_(search),
          records_(make_records(table, search)) {}

   protected:
    Coroutine run() override;
    double fraction_done() const override {
        return 0.9 * static_cast<double>(joined_.size()) / (table_.n + 1.0);
    }

   private:
    // A tree record and its nearest free record at the time of the search.
    struct NearestFree {
        double distance;  // squared
        std::int32_t to;
        std::int32_t from_index;  // of the record of the tree, in grown_
        bool operator<(const NearestFree& other) const {
            if (distance != other.distance) return distance > other.distance;
            return to > other.to || (to == other.to && from_index > other.from_index);
        }
    };

    void prepare_cuts();
    bool cut_edges(Work& work);
    std::vector<std::vector<std::int32_t>> list_trees() const;

    const bool diametric_;
    const Search search_;
    std::unique_ptr<Records> records_;  // those not yet in the tree
    NearQuery near_;
    std::vector<NearestFree> heap_;
    std::vector<std::int32_t> joined_;   // records in the order in which they joined the tree
    std::vector<std::int32_t> parent_;  // [record], -1 for a root
    std::vector<double> edge_length_;        // [record], squared, of the edge to the parent
    std::vector<std::int32_t> subtree_size_;   // [record]: with its descendants
    std::vector<std::int32_t> edges_by_length_;   // by their lower ends, the longest first
    std::size_t next_edge_ = 0;         // of edges_
};

}  // namespace dbanon
