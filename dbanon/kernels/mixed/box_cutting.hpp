// Chooses the column and the position at which a tree over boxes splits a node. They do not affect
// results, only the number of visited nodes.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "mixed/boxes.hpp"

namespace dbanon {

class BoxSplitter {
   public:
    BoxSplitter(const std::vector<BoxColumn>& columns, const Boxes& boxes)
        : columns_(columns), boxes_(boxes) {}

    // Reorders boxes and returns the size of the first part, at least one and not all; 0 if all are
    // equal.
    std::size_t split(std::span<std::int32_t> members);

   private:
    double gain_of_number(std::size_t is_number);
    double gain_of_tree(std::size_t tree, const BoxColumn& column);
    bool same(std::int32_t a, std::int32_t b) const;
    void sort_by(std::size_t column, std::size_t at, std::span<std::int32_t> members);

    const std::vector<BoxColumn>& columns_;
    const Boxes boxes_;
    std::vector<std::int32_t> sample_, nodes_;
    std::vector<double> middles_;
    std::vector<std::pair<double, std::int32_t>> keys_;  // middle or node, box
};

}  // namespace dbanon
