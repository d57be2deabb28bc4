#include "mixed/reach.hpp"

namespace dbanon {

void Reach::start(std::int32_t tuple) {
    const Code* row = table_.row(tuple);
    low_.assign(row, row + table_.n_attributes());
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
        if (tree) depth_[a] = tree->common_depth(low_[a], high_[a]);
    }
}

Cost Reach::distance(std::size_t a, Code code) const {
    const Code l = std::min(low_[a], code), h = std::max(high_[a], code);
    const Tree* tree = table_.tree(a);
    if (!tree) return 2 * Cost{h - l};
    const std::int32_t depth = tree->common_depth(l, h);
    return tree->climb(tree->depth(code), depth) + tree->climb(depth_[a], depth);
}

Cost Reach::distance(std::int32_t tuple, Cost limit) const {
    const Code* row = table_.row(tuple);
    Cost sum = 0;
    for (std::size_t a = 0; a < low_.size(); ++a) {
        sum += distance(a, row[a]);
        if (sum > limit) return sum;
    }
    return sum;
}

Cost Reach::lower_bound(std::size_t a, Code low, Code high) const {
    // The class extended to the nearest end of the box; inside the box, the class itself.
    const Code l = std::min(low_[a], high), h = std::max(high_[a], low);
    const Tree* tree = table_.tree(a);
    if (!tree) return 2 * Cost{h - l};
    const std::int32_t depth = tree->common_depth(l, h);
    const std::int32_t leaf = low == high ? tree->depth(low) : tree->shallowest();
    return (leaf > depth ? tree->climb(leaf, depth) : 0) + tree->climb(depth_[a], depth);
}

Cost Reach::lower_bound(const Code* low, const Code* high, Cost limit) const {
    Cost sum = 0;
    for (std::size_t a = 0; a < low_.size(); ++a) {
        sum += lower_bound(a, low[a], high[a]);
        if (sum > limit) return sum;
    }
    return sum;
}

Cost Reach::upper_bound(std::size_t a, Code low, Code high) const {
    const Code l = std::min(low_[a], low), h = std::max(high_[a], high);
    const Tree* tree = table_.tree(a);
    if (!tree) return 2 * Cost{h - l};
    const std::int32_t depth = tree->common_depth(l, h);
    return tree->climb(tree->deepest(), depth) + tree->climb(depth_[a], depth);
}

Cost Growth::distance(std::int32_t tuple) const {
    const Code* row = table_.row(tuple);
    Cost sum = 0;
    for (std::size_t a = 0; a < extent_.low.size(); ++a) sum += distance(a, row[a]);
    return sum;
}

Cost Growth::lower_bound(std::size_t a, Code low, Code high) const {
    const Code l = std::min(extent_.low[a], high), h = std::max(extent_.high[a], low);
    if (l == h) return 0;
    const Tree* tree = table_.tree(a);
    if (!tree) return (extent_.size + 1) * (h - l);
    const Cost share = low == high ? tree->share(low) : tree->largest_share();
    return (extent_.size + 1) * table_.unit(a) - tree->common_depth(l, h) * (extent_.share[a] + share);
}

}  // namespace dbanon
