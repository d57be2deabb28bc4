// Builds the tree, and updates it while tuples are removed.
#include <algorithm>

#include "mixed/wide_tree.hpp"

namespace dbanon {

WideTree::WideTree(const MixedTable& table, const Columns& columns, SplitCriterion by, NumberPenalty number_penalty)
    : table_(table),
      columns_(columns),
      ops_(lane_ops(number_penalty)),
      has_masks_(by == SplitCriterion::kGain),
      splitter_(table, by),
      leaves_((columns.count() + 2) * kLanes),
      leaf_(table.tuples(), -1),
      boxes_(2 * columns.count() * kBranches),
      masks_(has_masks_ ? columns.fields() * kBranches : 0),
      low_(columns.numbers()),
      high_(columns.numbers()) {}

void WideTree::clear() {
    for (std::vector<std::int32_t>* const freed : {&n_filled_, &leaf_slot_, &node_slot_, &links_, &least_}) {
        std::vector<std::int32_t>().swap(*freed);
    }
    leaves_ = Grid<Code>(leaves_.width());
    boxes_ = Grid<Code>(boxes_.width());
    masks_ = Grid<std::uint64_t>(masks_.width());
}

void WideTree::build(std::span<std::int32_t> tuples, const std::vector<std::int32_t>& record) {
    clear();
    root_ = make(tuples, record, -1);
}

std::int32_t WideTree::make_leaf(std::span<const std::int32_t> members,
                                 const std::vector<std::int32_t>& record, std::int32_t slot) {
    const auto leaf = static_cast<std::int32_t>(n_filled_.size());
    n_filled_.push_back(static_cast<std::int32_t>(members.size()));
    leaf_slot_.push_back(slot);
    leaves_.resize(n_filled_.size());
    for (std::size_t i = 0; i < members.size(); ++i) {
        const std::int32_t t = members[i];
        leaf_[t] = leaf;
        records(leaf)[i] = record[t];
        tuples(leaf)[i] = t;
        for (std::size_t c = 0; c < columns_.count(); ++c) {
            values(leaf, c)[i] = columns_.value(c, table_.row(t)[columns_.attribute(c)]);
        }
    }
    return ~leaf;
}

// Split the largest part repeatedly until there are enough parts.
std::int32_t WideTree::make(std::span<std::int32_t> members,
                            const std::vector<std::int32_t>& record, std::int32_t slot) {
    if (members.size() <= kLanes) return make_leaf(members, record, slot);
    std::span<std::int32_t> parts[kBranches] = {members};
    std::int32_t count = 1;
    while (count < kBranches) {
        auto* const largest = std::max_element(
            parts, parts + count, [](const auto& a, const auto& b) { return a.size() < b.size(); });
        if (largest->size() <= kLanes) break;
        const std::size_t first = splitter_.split(*largest);
        // Tuples may differ only in their extra columns.
        const std::size_t cut = first ? first : largest->size() / 2;
        parts[count++] = largest->subspan(cut);
        *largest = largest->first(cut);
    }
    const auto node = static_cast<std::int32_t>(node_slot_.size());
    node_slot_.push_back(slot);
    boxes_.resize(node_slot_.size());
    masks_.resize(node_slot_.size());
    links_.resize(node_slot_.size() * kBranches, 0);
    least_.resize(node_slot_.size() * kBranches, kNoRecord);
    for (std::int32_t i = 0; i < count; ++i) {
        const std::int32_t at = node * kBranches + i;
        const std::int32_t child = make(parts[i], record, at);
        link(at) = child;
        refresh(at);
    }
    return node;
}

void WideTree::update(std::int32_t tuple, std::int32_t record) {
    const std::int32_t leaf = leaf_[tuple];
    Code* const ids = tuples(leaf);
    const auto lane = std::find(ids, ids + n_filled_[leaf], tuple) - ids;
    std::int32_t slot = leaf_slot_[leaf];
    if (record == kNoRecord) {
        const std::int32_t last = --n_filled_[leaf];
        Code* const all = records(leaf);
        for (std::size_t row = 0; row < columns_.count() + 2; ++row) {
            all[row * kLanes + static_cast<std::size_t>(lane)] =
                all[row * kLanes + static_cast<std::size_t>(last)];
        }
    } else {
        records(leaf)[lane] = record;
    }
    while (slot >= 0 && refresh(slot)) slot = node_slot_[slot / kBranches];
}

// A node's summary of a child; returns whether it changed.
bool WideTree::refresh(std::int32_t slot) {
    const std::int32_t child = link(slot);
    return child < 0 ? refresh_leaf(~child, slot) : refresh_node(child, slot);
}

namespace {

template <class Value>
bool put(Value& at, Value value) {
    const bool changed = at != value;
    at = value;
    return changed;
}

}  // namespace

bool WideTree::refresh_leaf(std::int32_t leaf, std::int32_t slot) {
    const std::int32_t n_filled = n_filled_[leaf];
    const Code* record = records(leaf);
    bool changed = put(least(slot), n_filled ? *std::min_element(record, record + n_filled) : kNoRecord);
    if (n_filled == 0) return changed;
    const std::int32_t node = slot / kBranches, child = slot % kBranches;
    for (std::size_t c = 0; c < columns_.count(); ++c) {
        const Code* value = values(leaf, c);
        Code low = value[0], high = value[0];
        for (std::int32_t i = 1; i < n_filled; ++i) {
            low = std::min(low, value[i]);
            high = std::max(high, value[i]);
        }
        Code* const box = boxes_.row(node) + 2 * c * kBranches + child;
        changed |= put(box[0], low);
        changed |= put(box[kBranches], high);
        if (!has_masks_ || c < columns_.numbers() || c >= columns_.paths_end()) continue;
        std::uint64_t* mask = masks_.row(node) + columns_.fields_before(c) * kBranches + child;
        for (const Field& field : columns_.fields(c)) {
            std::uint64_t prefixes = 0;
            for (std::int32_t i = 0; i < n_filled; ++i) prefixes |= prefix_bit(value[i], field.shift);
            changed |= put(*mask, prefixes);
            mask += kBranches;
        }
    }
    return changed;
}

bool WideTree::refresh_node(std::int32_t below, std::int32_t slot) {
    const std::int32_t* const smallest = least_.data() + below * kBranches;
    std::int32_t live[kBranches], count = 0, record = kNoRecord;
    for (std::int32_t i = 0; i < kBranches; ++i) {
        if (smallest[i] == kNoRecord) continue;
        live[count++] = i;
        record = std::min(record, smallest[i]);
    }
    bool changed = put(least(slot), record);
    if (count == 0) return changed;
    const std::int32_t node = slot / kBranches, child = slot % kBranches;
    for (std::size_t c = 0; c < columns_.count(); ++c) {
        const Code* low = boxes_.row(below) + 2 * c * kBranches;
        const Code* high = low + kBranches;
        Code lowest = low[live[0]], highest = high[live[0]];
        for (std::int32_t i = 1; i < count; ++i) {
            lowest = std::min(lowest, low[live[i]]);
            highest = std::max(highest, high[live[i]]);
        }
        Code* const box = boxes_.row(node) + 2 * c * kBranches + child;
        changed |= put(box[0], lowest);
        changed |= put(box[kBranches], highest);
    }
    for (std::size_t m = 0; m < masks_.width(); m += kBranches) {
        std::uint64_t prefixes = 0;
        for (std::int32_t i = 0; i < count; ++i) prefixes |= masks_.row(below)[m + live[i]];
        changed |= put(masks_.row(node)[m + child], prefixes);
    }
    return changed;
}

}  // namespace dbanon
