#include "points/recombine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dbanon {

namespace {

// Limit of stored class members: absolute, and as a multiple of the records.
constexpr std::size_t kIds = 1 << 22, kTimes = 16;
constexpr int kSteps = 400;        // of the prices
constexpr int kPatience = 20;      // steps without improvement before they are shortened
constexpr double kKept = 0.6;      // weight of the previous direction
constexpr double kSlowest = 1e-3;  // the pace at which the search ends
constexpr double kShortest = 1e-2;  // the shortest step of a price, relative to the mean

std::uint64_t hash_of(const std::int32_t* ids, std::int32_t count) {
    std::uint64_t hash = 0;
    for (std::int32_t i = 0; i < count; ++i) {
        hash = (hash ^ static_cast<std::uint64_t>(ids[i])) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

}  // namespace

void Recombine::Ascent::start(std::vector<double> from) {
    prices = std::move(from);
    best = prices;
    double mean = 0.0;
    for (const double price : prices) mean += price / static_cast<double>(prices.size());
    scale = prices;
    for (double& length : scale) length = std::max(length, kShortest * mean);
    direction.assign(prices.size(), 0.0);
    bound = -std::numeric_limits<double>::infinity();
    pace = 1.0;
    stalled = 0;
}

// Moves prices towards uncovered records. `value` is that of the relaxation at the current prices,
// `most` an upper bound of it. False at the optimum.
bool Recombine::Ascent::step(double value, double most, const std::vector<std::int32_t>& lack) {
    if (value > bound) {
        bound = value;
        best = prices;
        stalled = 0;
    } else if (++stalled >= kPatience) {
        pace /= 2;
        stalled = 0;
    }
    double norm = 0.0;
    for (std::size_t i = 0; i < prices.size(); ++i) {
        direction[i] = lack[i] + kKept * direction[i];
        norm += scale[i] * direction[i] * direction[i];
    }
    if (norm == 0.0 || pace < kSlowest || bound >= most) return false;
    const double by = pace * (most - value) / norm;
    for (std::size_t i = 0; i < prices.size(); ++i) prices[i] += by * scale[i] * direction[i];
    return true;
}

Recombine::Recombine(const Table& table, std::int32_t k, Apart* apart)
    : table_(table),
      apart_(apart),
      k_(k),
      room_(2 * k - 1),
      most_(std::max(kIds, kTimes * static_cast<std::size_t>(table.n)) /
            static_cast<std::size_t>(room_)),
      members_(room_),
      slots_(1 << 12, -1),
      position_(table.n, -1),
      inside_(room_) {}

std::int32_t& Recombine::slot(std::uint64_t hash) {
    return slots_[static_cast<std::size_t>(hash) & (slots_.size() - 1)];
}

// Rebuilds the hash table.
void Recombine::index() {
    std::fill(slots_.begin(), slots_.end(), -1);
    for (std::int32_t at = 0; at < static_cast<std::int32_t>(size_.size()); ++at) {
        std::uint64_t hash = hash_of(members(at), size(at));
        while (slot(hash) >= 0) ++hash;
        slot(hash) = at;
    }
}

std::int32_t Recombine::find(const std::int32_t* ids, std::int32_t count) {
    const std::size_t at = size_.size();
    members_.resize(at + 1);
    std::int32_t* sorted = members_.row(at);
    std::copy(ids, ids + count, sorted);
    std::sort(sorted, sorted + count);
    spent_ += 60 + 8 * count;
    std::uint64_t hash = hash_of(sorted, count);
    for (; slot(hash) >= 0; ++hash) {
        const std::int32_t other = slot(hash);
        if (size(other) == count && std::equal(sorted, sorted + count, members(other))) {
            members_.resize(at);
            return other;
        }
    }
    slot(hash) = static_cast<std::int32_t>(at);
    size_.push_back(count);
    const double sum = squares(sorted, count);
    spent_ += apart_ ? count * count * apart_->price() : std::int64_t{count} * table_.p;
    loss_.push_back(std::isfinite(sum) ? sum : std::numeric_limits<double>::max());
    if (2 * size_.size() > slots_.size()) {
        slots_.resize(2 * slots_.size());
        index();
    }
    return static_cast<std::int32_t>(at);
}

// The sum of squares of a class.
double Recombine::squares(const std::int32_t* ids, std::int32_t count) const {
    double sum = 0.0;
    if (apart_) {
        std::vector<double> row(static_cast<std::size_t>(count) * static_cast<std::size_t>(count));
        apart_->pairs(ids, count, count, row.data());
        return std::accumulate(row.begin(), row.end(), 0.0) / 2 / count;
    }
    for (int j = 0; j < table_.p; ++j) {
        double mean = 0.0, squares = 0.0;
        for (std::int32_t i = 0; i < count; ++i) mean += table_.row(ids[i])[j] / count;
        for (std::int32_t i = 0; i < count; ++i) {
            const double gap = table_.row(ids[i])[j] - mean;
            squares += gap * gap;
        }
        sum += squares;
    }
    return sum;
}

// The squared distance of a member from the mean of its class.
double Recombine::to_mean(std::int32_t at, std::int32_t i) const {
    const std::int32_t* ids = members(at);
    const std::int32_t count = size(at);
    if (apart_) {
        std::vector<double> row(static_cast<std::size_t>(count));
        apart_->from(ids[i], ids, count, row.data());
        const double sum = std::accumulate(row.begin(), row.end(), 0.0);
        return std::max(sum - loss(at), 0.0) / count;
    }
    double squared = 0.0;
    for (int j = 0; j < table_.p; ++j) {
        double mean = 0.0;
        for (std::int32_t l = 0; l < count; ++l) mean += table_.row(ids[l])[j] / count;
        const double gap = table_.row(ids[i])[j] - mean;
        squared += gap * gap;
    }
    return squared;
}

void Recombine::begin(const std::vector<std::int32_t>& labels) {
    std::vector<std::vector<std::int32_t>> classes;
    for (std::size_t id = 0; id < labels.size(); ++id) {
        const std::size_t at = labels[id];
        if (at >= classes.size()) classes.resize(at + 1);
        classes[at].push_back(static_cast<std::int32_t>(id));
    }
    current_.resize(labels.size());
    std::vector<double> prices(labels.size());
    for (const auto& ids : classes) {
        if (ids.empty()) continue;
        const std::int32_t at = find(ids.data(), static_cast<std::int32_t>(ids.size()));
        for (const std::int32_t id : ids) current_[id] = at;
        share(at, prices);
    }
    ascent_.start(std::move(prices));
    steps_left_ = kSteps;
}

// Shares of a class's loss by record: half by distance from the mean, half in equal parts.
void Recombine::share(std::int32_t at, std::vector<double>& prices) const {
    const std::int32_t* ids = members(at);
    for (std::int32_t i = 0; i < size(at); ++i) {
        double& price = prices[ids[i]];
        // Also if distances overflow.
        price = std::min(to_mean(at, i), loss(at)) / 2 + loss(at) / size(at) / 2;
    }
}

double Recombine::reduced(std::int32_t at, const std::vector<double>& prices) const {
    double left = loss(at);
    const std::int32_t* ids = members(at);
    for (std::int32_t i = 0; i < size(at); ++i) left -= prices[ids[i]];
    return left;
}

double Recombine::total() const {
    double sum = 0.0;
    for (std::size_t id = 0; id < current_.size(); ++id) {
        if (*members(current_[id]) == static_cast<std::int32_t>(id)) sum += loss(current_[id]);
    }
    return sum;
}

bool Recombine::price() {
    lack_.assign(current_.size(), 1);
    double value = std::accumulate(ascent_.prices.begin(), ascent_.prices.end(), 0.0);
    const std::int32_t count = static_cast<std::int32_t>(size_.size());
    for (std::int32_t at = 0; at < count; ++at) {
        const double left = reduced(at, ascent_.prices);
        if (left >= 0.0) continue;
        value += left;
        const std::int32_t* ids = members(at);
        for (std::int32_t i = 0; i < size(at); ++i) --lack_[ids[i]];
    }
    spent_ += std::int64_t{count} * (4 + k_);
    if (ascent_.step(value, total(), lack_) && --steps_left_ > 0) return true;
    forget();
    list();
    return false;
}

// Drops the more expensive half of the classes if storage is full.
void Recombine::forget() {
    const std::size_t count = size_.size();
    reduced_.resize(count);
    for (std::size_t at = 0; at < count; ++at) {
        reduced_[at] = reduced(static_cast<std::int32_t>(at), ascent_.best);
        // If losses or prices overflow.
        if (std::isnan(reduced_[at])) reduced_[at] = std::numeric_limits<double>::infinity();
    }
    if (count <= most_ / 2) return;
    std::vector<double> order = reduced_;
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(most_ / 2);
    std::nth_element(order.begin(), middle, order.end());
    const double bar = *middle;
    std::vector<std::int32_t> moved(count, -1);
    for (const std::int32_t at : current_) moved[at] = 0;
    std::size_t left = 0;
    for (std::size_t at = 0; at < count; ++at) {
        if (reduced_[at] >= bar && moved[at] < 0) continue;
        moved[at] = static_cast<std::int32_t>(left);
        if (left < at) members_.copy(at, left);
        size_[left] = size_[at];
        loss_[left] = loss_[at];
        reduced_[left++] = reduced_[at];
    }
    for (std::int32_t& at : current_) at = moved[at];
    members_.resize(left);
    size_.resize(left);
    loss_.resize(left);
    reduced_.resize(left);
    index();
}

// The classes of each record.
void Recombine::list() {
    const std::int32_t count = static_cast<std::int32_t>(size_.size());
    first_.assign(current_.size() + 1, 0);
    for (std::int32_t at = 0; at < count; ++at) {
        for (std::int32_t i = 0; i < size(at); ++i) {
            ++first_[static_cast<std::size_t>(members(at)[i]) + 1];
        }
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<std::int32_t> order(size_.size()), next(first_.begin(), first_.end() - 1);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return reduced_[a] < reduced_[b];
    });
    of_.resize(first_.back());
    for (const std::int32_t at : order) {
        for (std::int32_t i = 0; i < size(at); ++i) {
            std::int32_t& slot = next[members(at)[i]];
            of_[slot++] = at;
        }
    }
    spent_ += std::int64_t{count} * (100 + 8 * k_);
}

std::vector<std::int32_t> Recombine::labels() const {
    std::vector<std::int32_t> number(size_.size(), -1), labels(current_.size());
    std::int32_t next = 0;
    for (std::size_t id = 0; id < current_.size(); ++id) {
        std::int32_t& label = number[current_[id]];
        if (label < 0) label = next++;
        labels[id] = label;
    }
    return labels;
}

std::int64_t Recombine::spent() {
    const std::int64_t spent = spent_;
    spent_ = 0;
    return spent;
}

}  // namespace dbanon
