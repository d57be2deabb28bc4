// Part of box_tree.hpp: the traversal, as a template over the visitor of boxes.
#pragma once

#include <algorithm>

namespace dbanon {

template <class Found>
void BoxTree::within(double limit, const Found& found, Work& work) {
    const auto after = [](const Open& a, const Open& b) { return a.bound > b.bound; };
    open_.clear();
    for (std::int32_t link = root_;;) {
        if (link >= 0) {
            work.left -= kBranches / 2;
            double least[kBranches];
            bounds(link, least);
            for (std::int32_t i = 0; i < kBranches; ++i) {
                const std::int32_t child = links_[link * kBranches + i];
                if (child == link || least[i] > limit) continue;
                open_.push_back({least[i], child});
                std::push_heap(open_.begin(), open_.end(), after);
            }
        } else {
            const std::int32_t leaf = ~link, filled = filled_[leaf];
            work.left -= filled;
            double distances[kLanes];
            costs(leaf, distances);
            for (std::int32_t i = 0; i < filled; ++i) {
                if (distances[i] <= limit) limit = found(distances[i], weight_.row(leaf)[i]);
            }
        }
        if (open_.empty()) return;
        std::pop_heap(open_.begin(), open_.end(), after);
        const Open top = open_.back();
        open_.pop_back();
        if (top.bound > limit) return;
        link = top.link;
    }
}

}  // namespace dbanon
