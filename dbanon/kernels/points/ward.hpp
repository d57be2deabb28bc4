// k-Ward (Domingo-Ferrer & Mateo-Sanz 2002), by nearest-neighbour chains.
#pragma once

#include "common/grid.hpp"
#include "common/kernel.hpp"
#include "points/cluster_index.hpp"
#include "points/records.hpp"

namespace dbanon {

class Ward final : public Kernel {
   public:
    Ward(const Table& table, std::int32_t k, Search search);

   protected:
    Coroutine run() override;

   private:
    using Members = std::vector<std::int32_t>;
    struct Cluster {
        std::int32_t size;
        std::int32_t last;  // of its members; the others follow in next_
        std::int32_t number;
        std::int32_t first;
    };

    void start_group(Members ids);
    void add(const Members& ids);
    std::size_t nearest(std::size_t cluster_index, std::size_t previous);
    bool fill_index(bool rebuild_all);
    bool should_use_index() const;
    double merging_cost(std::size_t a, std::size_t b) const;
    bool may_merge(std::size_t a, std::size_t b) const;
    void merge(std::size_t a, std::size_t b);
    Members members(const Cluster& cluster) const;
    bool split_if_all_equal(const Members& ids, std::vector<Members>& groups) const;

    // Remaining clusters come first without gaps, so that a search reads sequentially.
    std::vector<Cluster> clusters_;
    Grid<double> centroids_;  // by cluster
    std::vector<std::int32_t> next_member_;    // [record]
    std::vector<std::int32_t> chain_;   // numbers of clusters
    std::vector<std::size_t> slot_;    // number -> index in clusters_
    std::size_t n_small_clusters_ = 0;             // clusters below k
    const Search search_;
    ClusterIndex index_;
    bool uses_index_ = false;
};

}  // namespace dbanon
