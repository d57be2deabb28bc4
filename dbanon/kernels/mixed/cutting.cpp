#include "mixed/cutting.hpp"

#include <cmath>

namespace dbanon {

namespace {

// A sample of this many tuples is enough to choose the attribute.
constexpr std::size_t kTuplesSampled = 128;

Code code_of(std::uint64_t key) { return static_cast<Code>(key >> 32); }

}  // namespace

void TupleSplitter::sample(std::span<const std::int32_t> tuples, std::size_t a) {
    const std::size_t step = (tuples.size() + kTuplesSampled - 1) / kTuplesSampled;
    sampled_.clear();
    for (std::size_t i = 0; i < tuples.size(); i += step) {
        sampled_.push_back(table_.row(tuples[i])[a]);
    }
    std::sort(sampled_.begin(), sampled_.end());
}

// Twice the mean difference of two values, as the distance counts a width twice. A cut takes one
// bit.
double TupleSplitter::gain_of_number() const {
    const auto m = static_cast<double>(sampled_.size());
    double sum = 0;
    for (std::size_t i = 0; i < sampled_.size(); ++i) {
        sum += (2 * static_cast<double>(i) + 1 - m) * sampled_[i];
    }
    return 4 * sum / (m * m);
}

// The best level: two tuples below different nodes there both climb one more level.
double TupleSplitter::gain_of_tree(std::size_t a) {
    const Tree& tree = *table_.tree(a);
    const auto m = static_cast<double>(sampled_.size());
    std::int32_t highest = tree.deepest(), lowest = 0;
    separation_depths_.assign(sampled_.size(), -1);  // after the last one every level ends
    for (std::size_t i = 1; i < sampled_.size(); ++i) {
        const bool same = sampled_[i - 1] == sampled_[i];
        const std::int32_t depth =
            same ? tree.deepest() : tree.common_depth(sampled_[i - 1], sampled_[i]);
        separation_depths_[i - 1] = depth;
        if (same) continue;
        highest = std::min(highest, depth);
        lowest = std::max(lowest, depth);
    }
    double best = 0;
    // Above `highest` all are together, below `lowest` no more are separated.
    for (std::int32_t level = highest + 1; level <= lowest + 1; ++level) {
        double same = 0, bits = 0;
        for (std::size_t i = 0, from = 0; i < separation_depths_.size(); ++i) {
            if (separation_depths_[i] >= level) continue;
            const double share = static_cast<double>(i + 1 - from) / m;
            same += share * share;
            bits -= share * std::log2(share);
            from = i + 1;
        }
        if (bits > 0) best = std::max(best, (1 - same) / bits);
    }
    return 2 * best * static_cast<double>(table_.unit(a)) / std::max(tree.deepest(), 1);
}

int TupleSplitter::choose_attribute(std::span<const std::int32_t> tuples) {
    int best = -1;
    bool number = false;
    double most = 0;
    for (std::size_t a = 0; a < static_cast<std::size_t>(table_.n_attributes()); ++a) {
        const Tree* tree = table_.tree(a);
        const bool later = tree && criterion_ == SplitCriterion::kRange;
        if (later && number) continue;
        sample(tuples, a);
        if (sampled_.front() == sampled_.back()) continue;
        double gain;
        if (tree) {
            gain = gain_of_tree(a);
        } else if (criterion_ == SplitCriterion::kRange) {
            gain = static_cast<double>(sampled_.back() - sampled_.front());
        } else {
            gain = gain_of_number();
        }
        if (best < 0 || gain > most || (criterion_ == SplitCriterion::kRange && !tree && !number)) {
            most = gain;
            best = static_cast<int>(a);
        }
        number |= !tree;
    }
    return best < 0 ? first_differing_attribute(tuples) : best;
}

// Any attribute in which a tuple that the sample missed differs from the first.
int TupleSplitter::first_differing_attribute(std::span<const std::int32_t> tuples) const {
    const Code* first = table_.row(tuples.front());
    for (const std::int32_t t : tuples) {
        const Code* row = table_.row(t);
        const Code* other = std::mismatch(row, row + table_.n_attributes(), first).first;
        if (other != row + table_.n_attributes()) return static_cast<int>(other - row);
    }
    return -1;
}

// Between different values, nearest to the middle; smaller keys come first.
std::size_t TupleSplitter::split_number() {
    const std::size_t half = keys_.size() / 2;
    const auto begin = keys_.begin(), middle = begin + static_cast<std::ptrdiff_t>(half);
    std::nth_element(begin, middle, keys_.end());
    const std::uint64_t from = *middle >> 32 << 32, to = from + (std::uint64_t{1} << 32);
    const auto lower = std::partition(begin, middle, [&](std::uint64_t key) { return key < from; });
    const auto upper =
        std::partition(middle, keys_.end(), [&](std::uint64_t key) { return key < to; });
    const auto below = static_cast<std::size_t>(lower - begin);
    const auto with = static_cast<std::size_t>(upper - begin);
    if (below == 0) return with;
    return with == keys_.size() || half - below <= with - half ? below : with;
}

// Where the tree branches highest up, then nearest to the middle.
std::size_t TupleSplitter::split_tree(const Tree& tree) {
    std::sort(keys_.begin(), keys_.end());
    const std::size_t half = keys_.size() / 2;
    const auto off = [half](std::size_t i) { return i < half ? half - i : i - half; };
    std::size_t cut = 0;
    std::int32_t best = 0;
    for (std::size_t i = 1; i < keys_.size(); ++i) {
        const Code before = code_of(keys_[i - 1]), after = code_of(keys_[i]);
        if (before == after) continue;
        const std::int32_t depth = tree.common_depth(before, after);
        if (cut == 0 || depth < best || (depth == best && off(i) < off(cut))) {
            cut = i;
            best = depth;
        }
    }
    return cut;
}

std::size_t TupleSplitter::split(std::span<std::int32_t> tuples) {
    const int a = choose_attribute(tuples);
    if (a < 0) return 0;
    keys_.clear();
    for (const std::int32_t t : tuples) {
        keys_.push_back(std::uint64_t{static_cast<std::uint32_t>(table_.row(t)[a])} << 32 |
                        static_cast<std::uint32_t>(t));
    }
    const Tree* tree = table_.tree(a);
    const std::size_t first = tree ? split_tree(*tree) : split_number();
    for (std::size_t i = 0; i < keys_.size(); ++i) {
        tuples[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(keys_[i]));
    }
    return first;
}

}  // namespace dbanon
