// The unassigned records, and the queries of methods. There are two implementations with equal
// results: the tree, and a sequential scan of blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "points/kdtree.hpp"
#include "points/moving_farthest.hpp"
#include "points/queries.hpp"

namespace dbanon {

enum class Search { automatic, index, brute };

// To run a query, call its start(), then begin(), then the search until it returns true.
class Records {
   public:
    virtual ~Records() = default;
    // Called before the first query, and at the start of every round.
    virtual bool prepare(Work& work) = 0;
    virtual std::int32_t size() const = 0;
    virtual void erase(std::int32_t id) = 0;
    // Prefetches what erase() needs; several prefetches overlap.
    virtual void prefetch(std::int32_t id) const = 0;

    virtual void begin(NearQuery& q) = 0;
    virtual bool nearest(NearQuery& q, Work& work) = 0;
    virtual void begin(FarQuery& q) = 0;
    virtual bool farthest(FarQuery& q, Work& work) = 0;
    // Both queries about the same point; started by begin(near) and begin(far).
    virtual bool nearest_and_farthest(NearQuery& near, FarQuery& far, Work& work) = 0;
    // The record farthest from a point that moves little between queries; there may be two such
    // points, and `path` (0 or 1) says which.
    // With `n_candidates`, the search also collects that many of the farthest records, if it can.
    virtual void begin_moving(FarQuery& q, int path, std::int32_t n_candidates = 0) = 0;
    virtual bool farthest_moving(FarQuery& q, int path, Work& work) = 0;

    virtual std::vector<RecordDistance> candidates(int) const { return {}; }

    // The number of searches that pay at once, or 0 if batches do not; then they must not be used.
    virtual std::int32_t batch_size() const { return 0; }
    // Called before a batch; no record may be erased before it is complete.
    virtual bool prepare_batch(Work&) { return true; }
    // Where batches are searched; several threads may search at once.
    virtual const KdTree* tree() const { return nullptr; }
    // Called with the work of a batch, so that it counts for choosing how to search.
    virtual void count_batch(std::int64_t, std::int32_t) {}
};

// `n_queries`: the number of queries, if known. For few, building a tree does not pay.
std::unique_ptr<Records> make_records(const Table& table, Search search,
                                      std::int64_t n_queries = INT64_MAX);

class TreeRecords final : public Records {
   public:
    TreeRecords(const Table& table, const Ops& ops);
    bool prepare(Work& work) override { return tree_.build(work); }
    std::int32_t size() const override { return tree_.size(); }
    bool is_alive(std::int32_t id) const { return tree_.is_alive(id); }
    void erase(std::int32_t id) override { tree_.erase(id); }
    void prefetch(std::int32_t id) const override { tree_.prefetch(id); }
    void begin(NearQuery& q) override { tree_.begin(q); }
    bool nearest(NearQuery& q, Work& work) override { return track([&] { return tree_.nearest(q, work); }, work); }
    void begin(FarQuery& q) override { tree_.begin(q); }
    bool farthest(FarQuery& q, Work& work) override { return track([&] { return tree_.farthest(q, work); }, work); }
    bool nearest_and_farthest(NearQuery& near, FarQuery& far, Work& work) override;
    void begin_moving(FarQuery& q, int path, std::int32_t n_candidates) override {
        moving_[path].begin(q, n_candidates);
    }
    bool farthest_moving(FarQuery& q, int path, Work& work) override {
        return moving_[path].find(q, work);
    }
    std::vector<RecordDistance> candidates(int path) const override { return moving_[path].candidates(); }
    bool has_batches() const { return tree_.has_batches(); }
    std::int32_t batch_size() const override;
    bool prepare_batch(Work& work) override { return tree_.encode(work); }
    const KdTree* tree() const override { return &tree_; }
    void count_batch(std::int64_t work, std::int32_t n_searches) override { count(work, n_searches); }

   private:
    template <class Run>
    bool track(const Run& run, Work& work) {
        const std::int64_t before = work.left;
        const bool is_complete = run();
        count(before - work.left, is_complete ? 1 : 0);
        return is_complete;
    }
    // Decides by the nodes and leaves that a search visits whether batches pay.
    void count(std::int64_t work, std::int32_t n_searches);

    static constexpr std::int64_t kSearchesToDecide = 256;
    // Enough to have searches of both kinds: a batch has all of one kind together, and in clustered data farthest
    // ones visit ten times as many nodes.
    static constexpr std::int64_t kSearchesToDecideInBatch = 1024;
    // Measured; a node of a batch stands for its leaves, too. In a larger tree, searches of as many visits have
    // fewer of them in common.
    static constexpr std::int64_t kMinVisitsAlone = 180, kMinVisitsInBatch = 130, kRecordsPerVisit = 2500;

    KdTree tree_;
    std::int64_t n_visits_ = 0, n_searches_ = 0;
    bool uses_batches_ = false;
    MovingFarthest moving_[2];
};

class BlockRecords final : public Records {
   public:
    BlockRecords(const Table& table, const Ops& ops);
    // Only these records, by index.
    BlockRecords(const Table& table, const Ops& ops, std::vector<std::int32_t> ids);
    bool prepare(Work& work) override;
    std::int32_t size() const override { return size_; }
    void erase(std::int32_t id) override;
    void prefetch(std::int32_t id) const override {
        __builtin_prefetch(&position_[static_cast<std::size_t>(id)]);
    }
    // The row of this record has changed.
    void update(std::int32_t id);
    void begin(NearQuery& q) override { begin_scan(q); }
    bool nearest(NearQuery& q, Work& work) override;
    void begin(FarQuery& q) override { begin_scan(q); }
    bool farthest(FarQuery& q, Work& work) override;
    bool nearest_and_farthest(NearQuery& near, FarQuery& far, Work& work) override;
    void begin_moving(FarQuery& q, int, std::int32_t) override { begin(q); }
    bool farthest_moving(FarQuery& q, int, Work& work) override { return farthest(q, work); }

   private:
    std::int32_t blocks() const { return (size_ + block_ - 1) / block_; }
    std::int32_t reserve_blocks(std::int32_t from, Work& work) const;
    template <class Query>
    void begin_scan(Query& q) const {
        q.pending = 0;
        q.coarse = {};
        if (coarse_.is_enabled()) coarse_.convert_query(q.point, q.coarse_storage, q.coarse);
    }

    Table table_;
    int block_;
    const Ops& ops_;
    std::int32_t size_;
    std::int32_t n_filled_blocks_ = 0;
    HugePageVector<double> points_;
    Coarse coarse_;
    HugePageVector<std::int16_t> steps_;
    std::vector<std::uint8_t> has_clipped_;
    std::vector<std::int32_t> ids_, count_, position_;  // position_: record -> position in ids_
    BlocksView view_{};
};

// Uses the tree while it is faster: scanning is faster for many attributes without structure, or for few
// remaining records.
class AdaptiveRecords final : public Records {
   public:
    AdaptiveRecords(const Table& table, const Ops& ops);
    bool prepare(Work& work) override;
    std::int32_t size() const override { return active_->size(); }
    void erase(std::int32_t id) override { active_->erase(id); }
    void prefetch(std::int32_t id) const override { active_->prefetch(id); }
    void begin(NearQuery& q) override { active_->begin(q); }
    bool nearest(NearQuery& q, Work& work) override;
    void begin(FarQuery& q) override { active_->begin(q); }
    bool farthest(FarQuery& q, Work& work) override;
    bool nearest_and_farthest(NearQuery& near, FarQuery& far, Work& work) override;
    void begin_moving(FarQuery& q, int path, std::int32_t n_candidates) override {
        active_->begin_moving(q, path, n_candidates);
    }
    bool farthest_moving(FarQuery& q, int path, Work& work) override;
    std::vector<RecordDistance> candidates(int path) const override { return active_->candidates(path); }
    std::int32_t batch_size() const override { return active_->batch_size(); }
    bool prepare_batch(Work& work) override { return active_->prepare_batch(work); }
    const KdTree* tree() const override { return active_->tree(); }
    void count_batch(std::int64_t work, std::int32_t n_searches) override;

   private:
    bool track_cost(std::int64_t before, const Work& work, bool done);
    void count(double work, std::int32_t n_searches);

    Table table_;
    const Ops& ops_;
    std::unique_ptr<TreeRecords> tree_;
    std::unique_ptr<BlockRecords> blocks_;
    Records* active_;
    double tree_cost_ = 0.0, scan_cost_ = 0.0;  // cost of the queries, and of scanning instead, in blocks
    std::int32_t n_queries_ = 0;
};

}  // namespace dbanon
