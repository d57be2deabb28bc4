#include "mixed/mixed.hpp"

#include <bit>

namespace dbanon {

namespace {

// Up to here a tree keeps the depth of every pair of leaves: at most 1 MiB.
constexpr std::size_t kTabledLeaves = 1024;

std::uint64_t hash(const Code* row, std::size_t d) {
    std::uint64_t h = 0x9E3779B97F4A7C15u;
    for (std::size_t a = 0; a < d; ++a) {
        h ^= static_cast<std::uint32_t>(row[a]);
        h *= 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    return h;
}

}  // namespace

Tree::Tree(std::vector<std::int32_t> depths, std::vector<std::int32_t> gaps, Cost unit)
    : unit_(unit), depth_(std::move(depths)) {
    const auto [least, most] = std::minmax_element(depth_.begin(), depth_.end());
    shallowest_ = *least;
    deepest_ = *most;
    share_.resize(static_cast<std::size_t>(deepest_) + 1, 0);
    for (std::size_t depth = 1; depth < share_.size(); ++depth) {
        share_[depth] = unit / static_cast<Cost>(depth);
    }
    const std::size_t n = depth_.size();
    if (n <= kTabledLeaves && deepest_ < 256) {
        table_.assign(n, n);
        for (std::size_t low = 0; low < n; ++low) {
            std::int32_t depth = depth_[low];
            table_.row(low)[low] = static_cast<std::uint8_t>(depth);
            for (std::size_t high = low + 1; high < n; ++high) {
                depth = std::min(depth, gaps[high - 1]);
                table_.row(low)[high] = static_cast<std::uint8_t>(depth);
            }
        }
        return;
    }
    minima_.push_back(std::move(gaps));
    for (std::size_t span = 1; 2 * span <= n - 1; span *= 2) {
        const std::vector<std::int32_t>& half = minima_.back();
        std::vector<std::int32_t> next(half.size() - span);
        for (std::size_t i = 0; i < next.size(); ++i) next[i] = std::min(half[i], half[i + span]);
        minima_.push_back(std::move(next));
    }
}

std::int32_t Tree::lowest_gap(Code low, Code high) const {
    const auto span = static_cast<std::uint32_t>(high - low);
    const std::size_t power = std::bit_width(span) - 1;
    const std::vector<std::int32_t>& minima = minima_[power];
    return std::min(minima[low],
                    minima[static_cast<std::size_t>(high) - (std::size_t{1} << power)]);
}

MixedTable::MixedTable(const Code* codes, std::int32_t n, std::vector<Cost> units,
                       std::vector<std::unique_ptr<Tree>> trees, const Code* extra_columns,
                       std::size_t width)
    : units_(std::move(units)), trees_(std::move(trees)), rows_(units_.size() + width) {
    const std::size_t d = units_.size();
    std::vector<Code> all(rows_.width());
    const std::size_t slots = std::bit_ceil(2 * static_cast<std::size_t>(n) + 1);
    std::vector<std::int32_t> slot(slots, -1);
    std::vector<std::int32_t> counts;
    tuple_of_.resize(n);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        std::copy_n(codes + i * d, d, all.begin());
        if (width) std::copy_n(extra_columns + i * width, width, all.data() + d);
        const Code* row = all.data();
        std::size_t at = hash(row, all.size()) & (slots - 1);
        while (slot[at] >= 0 && !std::equal(all.begin(), all.end(), rows_.row(slot[at]))) {
            at = (at + 1) & (slots - 1);
        }
        if (slot[at] < 0) {
            slot[at] = static_cast<std::int32_t>(counts.size());
            counts.push_back(0);
            rows_.add(row);
        }
        tuple_of_[i] = slot[at];
        ++counts[slot[at]];
    }
    starts_.assign(counts.size() + 1, 0);
    for (std::size_t t = 0; t < counts.size(); ++t) starts_[t + 1] = starts_[t] + counts[t];
    copies_.resize(n);
    std::vector<std::int32_t> next(starts_.begin(), starts_.end() - 1);
    for (std::int32_t i = 0; i < n; ++i) {
        const std::size_t t = tuple_of(i);
        copies_[next[t]++] = i;
    }
}

void Extent::start(const MixedTable& table, std::int32_t tuple, Cost copies) {
    const Code* row = table.row(tuple);
    const std::size_t d = table.n_attributes();
    low.assign(row, row + d);
    high = low;
    share.assign(d, 0);
    size = 0;
    add(table, tuple, copies);
}

void Extent::add(const MixedTable& table, std::int32_t tuple, Cost copies) {
    const Code* row = table.row(tuple);
    for (std::size_t a = 0; a < low.size(); ++a) {
        low[a] = std::min(low[a], row[a]);
        high[a] = std::max(high[a], row[a]);
        if (const Tree* tree = table.tree(a)) {
            share[a] += copies * tree->share(row[a]);
        }
    }
    size += copies;
}

Cost Extent::loss(const MixedTable& table) const {
    Cost sum = 0;
    for (std::size_t a = 0; a < low.size(); ++a) {
        if (low[a] == high[a]) continue;
        if (const Tree* tree = table.tree(a)) {
            sum += size * table.unit(a) - tree->common_depth(low[a], high[a]) * share[a];
        } else {
            sum += size * (high[a] - low[a]);
        }
    }
    return sum;
}

Cost Extent::loss_with(const MixedTable& table, std::int32_t tuple) const {
    const Code* row = table.row(tuple);
    Cost sum = 0;
    for (std::size_t a = 0; a < low.size(); ++a) {
        const Code l = std::min(low[a], row[a]), h = std::max(high[a], row[a]);
        if (l == h) continue;
        if (const Tree* tree = table.tree(a)) {
            sum += (size + 1) * table.unit(a) -
                   tree->common_depth(l, h) * (share[a] + tree->share(row[a]));
        } else {
            sum += (size + 1) * (h - l);
        }
    }
    return sum;
}

}  // namespace dbanon
