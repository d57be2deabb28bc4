#include "mixed/columns.hpp"

#include <bit>

namespace dbanon {

std::vector<Code> paths_of(const Tree& tree, std::vector<Field>& fields, int most) {
    if (!tree.has_even_depth() || tree.deepest() > kPathBits) return {};
    const std::size_t depths = static_cast<std::size_t>(tree.deepest());
    const auto leaves = static_cast<std::size_t>(tree.leaves());
    // Children on the path to each leaf; a field has room for the largest number at its depth.
    Grid<Code> child(leaves, depths);
    std::vector<Code> largest(depths, 0);
    for (std::size_t leaf = 1; leaf < leaves; ++leaf) {
        const auto parts = static_cast<std::size_t>(
            tree.common_depth(static_cast<Code>(leaf) - 1, static_cast<Code>(leaf)));
        child.copy(leaf - 1, leaf);
        Code* path = child.row(leaf);
        ++path[parts];
        std::fill(path + parts + 1, path + depths, 0);
        largest[parts] = std::max(largest[parts], path[parts]);
    }
    std::vector<int> shifts(depths);
    int bits = 0;
    for (std::size_t depth = depths; depth-- > 0;) {
        shifts[depth] = bits;
        bits += std::bit_width(static_cast<std::uint32_t>(largest[depth]));
    }
    if (bits > most) return {};
    for (std::size_t depth = 0; depth < depths; ++depth) {
        // If every node has only one child, no field is needed.
        if (largest[depth]) fields.push_back({shifts[depth], static_cast<std::int32_t>(depth)});
    }
    std::vector<Code> paths(leaves, 0);
    for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
        for (const Field& field : fields) paths[leaf] |= child.row(leaf)[field.depth] << field.shift;
    }
    return paths;
}

Columns::Columns(const MixedTable& table, int bits) : before_{0} {
    std::vector<std::size_t> others;
    for (std::size_t a = 0; a < static_cast<std::size_t>(table.n_attributes()); ++a) {
        if (!table.tree(a)) attributes_.push_back(a);
    }
    numbers_ = attributes_.size();
    for (std::size_t a = 0; a < static_cast<std::size_t>(table.n_attributes()); ++a) {
        const Tree* tree = table.tree(a);
        if (!tree) continue;
        std::vector<Field> fields;
        std::vector<Code> paths = paths_of(*tree, fields, bits);
        if (paths.empty()) {
            others.push_back(a);
            continue;
        }
        attributes_.push_back(a);
        before_.push_back(before_.back() + fields.size());
        paths_.push_back(std::move(paths));
        fields_.push_back(std::move(fields));
    }
    attributes_.insert(attributes_.end(), others.begin(), others.end());
}

}  // namespace dbanon
