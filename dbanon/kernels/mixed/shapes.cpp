#include "mixed/shapes.hpp"

namespace dbanon {

namespace {

// Products of two codes and their table's width stay within 16 bits.
constexpr std::size_t kTabled = 256;
// A label costs half of what is told of it, and half of the class's own width.
constexpr int kHalf = 1;

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
    std::vector<std::vector<Code>> ranks;  // of each looked up: the first code of each place
    std::vector<int> tabled;
    for (int a = 0; a < table.d(); ++a) {
        const LabelCosts& label = labels.empty() ? none : labels[a];
        const std::size_t pieces = label.first.size();
        std::vector<Code> values(n);
        for (std::size_t t = 0; t < n; ++t) values[t] = table.row(static_cast<std::int32_t>(t))[a];
        std::sort(values.begin(), values.end());
        values.erase(std::unique(values.begin(), values.end()), values.end());
        const Tree* tree = table.tree(a);
        if (values.size() <= kTabled && !(tree && !tree->even())) {
            tabulate(values.size(), [&](std::size_t i, std::size_t j) -> Cost {
                if (i == j) return 0;
                if (tree) return tree->climb(tree->deepest(), tree->common(values[i], values[j]));
                const Cost own = values[j] - values[i];
                if (label.empty()) return own;
                const Cost told =
                    label.costs[label.piece(values[i]) * pieces + label.piece(values[j])];
                return (told >> kHalf) + (own >> kHalf);
            });
            ranks.push_back(std::move(values));
            tabled.push_back(a);
            continue;
        }
        (tree ? uneven_ : numeric_).push_back(a);
        if (!tree) own_.push_back(label.empty() ? 0 : kHalf);
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
    tuple_shorts_.assign(n * padded_, 0);
    for (std::size_t t = 0; t < n; ++t) {
        const Code* row = table.row(static_cast<std::int32_t>(t));
        for (std::size_t i = 0; i < tabled_; ++i) {
            const auto after =
                std::upper_bound(ranks[i].begin() + 1, ranks[i].end(), row[tabled[i]]);
            tuple_shorts_[t * padded_ + i] = static_cast<Short>(after - ranks[i].begin() - 1);
        }
    }
}

void Shapes::resize(std::size_t count) {
    const std::size_t wide = numeric_.size() + uneven_.size();
    low_.resize(count * padded_);
    high_.resize(count * padded_);
    wide_low_.resize(count * wide);
    wide_high_.resize(count * wide);
    shares_.resize(count * uneven_.size());
    sizes_.resize(count);
}

void Shapes::set(std::size_t i, std::int32_t tuple, Cost copies) {
    const Short* shorts = tuple_shorts_.data() + static_cast<std::size_t>(tuple) * padded_;
    std::copy(shorts, shorts + padded_, low_.begin() + static_cast<std::ptrdiff_t>(i * padded_));
    std::copy(shorts, shorts + padded_, high_.begin() + static_cast<std::ptrdiff_t>(i * padded_));
    const Code* row = table_.row(tuple);
    const std::size_t numbers = numeric_.size(), trees = uneven_.size(), wide = numbers + trees;
    for (std::size_t a = 0; a < numbers; ++a) {
        wide_low_[i * wide + a] = wide_high_[i * wide + a] = row[numeric_[a]];
    }
    for (std::size_t a = 0; a < trees; ++a) {
        const Code leaf = row[uneven_[a]];
        wide_low_[i * wide + numbers + a] = wide_high_[i * wide + numbers + a] = leaf;
        shares_[i * trees + a] = copies * table_.tree(uneven_[a])->share(leaf);
    }
    sizes_[i] = copies;
}

void Shapes::add(std::size_t i, std::int32_t tuple, Cost copies) {
    const Short* shorts = tuple_shorts_.data() + static_cast<std::size_t>(tuple) * padded_;
    for (std::size_t a = 0; a < padded_; ++a) {
        low_[i * padded_ + a] = std::min(low_[i * padded_ + a], shorts[a]);
        high_[i * padded_ + a] = std::max(high_[i * padded_ + a], shorts[a]);
    }
    const Code* row = table_.row(tuple);
    const std::size_t numbers = numeric_.size(), trees = uneven_.size(), wide = numbers + trees;
    for (std::size_t a = 0; a < wide; ++a) {
        const Code code = row[a < numbers ? numeric_[a] : uneven_[a - numbers]];
        wide_low_[i * wide + a] = std::min(wide_low_[i * wide + a], code);
        wide_high_[i * wide + a] = std::max(wide_high_[i * wide + a], code);
        if (a >= numbers) {
            shares_[i * trees + a - numbers] +=
                copies * table_.tree(uneven_[a - numbers])->share(code);
        }
    }
    sizes_[i] += copies;
}

void Shapes::merge(std::size_t i, std::size_t j) {
    for (std::size_t a = 0; a < padded_; ++a) {
        low_[i * padded_ + a] = std::min(low_[i * padded_ + a], low_[j * padded_ + a]);
        high_[i * padded_ + a] = std::max(high_[i * padded_ + a], high_[j * padded_ + a]);
    }
    const std::size_t trees = uneven_.size(), wide = numeric_.size() + trees;
    for (std::size_t a = 0; a < wide; ++a) {
        wide_low_[i * wide + a] = std::min(wide_low_[i * wide + a], wide_low_[j * wide + a]);
        wide_high_[i * wide + a] = std::max(wide_high_[i * wide + a], wide_high_[j * wide + a]);
    }
    for (std::size_t a = 0; a < trees; ++a) shares_[i * trees + a] += shares_[j * trees + a];
    sizes_[i] += sizes_[j];
}

void Shapes::copy(std::size_t to, std::size_t from) {
    const std::size_t trees = uneven_.size(), wide = numeric_.size() + trees;
    std::copy_n(low_.data() + from * padded_, padded_, low_.data() + to * padded_);
    std::copy_n(high_.data() + from * padded_, padded_, high_.data() + to * padded_);
    std::copy_n(wide_low_.data() + from * wide, wide, wide_low_.data() + to * wide);
    std::copy_n(wide_high_.data() + from * wide, wide, wide_high_.data() + to * wide);
    std::copy_n(shares_.data() + from * trees, trees, shares_.data() + to * trees);
    sizes_[to] = sizes_[from];
}

bool Shapes::same(std::size_t i, std::size_t j) const {
    const std::size_t wide = numeric_.size() + uneven_.size();
    return std::equal(low_.data() + i * padded_, low_.data() + (i + 1) * padded_,
                      low_.data() + j * padded_) &&
           std::equal(high_.data() + i * padded_, high_.data() + (i + 1) * padded_,
                      high_.data() + j * padded_) &&
           std::equal(wide_low_.data() + i * wide, wide_low_.data() + (i + 1) * wide,
                      wide_low_.data() + j * wide) &&
           std::equal(wide_high_.data() + i * wide, wide_high_.data() + (i + 1) * wide,
                      wide_high_.data() + j * wide);
}

Cost Shapes::per_record(std::size_t i, std::size_t j) const {
    Cost sum = 0;
    const std::int32_t* costs = costs_.data();
    for (std::size_t from = 0; from < padded_; from += kLanes) {
        const Short* low_i = low_.data() + i * padded_ + from;
        const Short* low_j = low_.data() + j * padded_ + from;
        const Short* high_i = high_.data() + i * padded_ + from;
        const Short* high_j = high_.data() + j * padded_ + from;
        const Short* width = width_.data() + from;
        const std::size_t* offset = offset_.data() + from;
        Short at[kLanes];
        for (std::size_t a = 0; a < kLanes; ++a) {
            const Short low = std::min(low_i[a], low_j[a]), high = std::max(high_i[a], high_j[a]);
            at[a] = static_cast<Short>(low * width[a] + high);
        }
        for (std::size_t a = 0; a < kLanes; ++a) sum += costs[offset[a] + at[a]];
    }
    const std::size_t wide = numeric_.size() + uneven_.size();
    for (std::size_t a = 0; a < numeric_.size(); ++a) {
        sum += (std::max(wide_high_[i * wide + a], wide_high_[j * wide + a]) -
                std::min(wide_low_[i * wide + a], wide_low_[j * wide + a])) >>
               own_[a];
    }
    return sum;
}

Cost Shapes::merged(std::size_t i, std::size_t j, Cost size, int shapes) const {
    Cost sum = size * per_record(i, j);
    const std::size_t numbers = numeric_.size(), trees = uneven_.size(), wide = numbers + trees;
    for (std::size_t a = 0; a < trees; ++a) {
        const std::size_t at_i = i * wide + numbers + a, at_j = j * wide + numbers + a;
        const Code low = std::min(wide_low_[at_i], wide_low_[at_j]);
        const Code high = std::max(wide_high_[at_i], wide_high_[at_j]);
        if (low == high) continue;
        const Cost share = shares_[i * trees + a] + (shapes > 1 ? shares_[j * trees + a] : 0);
        sum += size * table_.unit(uneven_[a]) - table_.tree(uneven_[a])->common(low, high) * share;
    }
    return sum;
}

Cost Shapes::loss_with(std::size_t i, std::size_t j, Cost copies) const {
    const Cost size = sizes_[i] + copies;
    Cost sum = size * per_record(i, j);
    const std::size_t numbers = numeric_.size(), trees = uneven_.size(), wide = numbers + trees;
    for (std::size_t a = 0; a < trees; ++a) {
        const std::size_t at_i = i * wide + numbers + a, at_j = j * wide + numbers + a;
        const Code low = std::min(wide_low_[at_i], wide_low_[at_j]);
        const Code high = std::max(wide_high_[at_i], wide_high_[at_j]);
        if (low == high) continue;
        const Tree* tree = table_.tree(uneven_[a]);
        const Cost share = shares_[i * trees + a] + copies * tree->share(wide_low_[at_j]);
        sum += size * table_.unit(uneven_[a]) - tree->common(low, high) * share;
    }
    return sum;
}

Cost Shapes::loss_without(std::size_t i, std::int32_t tuple, Cost copies) const {
    const Cost size = sizes_[i] - copies;
    Cost sum = size * per_record(i, i);
    const std::size_t numbers = numeric_.size(), trees = uneven_.size(), wide = numbers + trees;
    for (std::size_t a = 0; a < trees; ++a) {
        const Code low = wide_low_[i * wide + numbers + a], high = wide_high_[i * wide + numbers + a];
        if (low == high) continue;
        const Tree* tree = table_.tree(uneven_[a]);
        const Cost share =
            shares_[i * trees + a] - copies * tree->share(table_.row(tuple)[uneven_[a]]);
        sum += size * table_.unit(uneven_[a]) - tree->common(low, high) * share;
    }
    return sum;
}

void Shapes::take_copies(std::size_t i, std::int32_t tuple, Cost copies) {
    for (std::size_t a = 0; a < uneven_.size(); ++a) {
        shares_[i * uneven_.size() + a] -=
            copies * table_.tree(uneven_[a])->share(table_.row(tuple)[uneven_[a]]);
    }
    sizes_[i] -= copies;
}

}  // namespace dbanon
