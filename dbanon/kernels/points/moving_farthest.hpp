// The record farthest from a point that moves little between queries, such as the centroid of
// remaining records. All border leaves nearly tie around it, so independent searches visit
// thousands of leaves.
//
// Instead, a lazy heap is used. With L(t) the length of the point's path up to query t, the key of a
// leaf is its farthest distance at the time t of its last visit, minus L(t). By the triangle inequality
// key + L(now) bounds its distance now, and most leaves are never visited again. Square roots and
// sums on this path are rounded up, so a bound is never too small and the answer is exact.
#pragma once

#include <cstdint>
#include <vector>

#include "points/kdtree.hpp"

namespace dbanon {

class MovingFarthest {
   public:
    explicit MovingFarthest(const KdTree& tree) : tree_(tree) {}

    // With `n_candidates`, the search also collects that many of the farthest records, as the heap finds them.
    void begin(FarQuery& q, std::int32_t n_candidates = 0);
    bool find(FarQuery& q, Work& work);
    const std::vector<RecordDistance>& candidates() const { return candidates_; }

   private:
    struct Entry {
        double key;
        std::int32_t ref;  // as in TreeView::child
        bool is_exact;       // a leaf whose key comes from its records, not from its box
        bool operator<(const Entry& other) const { return key < other.key; }
    };

    bool walk(FarQuery& q, Work& work);
    Entry make_entry(double squared, std::int32_t ref, bool is_exact) const;
    void prefetch_leaf(std::int32_t ref) const;
    void restore_visited();
    void collect(const double* point, std::int32_t leaf);

    const KdTree& tree_;
    std::vector<Entry> heap_, visited_;
    std::vector<RecordDistance> candidates_;  // the nearest on top
    std::int32_t n_candidates_ = 0;
    std::vector<double> last_point_;
    double path_length_ = 0.0;
    std::int32_t n_repeated_visits_ = 0;
    std::int32_t pause_queries_ = 0, next_pause_queries_ = 1;
    bool uses_heap_ = false;
};

}  // namespace dbanon
