// The attributes of a mixed table in the order of lanes.hpp: numbers, then trees with all leaves at
// one depth, by paths, then other trees.
#pragma once

#include "mixed/mixed.hpp"

namespace dbanon {

// A bit field in the paths of a tree: paths that differ in it but not above have their lowest
// common ancestor at `depth`.
struct Field {
    std::int32_t shift, depth;
};

// The bit of a path's prefix, down to the field with this shift, in a 64-bit hash.
inline std::uint64_t prefix_bit(Code path, std::int32_t shift) {
    const std::uint32_t prefix = static_cast<std::uint32_t>(path) >> shift;
    return std::uint64_t{1} << (prefix * 2654435761u >> 26);
}

// A path is a positive 32-bit number.
constexpr int kPathBits = 31;

// The paths of all leaves of a tree, by position, and their fields, the root's first; empty for an
// uneven tree, or if paths need more than `most` bits.
std::vector<Code> paths_of(const Tree& tree, std::vector<Field>& fields, int most = kPathBits);

class Columns {
   public:
    // bits: the limit for paths; trees that need more are among the others.
    explicit Columns(const MixedTable& table, int bits = kPathBits);

    std::size_t count() const { return attributes_.size(); }
    std::size_t numbers() const { return numbers_; }
    // Columns numbers() to paths_end() - 1 are paths.
    std::size_t paths_end() const { return numbers_ + paths_.size(); }
    std::size_t attribute(std::size_t column) const { return attributes_[column]; }

    // The entries of a column that represent a code.
    Code value(std::size_t column, Code code) const {
        return column < numbers_ || column >= paths_end() ? code : paths_[column - numbers_][code];
    }
    // The fields of a path column, the root's first.
    const std::vector<Field>& fields(std::size_t column) const { return fields_[column - numbers_]; }
    // The number of fields of all columns, and of those before a column.
    std::size_t fields() const { return before_.back(); }
    std::size_t fields_before(std::size_t column) const { return before_[column - numbers_]; }

   private:
    std::size_t numbers_;
    std::vector<std::size_t> attributes_, before_;
    std::vector<std::vector<Code>> paths_;
    std::vector<std::vector<Field>> fields_;
};

}  // namespace dbanon
