#include "points/refine_pool.hpp"

#include <algorithm>

#include "points/distance.hpp"

namespace dbanon {

namespace {

// The least gain of a change, relative to the largest distance from the pool's first record:
// smaller ones may be rounding errors.
constexpr double kSwapGain = 1e-11;
// Random candidates for a swap, of which the nearest to the partner is chosen.
constexpr int kSwapDraws = 6;
// The maximum number of changes per record in a descent.
constexpr std::int32_t kChangesPerRecord = 16;
// The maximum work of a descent: about 50 ms. Only classes of several hundred records need more.
constexpr std::int64_t kDescentWork = 1 << 26;

}  // namespace

Random::Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_) {
        seed += 0x9e3779b97f4a7c15u;
        std::uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        word = z ^ (z >> 31);
    }
}

std::uint64_t Random::next() {
    const auto rotated = [](std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); };
    const std::uint64_t result = rotated(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotated(state_[3], 45);
    return result;
}

std::int32_t Random::below(std::int32_t n) {
    return static_cast<std::int32_t>(((next() >> 32) * static_cast<std::uint64_t>(n)) >> 32);
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

void Pool::start(std::int32_t records) {
    n_records_ = records;
    n_classes_ = 0;
    added_ = 0;
    const std::size_t m = static_cast<std::size_t>(n_records_);
    stride_ = (n_records_ + kFanOut - 1) / kFanOut * kFanOut;
    columns_.assign(static_cast<std::size_t>(stride_) * static_cast<std::size_t>(p_), 0.0);
    distances_.resize(m * static_cast<std::size_t>(stride_));
    class_of_.resize(m);
}

void Pool::add(const double* row, std::int32_t class_index) {
    for (int j = 0; j < p_; ++j) columns_[static_cast<std::size_t>(j * stride_ + added_)] = row[j];
    add(class_index);
}

void Pool::add(std::int32_t class_index) {
    class_of_[static_cast<std::size_t>(added_++)] = class_index;
    n_classes_ = std::max(n_classes_, class_index + 1);
}

void Pool::finish() {
    ops_.pairwise(columns_.data(), p_, n_records_, stride_, distances_.data());
    work_done_ += std::int64_t{n_records_} * (40 + stride_ * std::int64_t{p_} / 16);
    sum_pairs();
}

void Pool::finish(std::int64_t cost_per_distance) {
    work_done_ += std::int64_t{n_records_} * (40 + stride_ * cost_per_distance);
    sum_pairs();
}

void Pool::sum_pairs() {
    min_gain_ = kSwapGain * *std::max_element(distances(0), distances(0) + n_records_);
    list_members();
    has_distance_sums_ = false;
    pair_sums_.resize(static_cast<std::size_t>(n_classes_));
    for (std::int32_t a = 0; a < n_classes_; ++a) {
        const auto& in_a = members_[static_cast<std::size_t>(a)];
        *pair_sum(a) = 0.0;
        for (std::size_t i = 0; i < in_a.size(); ++i) {
            for (std::size_t l = 0; l < i; ++l) *pair_sum(a) += distances(in_a[i])[in_a[l]];
        }
    }
}

void Pool::list_members() {
    const std::size_t c = static_cast<std::size_t>(n_classes_);
    if (members_.size() < c) members_.resize(c);
    for (std::size_t i = 0; i < c; ++i) members_[i].clear();
    for (std::int32_t x = 0; x < n_records_; ++x) {
        if (class_of(x) >= 0) members_[static_cast<std::size_t>(class_of(x))].push_back(x);
    }
    is_settled_.assign(c * c, 0);
}

void Pool::sum_distances() {
    if (has_distance_sums_) return;
    has_distance_sums_ = true;
    distance_sums_.resize(static_cast<std::size_t>(n_classes_) * static_cast<std::size_t>(stride_));
    for (std::int32_t a = 0; a < n_classes_; ++a) {
        double* row = distance_sums(a);
        std::fill_n(row, n_records_, 0.0);
        for (const std::int32_t x : members_[static_cast<std::size_t>(a)]) {
            const double* from = distances(x);
            for (std::int32_t y = 0; y < n_records_; ++y) row[y] += from[y];
        }
    }
    sum_pairs_from_distances();
    work_done_ += std::int64_t{n_records_} * n_records_ / 4;
}

void Pool::sum_pairs_from_distances() {
    pair_sums_.resize(static_cast<std::size_t>(n_classes_));
    for (std::int32_t a = 0; a < n_classes_; ++a) {
        double total = 0.0;
        for (const std::int32_t x : members_[static_cast<std::size_t>(a)]) total += distance_sums(a)[x];
        *pair_sum(a) = total / 2;
    }
}

double Pool::loss(std::int32_t class_index) const {
    return pair_sums_[static_cast<std::size_t>(class_index)] / size(class_index);
}

double Pool::loss() const {
    double total = 0.0;
    for (std::int32_t a = 0; a < n_classes_; ++a) total += loss(a);
    return total;
}

void Pool::save() {
    saved_class_of_ = class_of_;
    saved_n_classes_ = n_classes_;
}

void Pool::restore() {
    class_of_ = saved_class_of_;
    n_classes_ = saved_n_classes_;
    list_members();
    has_distance_sums_ = false;
}

void Pool::move(std::int32_t x, std::int32_t from, std::int32_t into) {
    auto& old = members_[static_cast<std::size_t>(from)];
    *std::find(old.begin(), old.end(), x) = old.back();
    old.pop_back();
    members_[static_cast<std::size_t>(into)].push_back(x);
    class_of_[static_cast<std::size_t>(x)] = into;
    *pair_sum(from) -= distance_sums(from)[x];
    *pair_sum(into) += distance_sums(into)[x];
    const double* gap = distances(x);
    double* less = distance_sums(from);
    double* more = distance_sums(into);
    for (std::int32_t y = 0; y < n_records_; ++y) {
        less[y] -= gap[y];
        more[y] += gap[y];
    }
    for (std::int32_t other = 0; other < n_classes_; ++other) {
        is_settled_[static_cast<std::size_t>(from * n_classes_ + other)] = 0;
        is_settled_[static_cast<std::size_t>(other * n_classes_ + from)] = 0;
        is_settled_[static_cast<std::size_t>(into * n_classes_ + other)] = 0;
        is_settled_[static_cast<std::size_t>(other * n_classes_ + into)] = 0;
    }
    work_done_ += n_records_ / 4;
}

void Pool::swap(std::int32_t x, std::int32_t y) {
    const std::int32_t a = class_of(x), b = class_of(y);
    move(x, a, b);
    move(y, b, a);
}

// Applies the best move or swap between two classes if it improves the loss.
bool Pool::improve(std::int32_t a, std::int32_t b) {
    const auto& in_a = members_[static_cast<std::size_t>(a)];
    const auto& in_b = members_[static_cast<std::size_t>(b)];
    const double size_a = size(a), size_b = size(b);
    const double* to_a = distance_sums(a);
    const double* to_b = distance_sums(b);
    const double loss_a = *pair_sum(a) / size_a, loss_b = *pair_sum(b) / size_b;
    double best = -min_gain_;
    std::int32_t best_x = -1, best_y = -1;
    if (size(a) > k_ && size(b) < max_class_size_) {
        for (const std::int32_t x : in_a) {
            const double change = (*pair_sum(a) - to_a[x]) / (size_a - 1) +
                                  (*pair_sum(b) + to_b[x]) / (size_b + 1) - loss_a - loss_b;
            if (change < best) best = change, best_x = x, best_y = -1;
        }
    }
    if (size(b) > k_ && size(a) < max_class_size_) {
        for (const std::int32_t y : in_b) {
            const double change = (*pair_sum(b) - to_b[y]) / (size_b - 1) +
                                  (*pair_sum(a) + to_a[y]) / (size_a + 1) - loss_a - loss_b;
            if (change < best) best = change, best_x = -1, best_y = y;
        }
    }
    const double inverse_size_a = 1 / size_a, inverse_size_b = 1 / size_b, inverse_sizes = inverse_size_a + inverse_size_b;
    swap_gains_.resize(in_b.size());
    for (std::size_t i = 0; i < in_b.size(); ++i) {
        swap_gains_[i] = to_a[in_b[i]] * inverse_size_a - to_b[in_b[i]] * inverse_size_b;
    }
    for (const std::int32_t x : in_a) {
        const double* gap = distances(x);
        const double gain = to_b[x] * inverse_size_b - to_a[x] * inverse_size_a;
        for (std::size_t i = 0; i < in_b.size(); ++i) {
            const double change = gain + swap_gains_[i] - gap[in_b[i]] * inverse_sizes;
            if (change < best) best = change, best_x = x, best_y = in_b[i];
        }
    }
    work_done_ += 4 + 10 * static_cast<std::int64_t>(in_a.size()) + std::ssize(in_a) * std::ssize(in_b) / 4;
    if (best_x >= 0 && best_y >= 0) {
        swap(best_x, best_y);
    } else if (best_x >= 0) {
        move(best_x, a, b);
    } else if (best_y >= 0) {
        move(best_y, b, a);
    } else {
        return false;
    }
    return true;
}

void Pool::descend() {
    sum_distances();
    std::int32_t changes = kChangesPerRecord * n_records_;
    const std::int64_t limit = work_done_ + kDescentWork;
    const auto has_budget = [&] { return changes > 0 && work_done_ < limit; };
    for (bool changed = true; changed && has_budget();) {
        changed = false;
        for (std::int32_t a = 0; a < n_classes_; ++a) {
            for (std::int32_t b = a + 1; b < n_classes_; ++b) {
                std::uint8_t& is_settled = is_settled_[static_cast<std::size_t>(a * n_classes_ + b)];
                if (is_settled) continue;
                while (has_budget() && improve(a, b)) changed = true, --changes;
                is_settled_[static_cast<std::size_t>(a * n_classes_ + b)] = 1;
            }
        }
    }
}

// The seed and, one by one, the free record nearest on average, until there are k.
void Pool::grow_class(std::int32_t class_index, std::int32_t seed) {
    double* row = distance_sums(class_index);
    std::fill_n(row, stride_, 0.0);
    std::int32_t next = seed;
    for (std::int32_t count = 0; count < k_; ++count) {
        class_of_[static_cast<std::size_t>(next)] = class_index;
        penalty_[static_cast<std::size_t>(next)] = kInf;
        next = ops_.add_and_find_least(row, distances(next), penalty_.data(), stride_);
        if (penalty_[static_cast<std::size_t>(next)] > 0.0 && count + 1 < k_) {
            // Distances overflowed: use the first free record.
            next = static_cast<std::int32_t>(std::find(penalty_.begin(), penalty_.end(), 0.0) - penalty_.begin());
        }
    }
    work_done_ += std::int64_t{stride_} * k_ / 4;
}

void Pool::rebuild(Random& random) {
    const std::int32_t min_classes = (n_records_ + max_class_size_ - 1) / max_class_size_, most = n_records_ / k_;
    n_classes_ = std::clamp(n_classes_ + random.below(3) - 1, min_classes, most);
    std::fill(class_of_.begin(), class_of_.end(), -1);
    distance_sums_.resize(static_cast<std::size_t>(n_classes_) * static_cast<std::size_t>(stride_));
    penalty_.assign(static_cast<std::size_t>(stride_), kInf);
    std::fill_n(penalty_.begin(), n_records_, 0.0);
    const bool seed_is_far = random.below(2) == 0;
    for (std::int32_t a = 0; a < n_classes_; ++a) {
        std::int32_t n_to_skip = random.below(n_records_ - a * k_);
        std::int32_t seed = 0;
        for (;; ++seed) {
            if (class_of_[static_cast<std::size_t>(seed)] < 0 && n_to_skip-- == 0) break;
        }
        if (seed_is_far) {
            const double* gap = distances(seed);
            for (std::int32_t y = 0; y < n_records_; ++y) {
                if (class_of_[static_cast<std::size_t>(y)] < 0 && gap[y] > gap[seed]) seed = y;
            }
        }
        grow_class(a, seed);
    }
    // Remaining records join, one by one, the class whose loss increases least.
    list_members();
    sum_pairs_from_distances();
    for (std::int32_t x = 0; x < n_records_; ++x) {
        if (class_of(x) >= 0) continue;
        std::int32_t best = -1;
        double least = kInf;
        for (std::int32_t a = 0; a < n_classes_; ++a) {
            if (size(a) >= max_class_size_) continue;
            const double n = size(a), w = *pair_sum(a);
            const double change = (w + distance_sums(a)[x]) / (n + 1) - w / n;
            if (best < 0 || change < least) least = change, best = a;
        }
        class_of_[static_cast<std::size_t>(x)] = best;
        members_[static_cast<std::size_t>(best)].push_back(x);
        *pair_sum(best) += distance_sums(best)[x];
        const double* gap = distances(x);
        double* row = distance_sums(best);
        for (std::int32_t y = 0; y < stride_; ++y) row[y] += gap[y];
    }
    has_distance_sums_ = true;
}

void Pool::swap_random(Random& random, std::int32_t swaps) {
    sum_distances();
    for (std::int32_t i = 0; i < swaps; ++i) {
        const std::int32_t x = random.below(n_records_);
        std::int32_t y = -1;
        for (int draws = kSwapDraws; draws > 0; --draws) {
            const std::int32_t other = random.below(n_records_);
            if (class_of(other) == class_of(x)) continue;
            if (y < 0 || distances(x)[other] < distances(x)[y]) y = other;
        }
        if (y >= 0) swap(x, y);
    }
}

std::int64_t Pool::take_work() {
    const std::int64_t work_done = work_done_;
    work_done_ = 0;
    return work_done;
}

}  // namespace dbanon
