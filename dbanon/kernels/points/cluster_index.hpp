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
    void start(std::int32_t numbers);
    // Removes the young clusters and returns their numbers, ascending; these must be added again.
    std::vector<std::int32_t> start_young();
    // A cluster for the trees, in ascending order of numbers; its mean must be finite.
    void add(std::int32_t number, std::int32_t size, const double* mean);
    // Resumable; after the last add().
    bool build(Work& work);

    // Adds a newly merged cluster, which may reuse the number of an erased one.
    void insert(std::int32_t number);
    void erase(std::int32_t number);
    bool outdated() const { return recent_.size() > most_recent_; }
    // Whether everything must be rebuilt then.
    bool too_many_young() const;

    // Calls offer(number) for every cluster except `self` whose merging cost may be at most `least`,
    // and for a few others; offer may lower `least`. Among clusters with exactly the mean of `self`,
    // only those with the smallest numbers are guaranteed. Two clusters of k or more never merge.
    template <class Offer>
    void partners(std::int32_t self, std::int32_t size, const double* mean, const double& least,
                  Work& work, Offer offer) {
        for (const std::int32_t number : recent_) {
            if (number != self) offer(number);
        }
        work.left -= static_cast<std::int64_t>(recent_.size());
        for (Side& side : sides_) {
            if (!side.tree || side.tree->size() == 0) continue;
            if (side.least >= k_ && size >= k_) continue;
            const Home& home = homes_[self];
            const double factor = merging_factor(size, side.least);
            for (std::int32_t n_nearest = kFirst;; n_nearest *= 4) {
                near_.start(mean, n_nearest, home.side == &side ? home.at : -1);
                // Rounded up: farther clusters cost more than `least`.
                near_.limit = least / factor * (1 + 1e-15) + 1e-300;
                side.tree->begin(near_);
                while (!side.tree->nearest(near_, work)) work.left += kPart, borrowed_ += kPart;
                work.left -= borrowed_;
                borrowed_ = 0;
                const bool all = near_.count < n_nearest;
                const double reached = near_.limit;
                for (std::int32_t i = 0; i < near_.count; ++i) {
                    offer(side.number[near_.results[i].id]);
                }
                if (all || factor * reached > least || reached == 0.0) break;
            }
        }
    }

   private:
    static constexpr std::int32_t kFirst = 8;
    static constexpr std::int64_t kPart = 1 << 16;

    struct Side {
        std::vector<double> rows;
        std::vector<std::int32_t> number;  // of each row, ascending
        double least = 0.0;                // size of a cluster
        std::unique_ptr<KdTree> tree;
    };
    // The location of a cluster: a row of a side, or an index in recent_ if side is null.
    struct Home {
        Side* side;
        std::int32_t at;
    };

    const int p_;
    const std::int32_t k_;
    const Ops& ops_;
    Side sides_[4];          // all below k, all others, young ones below k, other young ones
    bool young_ = false;  // input of add()
    std::vector<Home> homes_;  // [number]
    std::vector<std::int32_t> recent_;
    std::size_t most_recent_ = 0, most_young_ = 0;
    NearQuery near_;
    std::int64_t borrowed_ = 0;
};

}  // namespace dbanon
