// A tree of boxes over the records still alive: k nearest and farthest, exact to the last tie, with
// deletion. Fan-out 8, leaves of up to 32 records stored attribute by attribute, so that both the
// records of a leaf and the boxes of a node are handled by vector instructions.
//
// Everything that may take long is resumable: it returns false when its slice is spent and is
// called again with fresh Work. Queries must not be mixed with erase() before they are complete.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "common/pages.hpp"
#include "points/coarse.hpp"
#include "points/queries.hpp"
#include "points/search.hpp"

namespace dbanon {

class KdTree {
   public:
    // `points` is n x p, row by row, finite; it must outlive the tree.
    KdTree(const double* points, std::int32_t n, int p, const Ops& ops);

    bool build(Work& work);

    std::int32_t size() const { return size_; }
    int attributes() const { return p_; }
    bool is_alive(std::int32_t id) const { return position_[static_cast<std::size_t>(id)] >= 0; }
    const double* row(std::int32_t id) const { return points_ + std::int64_t{id} * p_; }
    void erase(std::int32_t id);
    // Prefetches the data that erase() reads first.
    void prefetch(std::int32_t id) const { __builtin_prefetch(&position_[static_cast<std::size_t>(id)], 1); }

    void begin(NearQuery& q) const;
    void begin(FarQuery& q) const;
    bool nearest(NearQuery& q, Work& work) const { return ops_.nearest(view_, q, work); }
    // Any records within q.limit, in no particular order (see Ops).
    bool within(NearQuery& q, Work& work) const { return ops_.within(view_, q, work); }
    bool farthest(FarQuery& q, Work& work) const { return ops_.farthest(view_, q, work); }

    // Searches that have begun, all at once; only if has_batches(), and after encode(), which prepares for them.
    bool encode(Work& work);
    bool has_batches() const { return has_batches_; }
    void begin(QueryBatch<Near>& batch) const { begin_batch(batch); }
    void begin(QueryBatch<Far>& batch) const { begin_batch(batch); }
    bool nearest(QueryBatch<Near>& batch, Work& work) const { return ops_.nearest_of_batch(view_, batch, work); }
    bool farthest(QueryBatch<Far>& batch, Work& work) const { return ops_.farthest_of_batch(view_, batch, work); }

    // For searches implemented elsewhere (moving_farthest.hpp).
    const TreeView& view() const { return view_; }
    const Ops& ops() const { return ops_; }

   private:
    // Distributes the records order_[begin..end) to `n_slots` slots of a node, starting at
    // `slot`: `slot_records` records each, or equal numbers if that is 0.
    struct BuildTask {
        std::int32_t begin, end, node, slot, n_slots, slot_records, depth;
    };
    // A split of a range too long for one slice: stable, left side in place, right side in spare_.
    struct Split {
        bool active = false;
        int attribute = 0;
        double value = 0.0;
        std::int32_t id = 0, next = 0, left = 0, right = 0;
    };
    // An attribute and the range of a sample in it.
    struct Axis {
        int attribute;
        double least, most;
    };
    struct Key {
        double value;
        std::int32_t id;
    };

    template <class Query>
    void begin_batch(QueryBatch<Query>& batch) const {
        const std::size_t count = batch.searches_.size();
        // A node's searches, and room for them at each child, at every depth; vectors of 16 are written.
        const std::size_t slots = static_cast<std::size_t>((depth_ + 1) * kFanOut);
        batch.stack_storage.resize(slots);
        batch.entry_storage.resize(slots * count + 16);
        batch.mask_storage.resize(count + 16);
        batch.n_words = (3 + (p_ + 3) / 4 + 2 * coarse_.pairs() + 15) / 16 * 16;
        batch.word_storage.resize(static_cast<std::size_t>(batch.n_words) * count);
        std::iota(batch.entry_storage.begin(), batch.entry_storage.begin() + static_cast<std::ptrdiff_t>(count), 0);
        batch.queries = batch.searches_.data();
        batch.count = static_cast<std::int32_t>(count);
        batch.stack = batch.stack_storage.data();
        batch.entries = batch.entry_storage.data();
        batch.masks = batch.mask_storage.data();
        batch.words = batch.word_storage.data();
        batch.pending = 0;
        if (count > 0 && size_ > 0) batch.stack[batch.pending++] = {0, 0, static_cast<std::int64_t>(count)};
    }
    void reserve_leaves(std::int64_t leaves);
    bool run_task(const BuildTask& task, Work& work);
    void add_leaf(const BuildTask& task);
    void add_node(const BuildTask& task);
    void push_halves(const BuildTask& task, std::int32_t middle);
    std::int32_t split_short(const BuildTask& task);
    bool split_long(const BuildTask& task, Work& work, std::int32_t& middle);
    Axis choose_axis(std::int32_t begin, std::int32_t end) const;
    void set_box_from_node(std::int32_t node, std::int32_t slot, std::int32_t inner);
    double coordinate(std::int32_t id, int j) const { return row(id)[j]; }
    double* low(std::int32_t node) { return boxes_.data() + std::int64_t{node} * (2 * p_ + 1) * kFanOut; }
    double* high(std::int32_t node) { return low(node) + p_ * kFanOut; }
    double* reach(std::int32_t node) { return high(node) + p_ * kFanOut; }
    std::int32_t* child(std::int32_t node) { return links_.data() + std::int64_t{node} * kLinksPerNode; }
    std::int32_t* first_ids(std::int32_t node) { return child(node) + kFanOut; }
    double compute_reach(std::int32_t id) const;
    void update_coarse_box(std::int32_t node, int slot);
    void refresh_view();
    void close_slot(std::int32_t node, int slot);
    bool shrink_leaf(std::int32_t leaf, std::int32_t id, double reached);
    bool shrink_node(std::int32_t node, std::int32_t parent, int slot);

    const double* points_;
    int p_, block_;
    const Ops& ops_;
    std::int32_t size_;
    HugePageVector<std::int32_t> position_;  // record -> leaf * block_ + lane, -1 once erased

    std::vector<std::int32_t> order_, spare_;
    std::vector<BuildTask> tasks_;
    std::vector<Key> keys_;
    std::vector<std::uint64_t> ranks_;  // value, then record
    Split split_;
    std::int32_t first_enclosed_ = -1;  // nodes from this index have boxes in their parents
    std::int32_t depth_ = 0;
    bool is_built_ = false;

    HugePageVector<double> boxes_;
    std::vector<double> middle_;
    HugePageVector<std::int32_t> links_;
    std::vector<std::int32_t> parent_slots_;  // node -> parent * kFanOut + slot
    std::vector<std::uint8_t> live_children_;

    std::int64_t leaf_capacity_ = 0;
    std::int32_t n_leaves_ = 0;
    HugePageVector<double> leaf_points_, leaf_reach_;
    HugePageVector<std::int32_t> leaf_ids_;
    std::vector<std::int32_t> leaf_count_, leaf_parent_slots_;

    // The same in integer steps, if worthwhile: see search.hpp.
    Coarse coarse_;
    HugePageVector<std::int16_t> leaf_coarse_, coarse_boxes_;
    HugePageVector<std::int8_t> leaf_codes_;
    HugePageVector<double> coarse_reach_;
    std::vector<std::uint8_t> leaf_has_clipped_, has_clipped_;
    bool has_batches_ = false;
    std::int32_t n_encoded_leaves_ = 0;
    TreeView view_{};
};

}  // namespace dbanon
