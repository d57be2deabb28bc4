#include "mixed/tuple_tree.hpp"

#include <limits>
#include <numeric>

namespace dbanon {

namespace {

constexpr std::int32_t kLeaf = 8;
constexpr std::int32_t kNothing = std::numeric_limits<std::int32_t>::max();
constexpr Cost kFar = std::numeric_limits<Cost>::max();

}  // namespace

TupleTree::TupleTree(const MixedTable& table)
    : table_(table), order_(table.tuples()), boxes_(2 * static_cast<std::size_t>(table.d())) {
    std::iota(order_.begin(), order_.end(), 0);
    build(0, table.tuples());
}

std::int32_t TupleTree::build(std::int32_t first, std::int32_t last) {
    const auto node = static_cast<std::int32_t>(nodes_.size());
    nodes_.push_back({first, last, -1, -1});
    boxes_.resize(nodes_.size());
    enclose(node);
    if (last - first <= kLeaf) return node;
    // By what climbs most.
    int split = 0;
    Cost widest = -1;
    for (int a = 0; a < table_.d(); ++a) {
        const Code l = low(node)[a], h = high(node)[a];
        if (l == h) continue;
        const Tree* tree = table_.tree(a);
        const Cost width = tree ? tree->climb(tree->deepest(), tree->common(l, h)) : Cost{h - l};
        if (width > widest) {
            widest = width;
            split = a;
        }
    }
    if (widest < 0) return node;  // tuples that differ only in what is beside their codes
    const auto from = order_.begin() + first, to = order_.begin() + last;
    const auto code = [&](std::int32_t t) { return table_.row(t)[split]; };
    std::sort(from, to, [&](std::int32_t s, std::int32_t t) {
        return code(s) != code(t) ? code(s) < code(t) : s < t;
    });
    // Cut between different values: where the tree parts highest up, then nearest to the middle.
    const Tree* tree = table_.tree(split);
    const std::int32_t half = (first + last) / 2;
    std::int32_t cut = -1, best_depth = 0;
    for (std::int32_t i = first + 1; i < last; ++i) {
        const Code before = code(order_[static_cast<std::size_t>(i) - 1]);
        const Code after = code(order_[i]);
        if (before == after) continue;
        const std::int32_t depth = tree ? tree->common(before, after) : 0;
        if (cut < 0 || depth < best_depth ||
            (depth == best_depth && std::abs(i - half) < std::abs(cut - half))) {
            cut = i;
            best_depth = depth;
        }
    }
    const std::int32_t left = build(first, cut);
    const std::int32_t right = build(cut, last);
    nodes_[node].left = left;
    nodes_[node].right = right;
    return node;
}

void TupleTree::enclose(std::int32_t node) {
    const Node at = nodes_[node];
    Code* l = low(node);
    Code* h = high(node);
    for (std::int32_t i = at.first; i < at.last; ++i) {
        const Code* row = table_.row(order_[i]);
        for (int a = 0; a < table_.d(); ++a) {
            l[a] = i == at.first ? row[a] : std::min(l[a], row[a]);
            h[a] = i == at.first ? row[a] : std::max(h[a], row[a]);
        }
    }
}

void TupleTree::offer(const Reach& reach, std::int32_t tuple) {
    const Pair found{reach.distance(tuple, heap_.front().first), tuple};
    if (!(found < heap_.front())) return;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.back() = found;
    std::push_heap(heap_.begin(), heap_.end());
}

void TupleTree::nearest(const Reach& reach, std::int32_t tuple, std::int32_t count,
                        std::int32_t* found, Work& work) {
    heap_.assign(count, {kFar, kNothing});
    open_.assign(1, {0, 0});
    while (!open_.empty()) {
        const Open top = open_.back();
        open_.pop_back();
        if (top.bound > heap_.front().first) continue;
        const Node& at = nodes_[top.node];
        --work.left;
        if (at.left < 0) {
            work.left -= at.last - at.first;
            for (std::int32_t i = at.first; i < at.last; ++i) {
                if (order_[i] != tuple) offer(reach, order_[i]);
            }
            continue;
        }
        Open child[2] = {{0, at.left}, {0, at.right}};
        for (Open& c : child) {
            c.bound = reach.at_least(low(c.node), high(c.node), heap_.front().first);
        }
        // The better one comes last, and so is looked at first.
        const bool swap = child[0].bound < child[1].bound;
        open_.push_back(child[swap]);
        open_.push_back(child[!swap]);
    }
    std::sort_heap(heap_.begin(), heap_.end());
    for (std::size_t i = 0; i < heap_.size(); ++i) found[i] = heap_[i].second;
}

}  // namespace dbanon
