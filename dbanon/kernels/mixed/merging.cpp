#include "mixed/merging.hpp"

#include <cmath>

#include "mixed/class_tree.hpp"
#include "mixed/reach.hpp"

namespace dbanon {

Merging::Merging(Mixed mixed, std::int32_t k, std::uint64_t seed,
                 double threshold)
    : Kernel({nullptr, mixed->records(), mixed->n_attributes()}, k),
      mixed_(std::move(mixed)),
      random_(seed),
      threshold_(threshold),
      shapes_(*mixed_) {}

Coroutine Merging::run() {
    const MixedTable& table = *mixed_;
    std::vector<std::vector<std::int32_t>> classes;  // tuples
    if (threshold_ < 0) {
        classes.resize(table.tuples());
        for (std::int32_t t = 0; t < table.tuples(); ++t) {
            classes[t].push_back(t);
        }
    } else {
        Cost units = 0;
        for (int a = 0; a < table.n_attributes(); ++a) units += table.unit(a);
        const auto limit = static_cast<Cost>(std::floor(2 * threshold_ * static_cast<double>(units)));
        std::vector<Reach> reaches;
        for (std::int32_t t = 0; t < table.tuples(); ++t) {
            std::size_t best = reaches.size();
            Cost least = limit + 1;
            for (std::size_t c = 0; c < reaches.size(); ++c) {
                const Cost distance = reaches[c].distance(t, least - 1);
                if (distance < least) {
                    least = distance;
                    best = c;
                }
            }
            work_.left -= static_cast<std::int64_t>(reaches.size());
            if (best == reaches.size()) {
                reaches.emplace_back(table);
                reaches.back().start(t);
                classes.emplace_back();
            } else {
                reaches[best].add(t);
            }
            classes[best].push_back(t);
            if (work_.left <= 0) co_yield nullptr;
        }
    }

    shapes_.resize(classes.size());
    std::vector<Cost> losses(classes.size());
    std::vector<std::size_t> small;
    for (std::size_t c = 0; c < classes.size(); ++c) {
        for (const std::int32_t t : classes[c]) {
            if (t == classes[c].front()) {
                shapes_.set(c, t, table.count(t));
            } else {
                shapes_.add(c, t, table.count(t));
            }
        }
        losses[c] = shapes_.loss(c);
        if (shapes_.size(c) < k_) small.push_back(c);
    }
    ClassTree tree(table, classes, shapes_, losses);
    while (!small.empty()) {
        tree.rebuild_if_sparse(work_);
        const std::size_t at = random_.below(small.size());
        const std::size_t c = small[at];
        const auto best = static_cast<std::size_t>(
            tree.cheapest(static_cast<std::int32_t>(c), work_));
        const bool was_small = shapes_.size(best) < k_;
        shapes_.merge(best, c);
        losses[best] = shapes_.loss(best);
        tree.record_merge(static_cast<std::int32_t>(best), static_cast<std::int32_t>(c));
        classes[best].insert(classes[best].end(), classes[c].begin(), classes[c].end());
        classes[c].clear();
        small.erase(small.begin() + static_cast<std::ptrdiff_t>(at));
        if (was_small && shapes_.size(best) >= k_) {
            small.erase(std::lower_bound(small.begin(), small.end(), best));
        }
        if (work_.left <= 0) co_yield nullptr;
    }

    std::int32_t label = 0;
    for (const std::vector<std::int32_t>& tuples : classes) {
        if (tuples.empty()) continue;
        std::vector<std::int32_t> records;
        for (const std::int32_t t : tuples) {
            for (std::int32_t i = table.begin(t); i < table.end(t); ++i) {
                records.push_back(table.copy(i));
            }
        }
        std::sort(records.begin(), records.end());
        work_.left -= static_cast<std::int64_t>(records.size());
        if (threshold_ < 0) {
            for (const std::int32_t record : records) assign(record, label);
            ++label;
        } else {
            split(std::move(records), label);
        }
        if (work_.left <= 0) co_yield nullptr;
    }
}

// Splits in the middle along the attribute with the largest entropy, until below 2k records.
void Merging::split(std::vector<std::int32_t> records, std::int32_t& label) {
    const int a = static_cast<std::int64_t>(records.size()) < 2 * std::int64_t{k_}
                      ? -1
                      : highest_entropy_attribute(records);
    if (a < 0) {
        for (const std::int32_t record : records) assign(record, label);
        ++label;
        return;
    }
    const auto code = [&](std::int32_t record) {
        return mixed_->row(mixed_->tuple_of(record))[a];
    };
    std::stable_sort(records.begin(), records.end(),
                     [&](std::int32_t i, std::int32_t j) { return code(i) < code(j); });
    const auto middle = records.begin() + static_cast<std::ptrdiff_t>(records.size() / 2);
    std::vector<std::int32_t> second_half(middle, records.end());
    records.erase(middle, records.end());
    std::sort(records.begin(), records.end());
    std::sort(second_half.begin(), second_half.end());
    split(std::move(records), label);
    split(std::move(second_half), label);
}

// The attribute with the largest entropy; -1 if all records are equal.
int Merging::highest_entropy_attribute(const std::vector<std::int32_t>& records) const {
    int best = -1;
    double most = 0;
    std::vector<Code> codes(records.size());
    for (int a = 0; a < mixed_->n_attributes(); ++a) {
        for (std::size_t i = 0; i < records.size(); ++i) {
            codes[i] = mixed_->row(mixed_->tuple_of(records[i]))[a];
        }
        std::sort(codes.begin(), codes.end());
        // The entropy of n records is log n - sum(c log c) / n, so the smallest sum wins.
        double sum = 0;
        for (std::size_t i = 0, from = 0; i < codes.size(); ++i) {
            if (i + 1 < codes.size() && codes[i + 1] == codes[i]) continue;
            const auto count = static_cast<double>(i + 1 - from);
            sum += count * std::log(count);
            from = i + 1;
        }
        if (codes.front() == codes.back()) continue;
        if (best < 0 || sum < most) {
            most = sum;
            best = a;
        }
    }
    return best;
}

}  // namespace dbanon
