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
// Limit of changes per record in a descent.
constexpr std::int32_t kChanges = 16;
// Limit of its work: about 50 ms. Only classes of several hundred records need more.
constexpr std::int64_t kDescent = 1 << 26;

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

double Random::share() { return static_cast<double>(next() >> 11) * 0x1p-53; }

void Pool::start(std::int32_t records) {
    m_ = records;
    c_ = 0;
    added_ = 0;
    const std::size_t m = static_cast<std::size_t>(m_);
    stride_ = (m_ + kFan - 1) / kFan * kFan;
    columns_.assign(static_cast<std::size_t>(stride_) * static_cast<std::size_t>(p_), 0.0);
    distance_.resize(m * static_cast<std::size_t>(stride_));
    part_.resize(m);
}

void Pool::add(const double* row, std::int32_t part) {
    for (int j = 0; j < p_; ++j) columns_[static_cast<std::size_t>(j * stride_ + added_)] = row[j];
    add(part);
}

void Pool::add(std::int32_t part) {
    part_[static_cast<std::size_t>(added_++)] = part;
    c_ = std::max(c_, part + 1);
}

void Pool::finish() {
    ops_.pairwise(columns_.data(), p_, m_, stride_, distance_.data());
    spent_ += std::int64_t{m_} * (40 + stride_ * std::int64_t{p_} / 16);
    sum_pairs();
}

void Pool::finish(std::int64_t price) {
    spent_ += std::int64_t{m_} * (40 + stride_ * price);
    sum_pairs();
}

void Pool::sum_pairs() {
    gain_ = kSwapGain * *std::max_element(distances(0), distances(0) + m_);
    list_members();
    summed_ = false;
    sum_.resize(static_cast<std::size_t>(c_));
    for (std::int32_t a = 0; a < c_; ++a) {
        const auto& in_a = members_[static_cast<std::size_t>(a)];
        *sum(a) = 0.0;
        for (std::size_t i = 0; i < in_a.size(); ++i) {
            for (std::size_t l = 0; l < i; ++l) *sum(a) += distances(in_a[i])[in_a[l]];
        }
    }
}

void Pool::list_members() {
    const std::size_t c = static_cast<std::size_t>(c_);
    if (members_.size() < c) members_.resize(c);
    for (std::size_t i = 0; i < c; ++i) members_[i].clear();
    for (std::int32_t x = 0; x < m_; ++x) {
        if (part(x) >= 0) members_[static_cast<std::size_t>(part(x))].push_back(x);
    }
    settled_.assign(c * c, 0);
}

void Pool::sum_rows() {
    if (summed_) return;
    summed_ = true;
    to_.resize(static_cast<std::size_t>(c_) * static_cast<std::size_t>(stride_));
    for (std::int32_t a = 0; a < c_; ++a) {
        double* row = to(a);
        std::fill_n(row, m_, 0.0);
        for (const std::int32_t x : members_[static_cast<std::size_t>(a)]) {
            const double* from = distances(x);
            for (std::int32_t y = 0; y < m_; ++y) row[y] += from[y];
        }
    }
    sum_parts();
    spent_ += std::int64_t{m_} * m_ / 4;
}

void Pool::sum_parts() {
    sum_.resize(static_cast<std::size_t>(c_));
    for (std::int32_t a = 0; a < c_; ++a) {
        double total = 0.0;
        for (const std::int32_t x : members_[static_cast<std::size_t>(a)]) total += to(a)[x];
        *sum(a) = total / 2;
    }
}

double Pool::loss(std::int32_t part) const {
    return sum_[static_cast<std::size_t>(part)] / size(part);
}

double Pool::loss() const {
    double total = 0.0;
    for (std::int32_t a = 0; a < c_; ++a) total += loss(a);
    return total;
}

void Pool::save() {
    kept_part_ = part_;
    kept_c_ = c_;
}

void Pool::restore() {
    part_ = kept_part_;
    c_ = kept_c_;
    list_members();
    summed_ = false;
}

void Pool::move(std::int32_t x, std::int32_t from, std::int32_t into) {
    auto& old = members_[static_cast<std::size_t>(from)];
    *std::find(old.begin(), old.end(), x) = old.back();
    old.pop_back();
    members_[static_cast<std::size_t>(into)].push_back(x);
    part_[static_cast<std::size_t>(x)] = into;
    *sum(from) -= to(from)[x];
    *sum(into) += to(into)[x];
    const double* gap = distances(x);
    double* less = to(from);
    double* more = to(into);
    for (std::int32_t y = 0; y < m_; ++y) {
        less[y] -= gap[y];
        more[y] += gap[y];
    }
    for (std::int32_t other = 0; other < c_; ++other) {
        settled_[static_cast<std::size_t>(from * c_ + other)] = 0;
        settled_[static_cast<std::size_t>(other * c_ + from)] = 0;
        settled_[static_cast<std::size_t>(into * c_ + other)] = 0;
        settled_[static_cast<std::size_t>(other * c_ + into)] = 0;
    }
    spent_ += m_ / 4;
}

void Pool::swap(std::int32_t x, std::int32_t y) {
    const std::int32_t a = part(x), b = part(y);
    move(x, a, b);
    move(y, b, a);
}

// Applies the best move or swap between two classes if it improves the loss.
bool Pool::improve(std::int32_t a, std::int32_t b) {
    const auto& in_a = members_[static_cast<std::size_t>(a)];
    const auto& in_b = members_[static_cast<std::size_t>(b)];
    const double size_a = size(a), size_b = size(b);
    const double* to_a = to(a);
    const double* to_b = to(b);
    const double loss_a = *sum(a) / size_a, loss_b = *sum(b) / size_b;
    double best = -gain_;
    std::int32_t best_x = -1, best_y = -1;
    if (size(a) > k_ && size(b) < most_) {
        for (const std::int32_t x : in_a) {
            const double change = (*sum(a) - to_a[x]) / (size_a - 1) +
                                  (*sum(b) + to_b[x]) / (size_b + 1) - loss_a - loss_b;
            if (change < best) best = change, best_x = x, best_y = -1;
        }
    }
    if (size(b) > k_ && size(a) < most_) {
        for (const std::int32_t y : in_b) {
            const double change = (*sum(b) - to_b[y]) / (size_b - 1) +
                                  (*sum(a) + to_a[y]) / (size_a + 1) - loss_a - loss_b;
            if (change < best) best = change, best_x = -1, best_y = y;
        }
    }
    const double over_a = 1 / size_a, over_b = 1 / size_b, over = over_a + over_b;
    gains_.resize(in_b.size());
    for (std::size_t i = 0; i < in_b.size(); ++i) {
        gains_[i] = to_a[in_b[i]] * over_a - to_b[in_b[i]] * over_b;
    }
    for (const std::int32_t x : in_a) {
        const double* gap = distances(x);
        const double gain = to_b[x] * over_b - to_a[x] * over_a;
        for (std::size_t i = 0; i < in_b.size(); ++i) {
            const double change = gain + gains_[i] - gap[in_b[i]] * over;
            if (change < best) best = change, best_x = x, best_y = in_b[i];
        }
    }
    spent_ += 4 + 10 * static_cast<std::int64_t>(in_a.size()) + std::ssize(in_a) * std::ssize(in_b) / 4;
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
    sum_rows();
    std::int32_t changes = kChanges * m_;
    const std::int64_t limit = spent_ + kDescent;
    const auto may_go_on = [&] { return changes > 0 && spent_ < limit; };
    for (bool changed = true; changed && may_go_on();) {
        changed = false;
        for (std::int32_t a = 0; a < c_; ++a) {
            for (std::int32_t b = a + 1; b < c_; ++b) {
                std::uint8_t& settled = settled_[static_cast<std::size_t>(a * c_ + b)];
                if (settled) continue;
                while (may_go_on() && improve(a, b)) changed = true, --changes;
                settled_[static_cast<std::size_t>(a * c_ + b)] = 1;
            }
        }
    }
}

// The seed and, one by one, the free record nearest on average, until there are k.
void Pool::grow(std::int32_t part, std::int32_t seed) {
    double* row = to(part);
    std::fill_n(row, stride_, 0.0);
    std::int32_t next = seed;
    for (std::int32_t count = 0; count < k_; ++count) {
        part_[static_cast<std::size_t>(next)] = part;
        bar_[static_cast<std::size_t>(next)] = kInf;
        next = ops_.add_and_least(row, distances(next), bar_.data(), stride_);
        if (bar_[static_cast<std::size_t>(next)] > 0.0 && count + 1 < k_) {
            // Distances overflowed: use the first free record.
            next = static_cast<std::int32_t>(std::find(bar_.begin(), bar_.end(), 0.0) - bar_.begin());
        }
    }
    spent_ += std::int64_t{stride_} * k_ / 4;
}

void Pool::rebuild(Random& random) {
    const std::int32_t fewest = (m_ + most_ - 1) / most_, most = m_ / k_;
    c_ = std::clamp(c_ + random.below(3) - 1, fewest, most);
    std::fill(part_.begin(), part_.end(), -1);
    to_.resize(static_cast<std::size_t>(c_) * static_cast<std::size_t>(stride_));
    bar_.assign(static_cast<std::size_t>(stride_), kInf);
    std::fill_n(bar_.begin(), m_, 0.0);
    const bool far = random.below(2) == 0;
    for (std::int32_t a = 0; a < c_; ++a) {
        std::int32_t skip = random.below(m_ - a * k_);
        std::int32_t seed = 0;
        for (;; ++seed) {
            if (part_[static_cast<std::size_t>(seed)] < 0 && skip-- == 0) break;
        }
        if (far) {
            const double* gap = distances(seed);
            for (std::int32_t y = 0; y < m_; ++y) {
                if (part_[static_cast<std::size_t>(y)] < 0 && gap[y] > gap[seed]) seed = y;
            }
        }
        grow(a, seed);
    }
    // Remaining records join, one by one, the class whose loss increases least.
    list_members();
    sum_parts();
    for (std::int32_t x = 0; x < m_; ++x) {
        if (part(x) >= 0) continue;
        std::int32_t best = -1;
        double least = kInf;
        for (std::int32_t a = 0; a < c_; ++a) {
            if (size(a) >= most_) continue;
            const double n = size(a), w = *sum(a);
            const double change = (w + to(a)[x]) / (n + 1) - w / n;
            if (best < 0 || change < least) least = change, best = a;
        }
        part_[static_cast<std::size_t>(x)] = best;
        members_[static_cast<std::size_t>(best)].push_back(x);
        *sum(best) += to(best)[x];
        const double* gap = distances(x);
        double* row = to(best);
        for (std::int32_t y = 0; y < stride_; ++y) row[y] += gap[y];
    }
    summed_ = true;
}

void Pool::kick(Random& random, std::int32_t swaps) {
    sum_rows();
    for (std::int32_t i = 0; i < swaps; ++i) {
        const std::int32_t x = random.below(m_);
        std::int32_t y = -1;
        for (int draws = kSwapDraws; draws > 0; --draws) {
            const std::int32_t other = random.below(m_);
            if (part(other) == part(x)) continue;
            if (y < 0 || distances(x)[other] < distances(x)[y]) y = other;
        }
        if (y >= 0) swap(x, y);
    }
}

std::int64_t Pool::spent() {
    const std::int64_t spent = spent_;
    spent_ = 0;
    return spent;
}

}  // namespace dbanon
