// By which attribute, and where, a tree over tuples parts those of a node. Answers of the tree do
// not depend on it, only how many nodes a question looks into.
#pragma once

#include <span>

#include "mixed/mixed.hpp"

namespace dbanon {

enum class CutBy {
    // Split numbers first, by their range: the farthest records are at the ends of numbers, and a
    // tree split by categories first would visit those ends in every combination of categories.
    kRange,
    // What tells most for each bit: the expected distance between two tuples that a cut ends, over
    // the entropy that it takes. A category of thousands of values takes too many cuts to be first.
    kGain,
};

class Cutting {
   public:
    Cutting(const MixedTable& table, CutBy by) : table_(table), by_(by) {}

    // Orders tuples and returns how many belong to the first part, at least one and not all; 0 when
    // their codes are equal.
    std::size_t cut(std::span<std::int32_t> tuples);

   private:
    void sample(std::span<const std::int32_t> tuples, std::size_t a);
    double gain_of_number() const;
    double gain_of_tree(std::size_t a);
    int choose(std::span<const std::int32_t> tuples);
    int differing(std::span<const std::int32_t> tuples) const;
    std::size_t middle_of_number();
    std::size_t middle_of_tree(const Tree& tree);

    const MixedTable& table_;
    const CutBy by_;
    std::vector<Code> sampled_;        // ascending codes of one attribute
    std::vector<std::int32_t> apart_;  // depth at which each two next to each other part
    std::vector<std::uint64_t> keys_;  // code, then tuple
};

}  // namespace dbanon
