// Chooses the attribute and the position at which a tree over tuples splits a node. They do not
// affect results, only the number of visited nodes.
#pragma once

#include <span>

#include "mixed/mixed.hpp"

namespace dbanon {

enum class SplitCriterion {
    // Split numbers first, by their range: the farthest records are at the ends of numbers, and a
    // tree split by categories first would visit those ends in every combination of categories.
    kRange,
    // The most information per bit: the expected distance between two tuples that a cut separates,
    // divided by the cut's entropy. A category with thousands of values needs too many cuts to come
    // first.
    kGain,
};

class TupleSplitter {
   public:
    TupleSplitter(const MixedTable& table, SplitCriterion by) : table_(table), criterion_(by) {}

    // Reorders tuples and returns the size of the first part, at least one and not all; 0 if their
    // codes are equal.
    std::size_t split(std::span<std::int32_t> tuples);

   private:
    void sample(std::span<const std::int32_t> tuples, std::size_t a);
    double gain_of_number() const;
    double gain_of_tree(std::size_t a);
    int choose_attribute(std::span<const std::int32_t> tuples);
    int first_differing_attribute(std::span<const std::int32_t> tuples) const;
    std::size_t split_number();
    std::size_t split_tree(const Tree& tree);

    const MixedTable& table_;
    const SplitCriterion criterion_;
    std::vector<Code> sampled_;        // ascending codes of one attribute
    std::vector<std::int32_t> separation_depths_;  // depth at which each adjacent pair separates
    std::vector<std::uint64_t> keys_;  // code, then tuple
};

}  // namespace dbanon
