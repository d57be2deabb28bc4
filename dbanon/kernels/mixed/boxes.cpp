#include "mixed/boxes.hpp"

#include <algorithm>

namespace dbanon {

BoxColumn::BoxColumn(std::vector<std::int32_t> parents)
    : parents_(std::move(parents)), depths_(parents_.size(), 0), heights_(parents_.size(), 0) {
    for (std::size_t node = 1; node < parents_.size(); ++node) {
        depths_[node] = depths_[parents_[node]] + 1;
        levels_ = std::max(levels_, depths_[node]);
    }
    for (std::size_t node = parents_.size(); node-- > 1;) {
        heights_[parents_[node]] = std::max(heights_[parents_[node]], heights_[node] + 1);
    }
}

void BoxColumn::path_to(std::int32_t node, std::int32_t* path, std::size_t stride) const {
    const std::int32_t node_depth = depths_[node];
    for (std::int32_t depth = levels_; depth > node_depth; --depth) {
        path[static_cast<std::size_t>(depth - 1) * stride] = node;
    }
    for (std::int32_t depth = node_depth; depth > 0; --depth) {
        path[static_cast<std::size_t>(depth - 1) * stride] = node;
        node = parents_[node];
    }
}

std::int32_t BoxColumn::common_depth(std::int32_t a, std::int32_t b) const {
    // Parents have smaller numbers, so the larger of two different nodes is not the common
    // ancestor.
    while (a != b) (a > b ? a : b) = parents_[a > b ? a : b];
    return depths_[a];
}

}  // namespace dbanon
