#include "mixed/class_tree.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace dbanon {

namespace {

// Smaller trees are not rebuilt.
constexpr std::int32_t kFewClasses = 32;

}  // namespace

ClassTree::ClassTree(const MixedTable& table, const std::vector<std::vector<std::int32_t>>& classes,
                     const Shapes& shapes, const std::vector<Cost>& losses)
    : table_(table),
      columns_(table),
      shapes_(shapes),
      losses_(losses),
      cutting_(table, CutBy::kGain),
      first_(classes.size()),
      class_(table.tuples()),
      alive_(classes.size(), 1),
      single_(classes.size()),
      count_(static_cast<std::int32_t>(classes.size())),
      ends_(classes.size(), columns_.count()),
      low_(classes.size(), columns_.count()),
      high_(classes.size(), columns_.count()),
      shares_(classes.size(), columns_.count()),
      lone_(table, columns_, CutBy::kGain, Outside::kWidth),
      lone_class_(table.tuples(), WideTree::kNone),
      in_lone_(classes.size()),
      growth_(table),
      leaf_(classes.size()),
      boxes_(columns_.count()) {
    for (std::size_t c = columns_.numbers(); c < columns_.paths_end(); ++c) {
        const Tree& tree = *table.tree(columns_.attribute(c));
        Parting& parting = partings_.emplace_back();
        parting.depth.fill(-1);
        parting.depth[0] = tree.deepest();
        for (const Field& field : columns_.fields(c)) {
            // The root's field comes first, so later fields use the bits below it.
            const auto from = static_cast<std::size_t>(field.shift) + 1;
            for (std::size_t bit = from; bit < parting.depth.size() && parting.depth[bit] < 0; ++bit) {
                parting.depth[bit] = field.depth;
                parting.cost[bit] = tree.climb(tree.deepest(), field.depth);
            }
        }
    }
    for (std::size_t i = 0; i < classes.size(); ++i) {
        const std::vector<std::int32_t>& tuples = classes[i];
        const std::int32_t first = tuples.front();
        first_[i] = first;
        class_[first] = static_cast<std::int32_t>(i);
        single_[i] = tuples.size() == 1 && table.count(first) == 1;
        if (single_[i]) lone_class_[first] = class_[first];
        singles_ += single_[i];
        std::copy_n(table.row(first), table.d(), low_.row(i));
        std::copy_n(table.row(first), table.d(), high_.row(i));
        for (const std::int32_t t : tuples) {
            const Code* const row = table.row(t);
            for (std::size_t a = 0; a < columns_.count(); ++a) {
                low_.row(i)[a] = std::min(low_.row(i)[a], row[a]);
                high_.row(i)[a] = std::max(high_.row(i)[a], row[a]);
                const Tree* const tree = table.tree(a);
                if (tree) shares_.row(i)[a] += table.count(t) * tree->share(row[a]);
            }
        }
        settle(i);
    }
    build();
    build_lone();
}

// A class in the layout of the tree's columns.
void ClassTree::settle(std::size_t id) {
    Ends* const ends = ends_.row(id);
    for (std::size_t c = 0; c < columns_.count(); ++c) {
        const std::size_t a = columns_.attribute(c);
        const Code low = low_.row(id)[a], high = high_.row(id)[a];
        ends[c] = {columns_.value(c, low), columns_.value(c, high), 0};
        if (c >= columns_.numbers()) ends[c].depth = table_.tree(a)->common(low, high);
    }
}

void ClassTree::build() {
    leaves_.clear();
    leaf_place_.clear();
    node_place_.clear();
    links_.clear();
    least_.clear();
    boxes_.resize(0);
    std::vector<std::int32_t> tuples;
    for (std::size_t i = 0; i < first_.size(); ++i) {
        if (alive_[i]) tuples.push_back(first_[i]);
    }
    root_ = make(tuples, -1);
    built_ = count_;
}

void ClassTree::build_lone() {
    std::vector<std::int32_t> tuples;
    for (std::size_t i = 0; i < first_.size(); ++i) {
        in_lone_[i] = alive_[i] && single_[i];
        if (in_lone_[i]) tuples.push_back(first_[i]);
    }
    lone_.build(tuples, lone_class_);
    singles_built_ = singles_;
}

// Split the largest part repeatedly until there are enough parts.
std::int32_t ClassTree::make(std::span<std::int32_t> tuples, std::int32_t slot) {
    if (tuples.size() <= kLeaf) {
        const auto leaf = static_cast<std::int32_t>(leaves_.size());
        std::vector<std::int32_t>& members = leaves_.emplace_back();
        for (const std::int32_t t : tuples) {
            members.push_back(class_[t]);
            leaf_[class_[t]] = leaf;
        }
        leaf_place_.push_back(slot);
        return ~leaf;
    }
    std::span<std::int32_t> parts[kBranches] = {tuples};
    std::size_t count = 1;
    while (count < kBranches) {
        auto* const largest = std::max_element(
            parts, parts + count, [](const auto& a, const auto& b) { return a.size() < b.size(); });
        if (largest->size() <= kLeaf) break;
        const std::size_t first = cutting_.cut(*largest);
        // Tuples may differ only in their extra columns.
        const std::size_t cut = first ? first : largest->size() / 2;
        parts[count++] = largest->subspan(cut);
        *largest = largest->first(cut);
    }
    return make_node({parts, count}, slot);
}

std::int32_t ClassTree::make_node(std::span<const std::span<std::int32_t>> parts,
                                  std::int32_t slot) {
    const auto node = static_cast<std::int32_t>(node_place_.size());
    node_place_.push_back(slot);
    const std::size_t places = node_place_.size() * kBranches;
    links_.resize(places);
    least_.resize(places, {0, 0, kNone});
    boxes_.resize(places);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::int32_t at = node * kBranches + static_cast<std::int32_t>(i);
        const std::int32_t child = make(parts[i], at);
        links_[at] = child;
        refresh(at);
    }
    return node;
}

// Updates the summary of a child; returns whether it changed.
bool ClassTree::refresh(std::int32_t slot) {
    constexpr Cost kMost = std::numeric_limits<Cost>::max();
    Least least{kMost, kMost, kNone};
    std::array<const Ends*, kLeaf> below;
    std::size_t count = 0;
    const auto see = [&](const Least& child, const Ends* ends) {
        least = {std::min(least.size, child.size), std::min(least.each, child.each),
                 std::min(least.id, child.id)};
        below[count++] = ends;
    };
    if (const std::int32_t link = links_[slot]; link < 0) {
        for (const std::int32_t i : leaves_[~link]) {
            if (!single_[i]) see({shapes_.size(i), shapes_.each(i), i}, ends_.row(i));
        }
    } else {
        for (std::int32_t at = link * kBranches; at < (link + 1) * kBranches; ++at) {
            if (least_[at].id != kNone) see(least_[at], boxes_.row(at));
        }
    }
    Least& summary = least_[slot];
    bool changed = summary.size != least.size || summary.each != least.each || summary.id != least.id;
    summary = least;
    if (count == 0) return changed;
    Ends* const box = boxes_.row(slot);
    for (std::size_t c = 0; c < columns_.count(); ++c) {
        Ends all = below[0][c];
        for (std::size_t i = 1; i < count; ++i) {
            const Ends& ends = below[i][c];
            all = {std::min(all.low, ends.low), std::max(all.high, ends.high),
                   std::min(all.depth, ends.depth)};
        }
        changed |= box[c].low != all.low || box[c].high != all.high || box[c].depth != all.depth;
        box[c] = all;
    }
    return changed;
}

void ClassTree::joined(std::int32_t into, std::int32_t from) {
    for (std::size_t a = 0; a < columns_.count(); ++a) {
        low_.row(into)[a] = std::min(low_.row(into)[a], low_.row(from)[a]);
        high_.row(into)[a] = std::max(high_.row(into)[a], high_.row(from)[a]);
        shares_.row(into)[a] += shares_.row(from)[a];
    }
    settle(into);
    leave_lone(into);
    alive_[from] = 0;
    --count_;
    std::erase(leaves_[leaf_[from]], from);
    for (const std::int32_t changed : {from, into}) {
        std::int32_t slot = leaf_place_[leaf_[changed]];
        while (slot >= 0 && refresh(slot)) slot = node_place_[slot / kBranches];
    }
}

void ClassTree::leave_lone(std::int32_t id) {
    if (!single_[id]) return;
    single_[id] = 0;
    --singles_;
    lone_class_[first_[id]] = WideTree::kNone;
    lone_.update(first_[id], WideTree::kNone);
}

void ClassTree::tidy(Work& work) {
    if (count_ >= kFewClasses && count_ < built_ / 2) {
        build();
        work.left -= std::int64_t{count_} * table_.d();
    }
    if (singles_ >= kFewClasses && singles_ < singles_built_ / 2) {
        build_lone();
        work.left -= std::int64_t{singles_} * table_.d();
    }
}

// The class of one record whose loss grows least; -1 if there is none.
std::int32_t ClassTree::nearest_lone(std::int32_t query, Work& work) {
    const std::size_t d = columns_.count();
    extent_.low.assign(low_.row(query), low_.row(query) + d);
    extent_.high.assign(high_.row(query), high_.row(query) + d);
    extent_.share.assign(shares_.row(query), shares_.row(query) + d);
    extent_.size = shapes_.size(query);
    growth_.start(extent_);
    const std::int32_t tuple = lone_.nearest(growth_, in_lone_[query] ? first_[query] : -1, work);
    return tuple < 0 ? -1 : class_[tuple];
}

// The minimum growth of the loss of any class below, for n records and the class's own c: the c
// records lose what the merged class loses, the others its difference to before.
Cost ClassTree::at_least(std::int32_t slot) const {
    const Least& least = least_[slot];
    const Ends* const box = boxes_.row(slot);
    const Ends* const query_ends = ends_.row(query_);
    const Cost size = shapes_.size(query_);
    Cost mine = 0, others = 0, uneven = 0;
    std::size_t c = 0;
    for (; c < columns_.numbers(); ++c) {
        // The class extended to the nearest end of the box; inside the box, the class itself.
        mine += std::max(query_ends[c].high, box[c].low) - std::min(query_ends[c].low, box[c].high);
        others += std::max(box[c].low - query_ends[c].low, 0) + std::max(query_ends[c].high - box[c].high, 0);
    }
    for (; c < columns_.count(); ++c) {
        const Tree& tree = *table_.tree(columns_.attribute(c));
        const Code low = std::min(query_ends[c].low, box[c].high), high = std::max(query_ends[c].high, box[c].low);
        if (low == high) continue;
        std::int32_t depth;
        if (c < columns_.paths_end()) {
            const Parting& parting = partings_[c - columns_.numbers()];
            const auto parted = std::bit_width(static_cast<std::uint32_t>(low ^ high));
            depth = parting.depth[parted];
            mine += parting.cost[parted];
        } else {
            depth = tree.common(low, high);
            const std::size_t a = columns_.attribute(c);
            uneven += size * table_.unit(a) - depth * shares_.row(query_)[a];
        }
        if (box[c].depth > depth) others += (box[c].depth - depth) * tree.smallest_share();
    }
    return std::max(size * mine + least.size * others, size * least.each) + uneven;
}

std::int32_t ClassTree::cheapest(std::int32_t query, Work& work) {
    query_ = query;
    leave_lone(query);
    Cost best = std::numeric_limits<Cost>::max();
    std::int32_t best_class = nearest_lone(query, work);
    if (best_class < 0) {
        best_class = kNone;
    } else {
        best = shapes_.loss(query, best_class);
    }
    const auto look = [&](std::int32_t leaf) {
        for (const std::int32_t other : leaves_[leaf]) {
            if (single_[other] || other == query) continue;
            const Cost increase = shapes_.loss(query, other) - losses_[other];
            if (increase > best || (increase == best && other > best_class)) continue;
            best = increase;
            best_class = other;
        }
        work.left -= static_cast<std::int64_t>(leaves_[leaf].size());
    };
    const auto may_improve = [&](Cost bound, std::int32_t least) {
        return bound == best ? least < best_class : bound < best;
    };
    // The best bound on top, the smallest class among equal ones.
    const auto after = [](const Open& a, const Open& b) {
        return a.bound != b.bound ? a.bound > b.bound : a.least > b.least;
    };
    const std::int32_t around = leaf_[query];
    look(around);
    open_.clear();
    for (std::int32_t link = root_;;) {
        if (link >= 0) {
            work.left -= kBranches / 2;
            for (std::int32_t at = link * kBranches; at < (link + 1) * kBranches; ++at) {
                if (least_[at].id == kNone) continue;
                const Cost bound = at_least(at);
                if (!may_improve(bound, least_[at].id)) continue;
                open_.push_back({bound, least_[at].id, links_[at]});
                std::push_heap(open_.begin(), open_.end(), after);
            }
        } else if (~link != around) {
            look(~link);
        }
        if (open_.empty()) break;
        std::pop_heap(open_.begin(), open_.end(), after);
        const Open top = open_.back();
        open_.pop_back();
        // Later entries are worse, or equal with larger classes.
        if (!may_improve(top.bound, top.least)) break;
        link = top.link;
    }
    return best_class == kNone ? -1 : best_class;
}

}  // namespace dbanon
