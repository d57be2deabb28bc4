#include "points/recombine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dbanon {

namespace {

// Limit of stored class members: absolute, and as a multiple of the records.
constexpr std::size_t kMaxStoredIds = 1 << 22, kStoredIdsPerRecord = 16;
constexpr int kPriceSteps = 400;        // of price computation
constexpr int kPatience = 20;      // steps without improvement before they are shortened
constexpr double kDirectionMemory = 0.6;      // weight of the previous direction
constexpr double kMinStepScale = 1e-3;  // price computation ends below this scale
constexpr double kMinRelativeStep = 1e-2;  // the shortest step of a price, relative to the mean

std::uint64_t hash_of(const std::int32_t* ids, std::int32_t count) {
    std::uint64_t hash = 0;
    for (std::int32_t i = 0; i < count; ++i) {
        hash = (hash ^ static_cast<std::uint64_t>(ids[i])) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

}  // namespace

void Recombine::PriceAscent::start(std::vector<double> from) {
    prices = std::move(from);
    best = prices;
    double mean = 0.0;
    for (const double price : prices) mean += price / static_cast<double>(prices.size());
    scale = prices;
    for (double& length : scale) length = std::max(length, kMinRelativeStep * mean);
    direction.assign(prices.size(), 0.0);
    bound = -std::numeric_limits<double>::infinity();
    step_scale = 1.0;
    stalled = 0;
}

// Moves prices towards uncovered records. `value` is the value of the relaxation at the current
// prices, `most` an upper bound of it; `shortfall` is 1 minus the number of classes that cover a record. False at the optimum.
bool Recombine::PriceAscent::step(double value, double most, const std::vector<std::int32_t>& shortfall) {
    if (value > bound) {
        bound = value;
        best = prices;
        stalled = 0;
    } else if (++stalled >= kPatience) {
        step_scale /= 2;
        stalled = 0;
    }
    double norm = 0.0;
    for (std::size_t i = 0; i < prices.size(); ++i) {
        direction[i] = shortfall[i] + kDirectionMemory * direction[i];
        norm += scale[i] * direction[i] * direction[i];
    }
    if (norm == 0.0 || step_scale < kMinStepScale || bound >= most) return false;
    const double step_length = step_scale * (most - value) / norm;
    for (std::size_t i = 0; i < prices.size(); ++i) prices[i] += step_length * scale[i] * direction[i];
    return true;
}

Recombine::Recombine(const Table& table, std::int32_t k, PairDistances* pair_distances)
    : table_(table),
      pair_distances_(pair_distances),
      k_(k),
      max_class_size_(2 * k - 1),
      max_classes_(std::max(kMaxStoredIds, kStoredIdsPerRecord * static_cast<std::size_t>(table.n)) /
            static_cast<std::size_t>(max_class_size_)),
      members_(max_class_size_),
      slots_(1 << 12, -1),
      position_(table.n, -1),
      region_positions_(max_class_size_) {}

std::int32_t& Recombine::slot(std::uint64_t hash) {
    return slots_[static_cast<std::size_t>(hash) & (slots_.size() - 1)];
}

// Rebuilds the hash table.
void Recombine::rebuild_hash_table() {
    std::fill(slots_.begin(), slots_.end(), -1);
    for (std::int32_t class_id = 0; class_id < static_cast<std::int32_t>(size_.size()); ++class_id) {
        std::uint64_t hash = hash_of(members(class_id), size(class_id));
        while (slot(hash) >= 0) ++hash;
        slot(hash) = class_id;
    }
}

std::int32_t Recombine::find_or_add(const std::int32_t* ids, std::int32_t count) {
    const std::size_t class_id = size_.size();
    members_.resize(class_id + 1);
    std::int32_t* sorted = members_.row(class_id);
    std::copy(ids, ids + count, sorted);
    std::sort(sorted, sorted + count);
    work_done_ += 60 + 8 * count;
    std::uint64_t hash = hash_of(sorted, count);
    for (; slot(hash) >= 0; ++hash) {
        const std::int32_t other = slot(hash);
        if (size(other) == count && std::equal(sorted, sorted + count, members(other))) {
            members_.resize(class_id);
            return other;
        }
    }
    slot(hash) = static_cast<std::int32_t>(class_id);
    size_.push_back(count);
    const double sum = sum_of_squares(sorted, count);
    work_done_ += pair_distances_ ? count * count * pair_distances_->cost_per_distance() : std::int64_t{count} * table_.p;
    loss_.push_back(std::isfinite(sum) ? sum : std::numeric_limits<double>::max());
    if (2 * size_.size() > slots_.size()) {
        slots_.resize(2 * slots_.size());
        rebuild_hash_table();
    }
    return static_cast<std::int32_t>(class_id);
}

// The sum of squares of a class.
double Recombine::sum_of_squares(const std::int32_t* ids, std::int32_t count) const {
    double sum = 0.0;
    if (pair_distances_) {
        std::vector<double> row(static_cast<std::size_t>(count) * static_cast<std::size_t>(count));
        pair_distances_->fill_pairwise(ids, count, count, row.data());
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
double Recombine::distance_to_mean(std::int32_t class_id, std::int32_t i) const {
    const std::int32_t* ids = members(class_id);
    const std::int32_t count = size(class_id);
    if (pair_distances_) {
        std::vector<double> row(static_cast<std::size_t>(count));
        pair_distances_->fill_row(ids[i], ids, count, row.data());
        const double sum = std::accumulate(row.begin(), row.end(), 0.0);
        return std::max(sum - loss(class_id), 0.0) / count;
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

void Recombine::start_from(const std::vector<std::int32_t>& labels) {
    std::vector<std::vector<std::int32_t>> classes;
    for (std::size_t id = 0; id < labels.size(); ++id) {
        const std::size_t class_id = labels[id];
        if (class_id >= classes.size()) classes.resize(class_id + 1);
        classes[class_id].push_back(static_cast<std::int32_t>(id));
    }
    current_.resize(labels.size());
    std::vector<double> prices(labels.size());
    for (const auto& ids : classes) {
        if (ids.empty()) continue;
        const std::int32_t class_id = find_or_add(ids.data(), static_cast<std::int32_t>(ids.size()));
        for (const std::int32_t id : ids) current_[id] = class_id;
        share_loss(class_id, prices);
    }
    ascent_.start(std::move(prices));
    steps_left_ = kPriceSteps;
}

// Shares of a class's loss by record: half by distance from the mean, half in equal parts.
void Recombine::share_loss(std::int32_t class_id, std::vector<double>& prices) const {
    const std::int32_t* ids = members(class_id);
    for (std::int32_t i = 0; i < size(class_id); ++i) {
        double& price = prices[ids[i]];
        // Also if distances overflow.
        price = std::min(distance_to_mean(class_id, i), loss(class_id)) / 2 + loss(class_id) / size(class_id) / 2;
    }
}

double Recombine::reduced_cost(std::int32_t class_id, const std::vector<double>& prices) const {
    double left = loss(class_id);
    const std::int32_t* ids = members(class_id);
    for (std::int32_t i = 0; i < size(class_id); ++i) left -= prices[ids[i]];
    return left;
}

double Recombine::total_loss() const {
    double sum = 0.0;
    for (std::size_t id = 0; id < current_.size(); ++id) {
        if (*members(current_[id]) == static_cast<std::int32_t>(id)) sum += loss(current_[id]);
    }
    return sum;
}

bool Recombine::step_prices() {
    shortfall_.assign(current_.size(), 1);
    double value = std::accumulate(ascent_.prices.begin(), ascent_.prices.end(), 0.0);
    const std::int32_t count = static_cast<std::int32_t>(size_.size());
    for (std::int32_t class_id = 0; class_id < count; ++class_id) {
        const double left = reduced_cost(class_id, ascent_.prices);
        if (left >= 0.0) continue;
        value += left;
        const std::int32_t* ids = members(class_id);
        for (std::int32_t i = 0; i < size(class_id); ++i) --shortfall_[ids[i]];
    }
    work_done_ += std::int64_t{count} * (4 + k_);
    if (ascent_.step(value, total_loss(), shortfall_) && --steps_left_ > 0) return true;
    drop_expensive();
    list_classes_by_record();
    return false;
}

// Drops the more expensive half of the classes if storage is full.
void Recombine::drop_expensive() {
    const std::size_t count = size_.size();
    reduced_costs_.resize(count);
    for (std::size_t class_id = 0; class_id < count; ++class_id) {
        reduced_costs_[class_id] = reduced_cost(static_cast<std::int32_t>(class_id), ascent_.best);
        // If losses or prices overflow.
        if (std::isnan(reduced_costs_[class_id])) reduced_costs_[class_id] = std::numeric_limits<double>::infinity();
    }
    if (count <= max_classes_ / 2) return;
    std::vector<double> order = reduced_costs_;
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(max_classes_ / 2);
    std::nth_element(order.begin(), middle, order.end());
    const double bar = *middle;
    std::vector<std::int32_t> moved(count, -1);
    for (const std::int32_t class_id : current_) moved[class_id] = 0;
    std::size_t left = 0;
    for (std::size_t class_id = 0; class_id < count; ++class_id) {
        if (reduced_costs_[class_id] >= bar && moved[class_id] < 0) continue;
        moved[class_id] = static_cast<std::int32_t>(left);
        if (left < class_id) members_.copy(class_id, left);
        size_[left] = size_[class_id];
        loss_[left] = loss_[class_id];
        reduced_costs_[left++] = reduced_costs_[class_id];
    }
    for (std::int32_t& class_id : current_) class_id = moved[class_id];
    members_.resize(left);
    size_.resize(left);
    loss_.resize(left);
    reduced_costs_.resize(left);
    rebuild_hash_table();
}

// The classes of each record.
void Recombine::list_classes_by_record() {
    const std::int32_t count = static_cast<std::int32_t>(size_.size());
    first_class_.assign(current_.size() + 1, 0);
    for (std::int32_t class_id = 0; class_id < count; ++class_id) {
        for (std::int32_t i = 0; i < size(class_id); ++i) {
            ++first_class_[static_cast<std::size_t>(members(class_id)[i]) + 1];
        }
    }
    std::partial_sum(first_class_.begin(), first_class_.end(), first_class_.begin());
    std::vector<std::int32_t> order(size_.size()), next(first_class_.begin(), first_class_.end() - 1);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return reduced_costs_[a] < reduced_costs_[b];
    });
    classes_of_record_.resize(first_class_.back());
    for (const std::int32_t class_id : order) {
        for (std::int32_t i = 0; i < size(class_id); ++i) {
            std::int32_t& slot = next[members(class_id)[i]];
            classes_of_record_[slot++] = class_id;
        }
    }
    work_done_ += std::int64_t{count} * (100 + 8 * k_);
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

std::int64_t Recombine::take_work() {
    const std::int64_t work_done = work_done_;
    work_done_ = 0;
    return work_done;
}

}  // namespace dbanon
