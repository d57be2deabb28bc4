#include "points/dbscan.hpp"

#include "points/dispatch.hpp"

namespace dbanon {

namespace {

// Records taken by one query. Their order does not affect labels: a class is complete before the
// next one begins.
constexpr std::int32_t kTakenPerQuery = 64;

}  // namespace

Dbscan::Dbscan(const Table& table, std::int32_t k, double radius)
    : Kernel(table, k),
      squared_radius_(radius * radius),
      tree_(table.points, table.n, table.p, ops_for(table.p)),
      is_core_(table.n, false) {}

void Dbscan::start_query(std::int32_t id, std::int32_t n_neighbours) {
    near_.start(table_.row(id), n_neighbours);
    near_.limit = squared_radius_;
    tree_.begin(near_);
}

void Dbscan::take(std::int32_t id, std::int32_t label) {
    assign(id, label);
    tree_.erase(id);
    if (is_core_[id]) core_to_expand_.push_back(id);
}

Coroutine Dbscan::run() {
    while (!tree_.build(work_)) co_yield nullptr;
    // Leaf by leaf, so that the data of one query is still cached for the next.
    const BlocksView& leaves = tree_.view().leaves;
    for (std::int32_t leaf = 0; n_rated_ < table_.n; ++leaf) {
        for (std::int32_t lane = 0; lane < leaves.count[leaf]; ++lane, ++n_rated_) {
            const std::int32_t id = leaves.ids[std::int64_t{leaf} * block_records(leaves.p) + lane];
            start_query(id, k_);
            while (!tree_.within(near_, work_)) co_yield nullptr;
            is_core_[id] = near_.count == k_;
        }
    }
    std::int32_t label = 0;
    for (std::int32_t first = 0; first < table_.n; ++first) {
        if (!is_core_[first] || is_assigned(first)) continue;
        take(first, label);
        while (!core_to_expand_.empty()) {
            const std::int32_t id = core_to_expand_.back();
            core_to_expand_.pop_back();
            do {
                start_query(id, kTakenPerQuery);
                while (!tree_.within(near_, work_)) co_yield nullptr;
                for (std::int32_t i = 0; i < near_.count; ++i) take(near_.results[i].id, label);
            } while (near_.count == kTakenPerQuery);
        }
        ++label;
    }
}

}  // namespace dbanon
