// Part of box_tree.hpp: the traversal, as a template over the visitor of boxes.
#pragma once

#include <algorithm>

namespace dbanon {

template <class Visitor>
void BoxTree::visit_within(double limit, const Visitor& visit, Work& work) {
    const auto after = [](const OpenNode& a, const OpenNode& b) { return a.bound > b.bound; };
    open_nodes_.clear();
    for (std::int32_t link = root_;;) {
        if (link >= 0) {
            work.left -= kBranches / 2;
            double least[kBranches];
            bounds(link, least);
            for (std::int32_t i = 0; i < kBranches; ++i) {
                const std::int32_t child = links_[link * kBranches + i];
                if (child == link || least[i] > limit) continue;
                open_nodes_.push_back({least[i], child});
                std::push_heap(open_nodes_.begin(), open_nodes_.end(), after);
            }
        } else {
            const std::int32_t leaf = ~link, n_filled = n_filled_[leaf];
            work.left -= n_filled;
            double distances[kLanes];
            costs(leaf, distances);
            for (std::int32_t i = 0; i < n_filled; ++i) {
                if (distances[i] <= limit) limit = visit(distances[i], weight_.row(leaf)[i]);
            }
        }
        if (open_nodes_.empty()) return;
        std::pop_heap(open_nodes_.begin(), open_nodes_.end(), after);
        const OpenNode top = open_nodes_.back();
        open_nodes_.pop_back();
        if (top.bound > limit) return;
        link = top.link;
    }
}

}  // namespace dbanon
