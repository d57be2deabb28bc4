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
      splitter_(table, SplitCriterion::kGain),
      first_tuple_(classes.size()),
      class_of_tuple_(table.tuples()),
      is_alive_(classes.size(), 1),
      is_single_tuple_(classes.size()),
      n_classes_(static_cast<std::int32_t>(classes.size())),
      ranges_(classes.size(), columns_.count()),
      low_(classes.size(), columns_.count()),
      high_(classes.size(), columns_.count()),
      shares_(classes.size(), columns_.count()),
      singletons_(table, columns_, SplitCriterion::kGain, NumberPenalty::kWidth),
      singleton_class_(table.tuples(), WideTree::kNoRecord),
      is_in_singletons_(classes.size()),
      growth_(table),
      leaf_of_class_(classes.size()),
      boxes_(columns_.count()) {
    for (std::size_t c = columns_.numbers(); c < columns_.paths_end(); ++c) {
        const Tree& tree = *table.tree(columns_.attribute(c));
        CostByBit& parting = costs_by_bit_.emplace_back();
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
        first_tuple_[i] = first;
        class_of_tuple_[first] = static_cast<std::int32_t>(i);
        is_single_tuple_[i] = tuples.size() == 1 && table.count(first) == 1;
        if (is_single_tuple_[i]) singleton_class_[first] = class_of_tuple_[first];
        n_singles_ += is_single_tuple_[i];
        std::copy_n(table.row(first), table.n_attributes(), low_.row(i));
        std::copy_n(table.row(first), table.n_attributes(), high_.row(i));
        for (const std::int32_t t : tuples) {
            const Code* const row = table.row(t);
            for (std::size_t a = 0; a < columns_.count(); ++a) {
                low_.row(i)[a] = std::min(low_.row(i)[a], row[a]);
                high_.row(i)[a] = std::max(high_.row(i)[a], row[a]);
                const Tree* const tree = table.tree(a);
                if (tree) shares_.row(i)[a] += table.count(t) * tree->share(row[a]);
            }
        }
        update_class(i);
    }
    if (choice_.is_scan()) return;
    build();
    build_singletons();
}

// A class in the layout of the tree's columns.
void ClassTree::update_class(std::size_t id) {
    ClassRange* const ends = ranges_.row(id);
    for (std::size_t c = 0; c < columns_.count(); ++c) {
        const std::size_t a = columns_.attribute(c);
        const Code low = low_.row(id)[a], high = high_.row(id)[a];
        ends[c] = {columns_.value(c, low), columns_.value(c, high), 0};
        if (c >= columns_.numbers()) ends[c].depth = table_.tree(a)->common_depth(low, high);
    }
}

void ClassTree::build() {
    leaves_.clear();
    leaf_slot_.clear();
    node_slot_.clear();
    links_.clear();
    minima_.clear();
    boxes_.resize(0);
    std::vector<std::int32_t> tuples;
    for (std::size_t i = 0; i < first_tuple_.size(); ++i) {
        if (is_alive_[i]) tuples.push_back(first_tuple_[i]);
    }
    root_ = make(tuples, -1);
    n_built_ = n_classes_;
}

void ClassTree::build_singletons() {
    std::vector<std::int32_t> tuples;
    for (std::size_t i = 0; i < first_tuple_.size(); ++i) {
        is_in_singletons_[i] = is_alive_[i] && is_single_tuple_[i];
        if (is_in_singletons_[i]) tuples.push_back(first_tuple_[i]);
    }
    singletons_.build(tuples, singleton_class_);
    n_built_singles_ = n_singles_;
}

// Split the largest part repeatedly until there are enough parts.
std::int32_t ClassTree::make(std::span<std::int32_t> tuples, std::int32_t slot) {
    if (tuples.size() <= kLeafClasses) {
        const auto leaf = static_cast<std::int32_t>(leaves_.size());
        std::vector<std::int32_t>& members = leaves_.emplace_back();
        for (const std::int32_t t : tuples) {
            members.push_back(class_of_tuple_[t]);
            leaf_of_class_[class_of_tuple_[t]] = leaf;
        }
        leaf_slot_.push_back(slot);
        return ~leaf;
    }
    std::span<std::int32_t> parts[kBranches] = {tuples};
    std::size_t count = 1;
    while (count < kBranches) {
        auto* const largest = std::max_element(
            parts, parts + count, [](const auto& a, const auto& b) { return a.size() < b.size(); });
        if (largest->size() <= kLeafClasses) break;
        const std::size_t first = splitter_.split(*largest);
        // Tuples may differ only in their extra columns.
        const std::size_t cut = first ? first : largest->size() / 2;
        parts[count++] = largest->subspan(cut);
        *largest = largest->first(cut);
    }
    return make_node({parts, count}, slot);
}

std::int32_t ClassTree::make_node(std::span<const std::span<std::int32_t>> parts,
                                  std::int32_t slot) {
    const auto node = static_cast<std::int32_t>(node_slot_.size());
    node_slot_.push_back(slot);
    const std::size_t places = node_slot_.size() * kBranches;
    links_.resize(places);
    minima_.resize(places, {0, 0, kNoRecord});
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
    Minima least{kMost, kMost, kNoRecord};
    std::array<const ClassRange*, kLeafClasses> below;
    std::size_t count = 0;
    const auto see = [&](const Minima& child, const ClassRange* ends) {
        least = {std::min(least.size, child.size), std::min(least.each, child.each),
                 std::min(least.id, child.id)};
        below[count++] = ends;
    };
    if (const std::int32_t link = links_[slot]; link < 0) {
        for (const std::int32_t i : leaves_[~link]) {
            if (!is_single_tuple_[i]) see({shapes_.size(i), shapes_.each(i), i}, ranges_.row(i));
        }
    } else {
        for (std::int32_t at = link * kBranches; at < (link + 1) * kBranches; ++at) {
            if (minima_[at].id != kNoRecord) see(minima_[at], boxes_.row(at));
        }
    }
    Minima& summary = minima_[slot];
    bool changed = summary.size != least.size || summary.each != least.each || summary.id != least.id;
    summary = least;
    if (count == 0) return changed;
    ClassRange* const box = boxes_.row(slot);
    for (std::size_t c = 0; c < columns_.count(); ++c) {
        ClassRange all = below[0][c];
        for (std::size_t i = 1; i < count; ++i) {
            const ClassRange& ends = below[i][c];
            all = {std::min(all.low, ends.low), std::max(all.high, ends.high),
                   std::min(all.depth, ends.depth)};
        }
        changed |= box[c].low != all.low || box[c].high != all.high || box[c].depth != all.depth;
        box[c] = all;
    }
    return changed;
}

void ClassTree::record_merge(std::int32_t into, std::int32_t from) {
    for (std::size_t a = 0; a < columns_.count(); ++a) {
        low_.row(into)[a] = std::min(low_.row(into)[a], low_.row(from)[a]);
        high_.row(into)[a] = std::max(high_.row(into)[a], high_.row(from)[a]);
        shares_.row(into)[a] += shares_.row(from)[a];
    }
    update_class(into);
    is_alive_[from] = 0;
    --n_classes_;
    if (scan_) {
        scan_->remove(from);
        scan_->update(into);
        return;
    }
    remove_singleton(into);
    std::erase(leaves_[leaf_of_class_[from]], from);
    for (const std::int32_t changed : {from, into}) {
        std::int32_t slot = leaf_slot_[leaf_of_class_[changed]];
        while (slot >= 0 && refresh(slot)) slot = node_slot_[slot / kBranches];
    }
}

void ClassTree::remove_singleton(std::int32_t id) {
    if (!is_single_tuple_[id]) return;
    is_single_tuple_[id] = 0;
    --n_singles_;
    singleton_class_[first_tuple_[id]] = WideTree::kNoRecord;
    singletons_.update(first_tuple_[id], WideTree::kNoRecord);
}

void ClassTree::rebuild_if_sparse(Work& work) {
    if (choice_.is_scan()) return;
    if (n_classes_ >= kFewClasses && n_classes_ < n_built_ / 2) {
        build();
        work.left -= std::int64_t{n_classes_} * table_.n_attributes();
    }
    if (n_singles_ >= kFewClasses && n_singles_ < n_built_singles_ / 2) {
        build_singletons();
        work.left -= std::int64_t{n_singles_} * table_.n_attributes();
    }
}

void ClassTree::set_extent(std::int32_t query) {
    const std::size_t d = columns_.count();
    extent_.low.assign(low_.row(query), low_.row(query) + d);
    extent_.high.assign(high_.row(query), high_.row(query) + d);
    extent_.share.assign(shares_.row(query), shares_.row(query) + d);
    extent_.size = shapes_.size(query);
}

// Built when it is first used; trees are not used after that.
ClassScan& ClassTree::scan() {
    if (scan_) return *scan_;
    singletons_.clear();
    scan_.emplace(table_, columns_, shapes_, losses_, ranges_);
    scan_->reserve(n_classes_);
    for (std::size_t i = 0; i < is_alive_.size(); ++i) {
        if (is_alive_[i]) scan_->add(static_cast<std::int32_t>(i));
    }
    return *scan_;
}

// The class of one record whose loss grows least; -1 if there is none.
std::int32_t ClassTree::nearest_singleton(std::int32_t query, Work& work) {
    growth_.start(extent_);
    const std::int32_t tuple = singletons_.nearest(growth_, is_in_singletons_[query] ? first_tuple_[query] : -1, work);
    return tuple < 0 ? -1 : class_of_tuple_[tuple];
}

// The minimum growth of the loss of any class below, for n records and the class's own c: the c
// records lose what the merged class loses, the others its difference to before.
Cost ClassTree::lower_bound(std::int32_t slot) const {
    const Minima& least = minima_[slot];
    const ClassRange* const box = boxes_.row(slot);
    const ClassRange* const query_ends = ranges_.row(query_);
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
            const CostByBit& parting = costs_by_bit_[c - columns_.numbers()];
            const auto cost_at_depth = std::bit_width(static_cast<std::uint32_t>(low ^ high));
            depth = parting.depth[cost_at_depth];
            mine += parting.cost[cost_at_depth];
        } else {
            depth = tree.common_depth(low, high);
            const std::size_t a = columns_.attribute(c);
            // Losses per record, which `each` has, too, if they do not depend on the leaf.
            if (tree.has_even_depth()) {
                mine += tree.climb(tree.deepest(), depth);
            } else {
                uneven += size * table_.unit(a) - depth * shares_.row(query_)[a];
            }
        }
        if (box[c].depth > depth) others += (box[c].depth - depth) * tree.smallest_share();
    }
    return std::max(size * mine + least.size * others, size * least.each) + uneven;
}

std::int32_t ClassTree::cheapest(std::int32_t query, Work& work) {
    set_extent(query);
    if (choice_.is_scan()) return scan().cheapest(query, extent_, work);
    const std::int64_t budget = work.left;
    const std::int32_t best = cheapest_in_trees(query, work);
    choice_.add(budget - work.left, n_classes_, true);
    return best;
}

std::int32_t ClassTree::cheapest_in_trees(std::int32_t query, Work& work) {
    query_ = query;
    remove_singleton(query);
    Cost best = std::numeric_limits<Cost>::max();
    std::int32_t best_class = nearest_singleton(query, work);
    if (best_class < 0) {
        best_class = kNoRecord;
    } else {
        best = shapes_.loss(query, best_class);
    }
    const auto look = [&](std::int32_t leaf) {
        for (const std::int32_t other : leaves_[leaf]) {
            if (is_single_tuple_[other] || other == query) continue;
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
    const auto after = [](const OpenNode& a, const OpenNode& b) {
        return a.bound != b.bound ? a.bound > b.bound : a.least > b.least;
    };
    const std::int32_t around = leaf_of_class_[query];
    look(around);
    open_nodes_.clear();
    for (std::int32_t link = root_;;) {
        if (link >= 0) {
            work.left -= kBranches / 2;
            for (std::int32_t at = link * kBranches; at < (link + 1) * kBranches; ++at) {
                if (minima_[at].id == kNoRecord) continue;
                const Cost bound = lower_bound(at);
                if (!may_improve(bound, minima_[at].id)) continue;
                open_nodes_.push_back({bound, minima_[at].id, links_[at]});
                std::push_heap(open_nodes_.begin(), open_nodes_.end(), after);
            }
        } else if (~link != around) {
            look(~link);
        }
        if (open_nodes_.empty()) break;
        std::pop_heap(open_nodes_.begin(), open_nodes_.end(), after);
        const OpenNode top = open_nodes_.back();
        open_nodes_.pop_back();
        // Later entries are worse, or equal with larger classes.
        if (!may_improve(top.bound, top.least)) break;
        link = top.link;
    }
    return best_class == kNoRecord ? -1 : best_class;
}

}  // namespace dbanon
