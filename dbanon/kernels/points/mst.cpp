#include "points/mst.hpp"

#include <algorithm>

#include "points/diameter.hpp"

namespace dbanon {

namespace {

constexpr std::int64_t kWorkSlice = 1 << 16;  // of a slice, for one tree

}  // namespace

// Prim from record 0: the free record nearest to the tree, the smallest index among equals; its
// parent is the one of equally near records that was first in the tree. The distance of a tree
// record to its last nearest free record is a lower bound for the others, so the search is repeated
// only if that bound is the least of all.
Coroutine Mst::run() {
    const std::size_t count = table_.n;
    parent_.assign(count, -1);
    edge_length_.assign(count, 0.0);
    std::vector<bool> in_tree(count, false);
    while (!records_->prepare(work_)) co_yield nullptr;
    records_->erase(0);
    joined_.push_back(0);
    in_tree[0] = true;
    std::int32_t from = 0;  // in grown_: of which the nearest is to be found
    while (records_->size() > 0) {
        while (!records_->prepare(work_)) co_yield nullptr;
        near_.start(table_.row(joined_[from]), 1);
        records_->begin(near_);
        while (!records_->nearest(near_, work_)) co_yield nullptr;
        heap_.push_back({near_.results[0].distance, near_.results[0].id, from});
        std::push_heap(heap_.begin(), heap_.end());
        work_.left -= 8;
        if (work_.is_spent()) co_yield nullptr;

        const NearestFree least = heap_.front();
        const std::size_t to = least.to;
        const std::int32_t parent = joined_[least.from_index];
        bool next = in_tree[to];
        if (!next) {
            parent_[to] = parent;
            edge_length_[to] = least.distance;
            in_tree[to] = true;
            records_->erase(least.to);
            joined_.push_back(least.to);
            const double* row = table_.row(least.to);
            next = std::equal(row, row + table_.p, table_.row(parent));
            from = static_cast<std::int32_t>(joined_.size()) - 1;
        }
        // A record equal to its parent never precedes it, so the parent represents both.
        if (next) {
            from = least.from_index;
            std::pop_heap(heap_.begin(), heap_.end());
            heap_.pop_back();
        }
    }
    records_.reset();
    heap_ = {};
    prepare_cuts();
    while (!cut_edges(work_)) co_yield nullptr;
    std::int32_t label = 0;
    std::vector<double> rows;
    for (const auto& ids : list_trees()) {
        const std::int32_t size = static_cast<std::int32_t>(ids.size());
        std::int32_t classes = 1;
        if (diametric_ && size / 2 >= k_) {
            rows.clear();
            for (const std::int32_t id : ids) {
                rows.insert(rows.end(), table_.row(id), table_.row(id) + table_.p);
            }
            Diameter diameter({rows.data(), size, table_.p}, k_, search_);
            while (!diameter.step(kWorkSlice)) {
                work_.left -= kWorkSlice;
                if (work_.is_spent()) co_yield nullptr;
            }
            work_.left -= 16 * std::int64_t{size};
            for (std::size_t i = 0; i < ids.size(); ++i) {
                assign(ids[i], label + diameter.labels()[i]);
                classes = std::max(classes, diameter.labels()[i] + 1);
            }
        } else {
            for (const std::int32_t id : ids) assign(id, label);
            work_.left -= size;
        }
        label += classes;
        if (work_.is_spent()) co_yield nullptr;
    }
}

void Mst::prepare_cuts() {
    subtree_size_.assign(joined_.size(), 1);
    for (std::size_t i = joined_.size(); i-- > 1;) {
        const std::size_t id = joined_[i];
        subtree_size_[parent_[id]] += subtree_size_[id];
    }
    edges_by_length_.assign(joined_.begin() + 1, joined_.end());
    std::sort(edges_by_length_.begin(), edges_by_length_.end(), [this](std::int32_t a, std::int32_t b) {
        const double at_a = edge_length_[a];
        const double at_b = edge_length_[b];
        return at_a > at_b || (at_a == at_b && a < b);
    });
}

// Removes edges, the longest first, where at least k records stay on both sides. Resumable.
bool Mst::cut_edges(Work& work) {
    for (; next_edge_ < edges_by_length_.size(); ++next_edge_) {
        if (work.is_spent()) return false;
        work.left -= 8;
        const std::int32_t child = edges_by_length_[next_edge_];
        const std::int32_t subtree_size = subtree_size_[child];
        if (subtree_size < k_) continue;
        std::size_t root = child;
        for (; parent_[root] >= 0; work.left -= 4) root = static_cast<std::size_t>(parent_[root]);
        if (subtree_size_[root] - subtree_size < k_) continue;
        for (std::int32_t up = parent_[child]; up >= 0;
             up = parent_[up]) {
            subtree_size_[up] -= subtree_size;
        }
        parent_[child] = -1;
    }
    return true;
}

// By their first records; the records of each in ascending order.
std::vector<std::vector<std::int32_t>> Mst::list_trees() const {
    std::vector<std::int32_t> root(joined_.size()), number(joined_.size(), -1);
    for (const std::int32_t id : joined_) {
        const std::int32_t up = parent_[id];
        root[id] = up < 0 ? id : root[up];
    }
    std::vector<std::vector<std::int32_t>> components;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        std::int32_t& tree = number[root[id]];
        if (tree < 0) {
            tree = static_cast<std::int32_t>(components.size());
            components.emplace_back();
        }
        components[tree].push_back(id);
    }
    return components;
}

}  // namespace dbanon
