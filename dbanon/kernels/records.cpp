#include "records.hpp"

#include <algorithm>

#include "dispatch.hpp"

namespace dbanon {

namespace {

// Below so many records scanning beats the tree.
constexpr std::int32_t kFew = 512;

}  // namespace

std::unique_ptr<Records> make_records(const Table& table, Search search) {
    const Ops& ops = ops_for(table.p);
    if (search == Search::automatic) {
        search = table.n < kFew ? Search::brute : Search::index;
    }
    if (search == Search::brute) return std::make_unique<BlockRecords>(table, ops);
    return std::make_unique<TreeRecords>(table, ops);
}

TreeRecords::TreeRecords(const Table& table, const Ops& ops)
    : tree_(table.points, table.n, table.p, ops), moving_(tree_), built_size_(table.n) {}

bool TreeRecords::prepare(Work& work) {
    // Deletions leave holes in the leaves; a new tree of half the records costs little.
    if (tree_.size() >= kFew && tree_.size() <= built_size_ / 2) {
        built_size_ = tree_.size();
        tree_.restart();
        moving_.reset();
    }
    return tree_.build(work);
}

bool TreeRecords::around(NearQuery& near, FarQuery& far, Work& work) {
    return tree_.farthest(far, work) && tree_.nearest(near, work);
}

BlockRecords::BlockRecords(const Table& table, const Ops& ops)
    : table_(table), ops_(ops), size_(table.n) {
    const std::size_t room = static_cast<std::size_t>(blocks()) * kBlock;
    points_ = std::make_unique_for_overwrite<double[]>(room * static_cast<std::size_t>(table.p));
    ids_.resize(room, -1);
    place_.resize(static_cast<std::size_t>(table.n));
    count_.assign(static_cast<std::size_t>(blocks()), kBlock);
    if (table.n % kBlock != 0) count_.back() = table.n % kBlock;
    view_ = {table.p, points_.get(), ids_.data(), count_.data()};
}

bool BlockRecords::prepare(Work& work) {
    for (; filled_ < static_cast<std::int32_t>(count_.size()); ++filled_) {
        if (work.spent()) return false;
        double* block = points_.get() + std::int64_t{filled_} * kBlock * table_.p;
        for (std::int32_t lane = 0; lane < kBlock; ++lane) {
            const std::int32_t id = filled_ * kBlock + lane;
            const double* row = table_.row(std::min(id, table_.n - 1));
            for (int j = 0; j < table_.p; ++j) block[j * kBlock + lane] = row[j];
            if (id >= table_.n) continue;
            ids_[static_cast<std::size_t>(id)] = id;
            place_[static_cast<std::size_t>(id)] = id;
        }
        work.left -= 2 * block_cost(table_.p);
    }
    return true;
}

void BlockRecords::erase(std::int32_t id) {
    const std::int32_t to = place_[static_cast<std::size_t>(id)];
    const std::int32_t from = --size_;
    --count_[static_cast<std::size_t>(from / kBlock)];
    if (to == from) return;
    double* target = points_.get() + std::int64_t{to / kBlock} * kBlock * table_.p + to % kBlock;
    const double* source =
        points_.get() + std::int64_t{from / kBlock} * kBlock * table_.p + from % kBlock;
    for (int j = 0; j < table_.p; ++j) target[j * kBlock] = source[j * kBlock];
    ids_[static_cast<std::size_t>(to)] = ids_[static_cast<std::size_t>(from)];
    place_[static_cast<std::size_t>(ids_[static_cast<std::size_t>(to)])] = to;
}

std::int32_t BlockRecords::piece(std::int32_t from, Work& work) const {
    const std::int64_t cost = block_cost(table_.p);
    const std::int64_t wanted = std::max<std::int64_t>(1, work.left / cost);
    const std::int32_t stop =
        static_cast<std::int32_t>(std::min<std::int64_t>(blocks(), from + wanted));
    work.left -= (stop - from) * cost;
    return stop;
}

bool BlockRecords::nearest(NearQuery& q, Work& work) {
    if (q.k == 0) return true;
    while (q.pending < blocks()) {
        if (work.spent()) return false;
        const std::int32_t from = q.pending;
        q.pending = piece(from, work);
        ops_.scan_near(view_, from, q.pending, q);
    }
    return true;
}

bool BlockRecords::farthest(FarQuery& q, Work& work) {
    while (q.pending < blocks()) {
        if (work.spent()) return false;
        const std::int32_t from = q.pending;
        q.pending = piece(from, work);
        ops_.scan_far(view_, from, q.pending, q);
    }
    return true;
}

bool BlockRecords::around(NearQuery& near, FarQuery& far, Work& work) {
    if (near.k == 0) return farthest(far, work);
    while (far.pending < blocks()) {
        if (work.spent()) return false;
        const std::int32_t from = far.pending;
        far.pending = piece(from, work);
        ops_.scan_both(view_, from, far.pending, near, far);
    }
    return true;
}

}  // namespace dbanon
