#include "mixed/tuple_tree.hpp"

#include <limits>
#include <numeric>

namespace dbanon {

namespace {

constexpr std::int32_t kLeaf = 8;
constexpr std::int32_t kNothing = std::numeric_limits<std::int32_t>::max();
constexpr Cost kFar = std::numeric_limits<Cost>::max();

}  // namespace

void Reach::start(std::int32_t tuple) {
    const Code* row = table_.row(tuple);
    low_.assign(row, row + table_.d());
    high_ = low_;
    settle();
}

void Reach::add(std::int32_t tuple) {
    const Code* row = table_.row(tuple);
    for (std::size_t a = 0; a < low_.size(); ++a) {
        low_[a] = std::min(low_[a], row[a]);
        high_[a] = std::max(high_[a], row[a]);
    }
    settle();
}

void Reach::settle() {
    for (std::size_t a = 0; a < low_.size(); ++a) {
        const Tree* tree = table_.tree(a);
        if (tree) depth_[a] = tree->common(low_[a], high_[a]);
    }
}

Cost Reach::distance(std::int32_t tuple, Cost limit) const {
    const Code* row = table_.row(tuple);
    Cost sum = 0;
    for (std::size_t a = 0; a < low_.size(); ++a) {
        const Code l = std::min(low_[a], row[a]), h = std::max(high_[a], row[a]);
        if (const Tree* tree = table_.tree(a)) {
            const std::int32_t depth = tree->common(l, h);
            sum += tree->climb(tree->depth(row[a]), depth) + tree->climb(depth_[a], depth);
        } else {
            sum += 2 * Cost{h - l};
        }
        if (sum > limit) return sum;
    }
    return sum;
}

Cost Reach::at_least(const Code* low, const Code* high, Cost limit) const {
    Cost sum = 0;
    for (std::size_t a = 0; a < low_.size(); ++a) {
        // The class together with the nearest end of the box; inside it, the class itself.
        const Code l = std::min(low_[a], high[a]), h = std::max(high_[a], low[a]);
        if (const Tree* tree = table_.tree(a)) {
            const std::int32_t depth = tree->common(l, h);
            const std::int32_t leaf = low[a] == high[a] ? tree->depth(low[a]) : tree->shallowest();
            if (leaf > depth) sum += tree->climb(leaf, depth);
            sum += tree->climb(depth_[a], depth);
        } else {
            sum += 2 * Cost{h - l};
        }
        if (sum > limit) return sum;
    }
    return sum;
}

Cost Reach::at_most(const Code* low, const Code* high) const {
    Cost sum = 0;
    for (std::size_t a = 0; a < low_.size(); ++a) {
        if (const Tree* tree = table_.tree(a)) {
            const std::int32_t depth =
                tree->common(std::min(low_[a], low[a]), std::max(high_[a], high[a]));
            sum += tree->climb(tree->deepest(), depth) + tree->climb(depth_[a], depth);
        } else {
            // One tuple widens the class on one side only.
            const Code more = std::max({low_[a] - low[a], high[a] - high_[a], 0});
            sum += 2 * (Cost{high_[a] - low_[a]} + more);
        }
    }
    return sum;
}

Cost Growth::at_least(const Code* low, const Code* high, Cost limit) const {
    Cost sum = 0;
    for (std::size_t a = 0; a < extent_.low.size(); ++a) {
        const Code l = std::min(extent_.low[a], high[a]), h = std::max(extent_.high[a], low[a]);
        if (l == h) continue;
        if (const Tree* tree = table_.tree(a)) {
            const Cost share = low[a] == high[a] ? tree->share(low[a]) : tree->largest_share();
            sum += (extent_.size + 1) * table_.unit(a) -
                   tree->common(l, h) * (extent_.share[a] + share);
        } else {
            sum += (extent_.size + 1) * (h - l);
        }
        if (sum > limit) return sum;
    }
    return sum;
}

TupleTree::TupleTree(const MixedTable& table, CutBy by)
    : table_(table),
      cutting_(table, by),
      remaining_(table.records()),
      next_(table.tuples()),
      order_(next_.size()),
      leaf_(next_.size()),
      boxes_(2 * static_cast<std::size_t>(table.d())) {
    for (std::int32_t t = 0; t < table.tuples(); ++t) {
        next_[t] = table.begin(t);
    }
    std::iota(order_.begin(), order_.end(), 0);
    build(0, table.tuples(), -1);
}

std::int32_t TupleTree::build(std::int32_t first, std::int32_t last, std::int32_t parent) {
    const auto node = static_cast<std::int32_t>(nodes_.size());
    nodes_.push_back({first, last, -1, -1, parent, kNothing});
    boxes_.resize(nodes_.size());
    for (std::int32_t i = first; i < last; ++i) {
        leaf_[order_[i]] = node;
    }
    summarize(node);
    if (last - first <= kLeaf) return node;
    const std::size_t before = cutting_.cut(
        {order_.data() + first, static_cast<std::size_t>(last - first)}, low(node), high(node));
    if (before == 0) return node;  // tuples that differ only in what is beside their codes
    const std::int32_t cut = first + static_cast<std::int32_t>(before);
    const std::int32_t left = build(first, cut, node);
    const std::int32_t right = build(cut, last, node);
    nodes_[node].left = left;
    nodes_[node].right = right;
    return node;
}

// Box and smallest record of a leaf, or of any node while building.
void TupleTree::summarize(std::int32_t node) {
    Node& at = nodes_[node];
    Code* l = low(node);
    Code* h = high(node);
    at.least = kNothing;
    for (std::int32_t i = at.first; i < at.last; ++i) {
        const std::int32_t t = order_[i];
        at.least = std::min(at.least, next(t));
        const Code* row = table_.row(t);
        for (int a = 0; a < table_.d(); ++a) {
            l[a] = i == at.first ? row[a] : std::min(l[a], row[a]);
            h[a] = i == at.first ? row[a] : std::max(h[a], row[a]);
        }
    }
}

std::int32_t TupleTree::take(std::int32_t tuple) {
    const std::int32_t record = next(tuple);
    ++next_[tuple];
    --remaining_;
    std::int32_t node = leaf_[tuple];
    Node& leaf = nodes_[node];
    const bool shrinks = gone(tuple);
    if (shrinks) {
        const auto from = order_.begin() + leaf.first;
        std::iter_swap(std::find(from, order_.begin() + leaf.last, tuple),
                       order_.begin() + leaf.last - 1);
        --leaf.last;
    } else if (leaf.least < record) {
        return record;
    }
    summarize(node);
    while ((node = nodes_[node].parent) >= 0) {
        Node& at = nodes_[node];
        const Node& left = nodes_[at.left];
        const Node& right = nodes_[at.right];
        const std::int32_t least = std::min(left.least, right.least);
        bool changed = least != at.least;
        at.least = least;
        if (shrinks && least != kNothing) {
            // An empty child has no box.
            const std::int32_t one = left.least == kNothing ? at.right : at.left;
            const std::int32_t other = right.least == kNothing ? at.left : at.right;
            for (int a = 0; a < table_.d(); ++a) {
                const Code l = std::min(low(one)[a], low(other)[a]);
                const Code h = std::max(high(one)[a], high(other)[a]);
                changed |= l != low(node)[a] || h != high(node)[a];
                low(node)[a] = l;
                high(node)[a] = h;
            }
        }
        if (!changed) break;
    }
    return record;
}

template <class Answer>
void TupleTree::look(const Node& leaf, Answer& answer, Work& work) const {
    work.left -= leaf.last - leaf.first;
    for (std::int32_t i = leaf.first; i < leaf.last; ++i) answer.offer(order_[i], *this);
}

template <class Answer>
void TupleTree::walk(Answer& answer, Work& work) {
    using Order = typename Answer::Order;
    open_.clear();
    open_.push_back({Order::kBest, 0});
    while (!open_.empty()) {
        const Open top = open_.back();
        open_.pop_back();
        const Node& at = nodes_[top.node];
        if (!answer.wants(top.bound, at.least)) continue;
        --work.left;
        if (at.left < 0) {
            look(at, answer, work);
            continue;
        }
        Open child[2] = {{Order::kWorst, at.left}, {Order::kWorst, at.right}};
        for (Open& c : child) {
            if (nodes_[c.node].least == kNothing) continue;
            c.bound = answer.bound(low(c.node), high(c.node));
        }
        // The better one comes last, and so is looked at first.
        const bool swap = Order::better(child[0].bound, child[1].bound);
        for (const Open& c : {child[swap], child[!swap]}) {
            if (c.bound != Order::kWorst) open_.push_back(c);
        }
    }
}

namespace {

struct Nearer {
    static constexpr Cost kBest = 0, kWorst = kFar;
    static bool better(Cost a, Cost b) { return a < b; }
};

struct Farther {
    static constexpr Cost kBest = kFar, kWorst = -1;
    static bool better(Cost a, Cost b) { return a > b; }
};

// One tuple, by (distance, index of its next record).
template <class By>
struct One {
    using Order = By;
    Cost distance = By::kWorst;
    std::int32_t record = kNothing, tuple = -1;

    bool wants(Cost bound, std::int32_t least) const {
        return bound == distance ? least <= record : By::better(bound, distance);
    }
    void take(Cost found, std::int32_t t, const TupleTree& tree) {
        if (By::better(distance, found)) return;
        const std::int32_t next = tree.next(t);
        if (found == distance && next >= record) return;
        distance = found;
        record = next;
        tuple = t;
    }
};

template <class Measure>
struct Nearest : One<Nearer> {
    const Measure& measure;
    explicit Nearest(const Measure& by) : measure(by) {}
    Cost bound(const Code* low, const Code* high) const {
        return measure.at_least(low, high, distance);
    }
    void offer(std::int32_t t, const TupleTree& tree) {
        take(measure.distance(t, distance), t, tree);
    }
};

struct Farthest : One<Farther> {
    const Reach& reach;
    explicit Farthest(const Reach& by) : reach(by) {}
    Cost bound(const Code* low, const Code* high) const { return reach.at_most(low, high); }
    void offer(std::int32_t t, const TupleTree& tree) { take(reach.distance(t, kFar), t, tree); }
};

// Several tuples but one, by (distance, tuple): a heap with the largest on top, the one to replace.
struct Several {
    using Order = Nearer;
    const Reach& reach;
    const std::int32_t but;
    std::vector<std::pair<Cost, std::int32_t>>& heap;

    bool wants(Cost bound, std::int32_t) const { return bound <= heap.front().first; }
    Cost bound(const Code* low, const Code* high) const {
        return reach.at_least(low, high, heap.front().first);
    }
    void offer(std::int32_t t, const TupleTree&) {
        if (t == but) return;
        const std::pair<Cost, std::int32_t> pair{reach.distance(t, heap.front().first), t};
        if (!(pair < heap.front())) return;
        std::pop_heap(heap.begin(), heap.end());
        heap.back() = pair;
        std::push_heap(heap.begin(), heap.end());
    }
};

}  // namespace

template <class Measure>
std::int32_t TupleTree::nearest(const Measure& measure, std::int32_t hint, Work& work) {
    Nearest answer(measure);
    if (hint >= 0) look(nodes_[leaf_[hint]], answer, work);
    walk(answer, work);
    return answer.tuple;
}

template std::int32_t TupleTree::nearest(const Reach&, std::int32_t, Work&);
template std::int32_t TupleTree::nearest(const Growth&, std::int32_t, Work&);

void TupleTree::nearest(const Reach& reach, std::int32_t tuple, std::int32_t count,
                        std::int32_t* found, Work& work) {
    heap_.assign(count, {kFar, kNothing});
    Several answer{reach, tuple, heap_};
    walk(answer, work);
    std::sort_heap(heap_.begin(), heap_.end());
    for (std::size_t i = 0; i < heap_.size(); ++i) found[i] = heap_[i].second;
}

std::int32_t TupleTree::farthest(const Reach& reach, Work& work) {
    Farthest answer(reach);
    walk(answer, work);
    return answer.tuple;
}

}  // namespace dbanon
