#include "mixed/shapes.hpp"

#include <bit>

#include "mixed/columns.hpp"

namespace dbanon {

namespace {

// Products of two codes and their table's width stay within 16 bits.
constexpr std::size_t kTabled = 256;
// A label costs half of its width and half of the class's range.
constexpr int kHalf = 1;

// Smallest and largest codes after a merge.
template <class Value>
void widen(Value* low, Value* high, const Value* lower, const Value* higher, std::size_t count) {
    for (std::size_t a = 0; a < count; ++a) {
        low[a] = std::min(low[a], lower[a]);
        high[a] = std::max(high[a], higher[a]);
    }
}

}  // namespace

template <class Price>
void Shapes::tabulate(std::size_t w, const Price& price) {
    width_.push_back(static_cast<Short>(w));
    offset_.push_back(costs_.size());
    costs_.resize(costs_.size() + w * w, 0);
    for (std::size_t i = 0; i < w; ++i) {
        for (std::size_t j = i; j < w; ++j) {
            costs_[offset_.back() + i * w + j] = static_cast<std::int32_t>(price(i, j));
        }
    }
}

Shapes::Shapes(const MixedTable& table, const std::vector<LabelCosts>& labels) : table_(table) {
    const std::size_t n = table.tuples();
    const LabelCosts none;
    std::vector<std::vector<Code>> ranks;  // for each table: the first code of each position
    std::vector<int> tabled, even;
    std::vector<std::vector<Code>> paths;  // for each even tree
    for (int a = 0; a < table.n_attributes(); ++a) {
        const LabelCosts& label = labels.empty() ? none : labels[a];
        const std::size_t pieces = label.first.size();
        std::vector<Code> values(n);
        for (std::size_t t = 0; t < n; ++t) values[t] = table.row(static_cast<std::int32_t>(t))[a];
        std::sort(values.begin(), values.end());
        values.erase(std::unique(values.begin(), values.end()), values.end());
        const Tree* tree = table.tree(a);
        if (values.size() <= kTabled && !(tree && !tree->has_even_depth())) {
            tabulate(values.size(), [&](std::size_t i, std::size_t j) -> Cost {
                if (i == j) return 0;
                if (tree) return tree->climb(tree->deepest(), tree->common_depth(values[i], values[j]));
                const Cost range = values[j] - values[i];
                if (label.empty()) return range;
                const Cost label_loss =
                    label.costs[label.piece(values[i]) * pieces + label.piece(values[j])];
                return (label_loss >> kHalf) + (range >> kHalf);
            });
            ranks.push_back(std::move(values));
            tabled.push_back(a);
            continue;
        }
        std::vector<Field> fields;
        std::vector<Code> path = tree ? paths_of(*tree, fields) : std::vector<Code>();
        if (!path.empty()) {
            CostByBit& table = costs_by_bit_.emplace_back();
            for (const Field& field : fields) {
                // The root's field comes first, so later fields use the bits below it.
                const auto from = static_cast<std::size_t>(field.shift) + 1;
                const Cost cost = tree->climb(tree->deepest(), field.depth);
                for (std::size_t bit = from; bit < table.size() && !table[bit]; ++bit) {
                    table[bit] = static_cast<std::int32_t>(cost);
                }
            }
            even.push_back(a);
            paths.push_back(std::move(path));
            continue;
        }
        (tree ? uneven_ : numeric_).push_back(a);
        if (!tree) range_shift_.push_back(label.empty() ? 0 : kHalf);
        if (label.empty()) continue;
        tabulate(pieces,
                 [&](std::size_t i, std::size_t j) { return label.costs[i * pieces + j] >> kHalf; });
        ranks.push_back(label.first);
        tabled.push_back(a);
    }
    tabled_ = tabled.size();
    padded_ = (tabled_ + kLanes - 1) / kLanes * kLanes;
    width_.resize(padded_, 1);
    offset_.resize(padded_, costs_.size());
    costs_.push_back(0);
    tuple_shorts_.assign(n, padded_);
    tuple_wide_.assign(n, uneven_from() + uneven_.size());
    for (std::size_t t = 0; t < n; ++t) {
        const Code* row = table.row(static_cast<std::int32_t>(t));
        Code* wide = tuple_wide_.row(t);
        for (const int a : numeric_) *wide++ = row[a];
        for (std::size_t i = 0; i < even.size(); ++i) *wide++ = paths[i][row[even[i]]];
        for (const int a : uneven_) *wide++ = row[a];
        for (std::size_t i = 0; i < tabled_; ++i) {
            const auto after =
                std::upper_bound(ranks[i].begin() + 1, ranks[i].end(), row[tabled[i]]);
            tuple_shorts_.row(t)[i] = static_cast<Short>(after - ranks[i].begin() - 1);
        }
    }
}

void Shapes::resize(std::size_t count) {
    const std::size_t wide = tuple_wide_.width();
    low_.assign(count, padded_);
    high_.assign(count, padded_);
    wide_low_.assign(count, wide);
    wide_high_.assign(count, wide);
    shares_.assign(count, uneven_.size());
    sizes_.assign(count, 0);
}

void Shapes::set(std::size_t i, std::int32_t tuple, Cost copies) {
    const Short* shorts = tuple_shorts_.row(tuple);
    std::copy_n(shorts, padded_, low_.row(i));
    std::copy_n(shorts, padded_, high_.row(i));
    const Code* wide = tuple_wide_.row(tuple);
    std::copy_n(wide, tuple_wide_.width(), wide_low_.row(i));
    std::copy_n(wide, tuple_wide_.width(), wide_high_.row(i));
    for (std::size_t a = 0; a < uneven_.size(); ++a) {
        shares_.row(i)[a] = copies * share(tuple, a);
    }
    sizes_[i] = copies;
}

void Shapes::add(std::size_t i, std::int32_t tuple, Cost copies) {
    const Short* shorts = tuple_shorts_.row(tuple);
    widen(low_.row(i), high_.row(i), shorts, shorts, padded_);
    const Code* wide = tuple_wide_.row(tuple);
    widen(wide_low_.row(i), wide_high_.row(i), wide, wide, tuple_wide_.width());
    for (std::size_t a = 0; a < uneven_.size(); ++a) {
        shares_.row(i)[a] += copies * share(tuple, a);
    }
    sizes_[i] += copies;
}

void Shapes::merge(std::size_t i, std::size_t j) {
    const std::size_t trees = uneven_.size(), wide = tuple_wide_.width();
    widen(low_.row(i), high_.row(i), low_.row(j), high_.row(j), padded_);
    widen(wide_low_.row(i), wide_high_.row(i), wide_low_.row(j), wide_high_.row(j), wide);
    for (std::size_t a = 0; a < trees; ++a) shares_.row(i)[a] += shares_.row(j)[a];
    sizes_[i] += sizes_[j];
}

void Shapes::copy(std::size_t to, std::size_t from) {
    low_.copy(from, to);
    high_.copy(from, to);
    wide_low_.copy(from, to);
    wide_high_.copy(from, to);
    shares_.copy(from, to);
    sizes_[to] = sizes_[from];
}

bool Shapes::same(std::size_t i, std::size_t j) const {
    const auto equal = [&](const auto& grid) {
        return std::equal(grid.row(i), grid.row(i) + grid.width(), grid.row(j));
    };
    return equal(low_) && equal(high_) && equal(wide_low_) && equal(wide_high_);
}

Cost Shapes::per_record(std::size_t i, std::size_t j) const {
    Cost sum = 0;
    const std::int32_t* costs = costs_.data();
    for (std::size_t from = 0; from < padded_; from += kLanes) {
        const Short *low_i = low_.row(i) + from, *low_j = low_.row(j) + from;
        const Short *high_i = high_.row(i) + from, *high_j = high_.row(j) + from;
        const Short* width = width_.data() + from;
        const std::size_t* offset = offset_.data() + from;
        Short at[kLanes];
        for (std::size_t a = 0; a < kLanes; ++a) {
            const Short low = std::min(low_i[a], low_j[a]), high = std::max(high_i[a], high_j[a]);
            at[a] = static_cast<Short>(low * width[a] + high);
        }
        for (std::size_t a = 0; a < kLanes; ++a) sum += costs[offset[a] + at[a]];
    }
    const Code *low_i = wide_low_.row(i), *low_j = wide_low_.row(j);
    const Code *high_i = wide_high_.row(i), *high_j = wide_high_.row(j);
    for (std::size_t a = 0; a < numeric_.size(); ++a) {
        sum += (std::max(high_i[a], high_j[a]) - std::min(low_i[a], low_j[a])) >> range_shift_[a];
    }
    for (std::size_t a = 0; a < costs_by_bit_.size(); ++a) {
        const std::size_t at = numeric_.size() + a;
        const Code low = std::min(low_i[at], low_j[at]), high = std::max(high_i[at], high_j[at]);
        sum += costs_by_bit_[a][std::bit_width(static_cast<std::uint32_t>(low ^ high))];
    }
    return sum;
}

// The merged range of two shapes, for an attribute that adds the shares of its leaves.
std::pair<Code, Code> Shapes::leaves(std::size_t i, std::size_t j, std::size_t a) const {
    const std::size_t at = uneven_from() + a;
    return {std::min(wide_low_.row(i)[at], wide_low_.row(j)[at]),
            std::max(wide_high_.row(i)[at], wide_high_.row(j)[at])};
}

Cost Shapes::merged(std::size_t i, std::size_t j, Cost size, int shapes) const {
    Cost sum = size * per_record(i, j);
    const std::size_t trees = uneven_.size();
    for (std::size_t a = 0; a < trees; ++a) {
        const auto [low, high] = leaves(i, j, a);
        if (low == high) continue;
        const Cost share = shares_.row(i)[a] + (shapes > 1 ? shares_.row(j)[a] : 0);
        sum += size * table_.unit(uneven_[a]) - table_.tree(uneven_[a])->common_depth(low, high) * share;
    }
    return sum;
}

Cost Shapes::loss_with(std::size_t i, std::size_t j, Cost copies) const {
    const Cost size = sizes_[i] + copies;
    Cost sum = size * per_record(i, j);
    const std::size_t trees = uneven_.size();
    for (std::size_t a = 0; a < trees; ++a) {
        const auto [low, high] = leaves(i, j, a);
        if (low == high) continue;
        const Tree* tree = table_.tree(uneven_[a]);
        const Cost share = shares_.row(i)[a] + copies * tree->share(wide_low_.row(j)[uneven_from() + a]);
        sum += size * table_.unit(uneven_[a]) - tree->common_depth(low, high) * share;
    }
    return sum;
}

Cost Shapes::loss_without(std::size_t i, std::int32_t tuple, Cost copies) const {
    const Cost size = sizes_[i] - copies;
    Cost sum = size * per_record(i, i);
    for (std::size_t a = 0; a < uneven_.size(); ++a) {
        const auto [low, high] = leaves(i, i, a);
        if (low == high) continue;
        const Tree* tree = table_.tree(uneven_[a]);
        const Cost left = shares_.row(i)[a] - copies * share(tuple, a);
        sum += size * table_.unit(uneven_[a]) - tree->common_depth(low, high) * left;
    }
    return sum;
}

void Shapes::take_copies(std::size_t i, std::int32_t tuple, Cost copies) {
    for (std::size_t a = 0; a < uneven_.size(); ++a) {
        shares_.row(i)[a] -= copies * share(tuple, a);
    }
    sizes_[i] -= copies;
}

}  // namespace dbanon
