// Merging clusters, and the search for the cheapest partner by Ward's rule.
//
// Trees hold clusters as of when they were built; newer clusters are in a list that is scanned. A
// long list goes into trees for young clusters, which are rebuilt with it; when these grow large,
// all trees are rebuilt. Clusters below k records and larger ones have separate trees, so sizes in
// a tree are similar.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "points/kdtree.hpp"

namespace dbanon {

// The cost of merging n and m records per unit of squared distance between their means.
inline double merging_factor(double n, double m) { return n * m / (n + m); }

class ClusterIndex {
   public:
    ClusterIndex(int p, std::int32_t k, const Ops& ops) : p_(p), k_(k), ops_(ops) {}

    // Empties the index, for clusters numbered below `numbers`; all must be added.
    void start(std::int32_t cluster_numbers);
    // Removes the young clusters and returns their numbers, ascending; these must be added again.
    std::vector<std::int32_t> start_young();
    // A cluster for the trees, in ascending order of numbers; its mean must be finite.
    void add(std::int32_t number, std::int32_t size, const double* mean);
    // Resumable; after the last add().
    bool build(Work& work);

    // Adds a newly merged cluster, which may reuse the number of an erased one.
    void insert(std::int32_t number);
    void erase(std::int32_t number);
    bool outdated() const { return recent_.size() > max_recent_; }
    // Whether everything must be rebuilt then.
    bool too_many_young() const;

    // Calls offer(number) for every cluster except `self` whose merging cost may be at most `least`,
    // and for a few others; offer may lower `least`. Among clusters with exactly the mean of `self`,
    // only those with the smallest numbers are guaranteed. Two clusters of k or more never merge.
    template <class Offer>
    void visit_partners(std::int32_t self, std::int32_t size, const double* mean, const double& least,
                  Work& work, Offer offer) {
        for (const std::int32_t number : recent_) {
            if (number != self) offer(number);
        }
        work.left -= static_cast<std::int64_t>(recent_.size());
        for (ClusterTree& cluster_tree : trees_) {
            if (!cluster_tree.tree || cluster_tree.tree->size() == 0) continue;
            if (cluster_tree.min_size >= k_ && size >= k_) continue;
            const Location& location = locations_[self];
            const double factor = merging_factor(size, cluster_tree.min_size);
            for (std::int32_t n_nearest = kInitialNeighbours;; n_nearest *= 4) {
                near_.start(mean, n_nearest, location.cluster_tree == &cluster_tree ? location.index : -1);
                // Rounded up: farther clusters cost more than `least`.
                near_.limit = least / factor * (1 + 1e-15) + 1e-300;
                cluster_tree.tree->begin(near_);
                while (!cluster_tree.tree->nearest(near_, work)) work.left += kWorkSlice, overdrawn_work_ += kWorkSlice;
                work.left -= overdrawn_work_;
                overdrawn_work_ = 0;
                const bool is_complete = near_.count < n_nearest;
                const double reached = near_.limit;
                for (std::int32_t i = 0; i < near_.count; ++i) {
                    offer(cluster_tree.number[near_.results[i].id]);
                }
                if (is_complete || factor * reached > least || reached == 0.0) break;
            }
        }
    }

   private:
    static constexpr std::int32_t kInitialNeighbours = 8;
    static constexpr std::int64_t kWorkSlice = 1 << 16;

    struct ClusterTree {
        std::vector<double> rows;
        std::vector<std::int32_t> number;  // of each row, ascending
        double min_size = 0.0;                // size of a cluster
        std::unique_ptr<KdTree> tree;
    };
    // The location of a cluster: a row of a side, or an index in recent_ if side is null.
    struct Location {
        ClusterTree* cluster_tree;
        std::int32_t index;
    };

    const int p_;
    const std::int32_t k_;
    const Ops& ops_;
    ClusterTree trees_[4];          // all below k, all others, young ones below k, other young ones
    bool adds_young_ = false;  // input of add()
    std::vector<Location> locations_;  // [number]
    std::vector<std::int32_t> recent_;
    std::size_t max_recent_ = 0, max_young_ = 0;
    NearQuery near_;
    std::int64_t overdrawn_work_ = 0;
};

}  // namespace dbanon
