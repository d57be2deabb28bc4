#include "recombine.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace dbanon {

namespace {

// Ids of all classes kept, or so many times those of a partition.
constexpr std::size_t kIds = 1 << 22, kTimes = 16;
// Steps of the prices of all records, and of a region.
constexpr int kSteps = 300, kRegionSteps = 100;
constexpr int kPatience = 5;       // steps without gain before they become shorter
constexpr double kSlowest = 1e-3;  // the pace at which it ends
// Classes among which those that a region grows by are drawn, the best of a record.
constexpr std::int32_t kGrowing = 8;
constexpr std::size_t kLocal = 6000;     // classes looked at in a region
constexpr std::int64_t kNodes = 20'000;  // of branch and bound in a region
// The share of a region's loss that counts as a gain: less may be rounding.
constexpr double kGain = 1e-10;

std::uint64_t hash_of(const std::int32_t* ids, std::int32_t count) {
    std::uint64_t hash = 0;
    for (std::int32_t i = 0; i < count; ++i) {
        hash = (hash ^ static_cast<std::uint64_t>(ids[i])) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

}  // namespace

bool Mask::within(const Mask& other) const {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) out |= words_[i] & ~other.words_[i];
    return out == 0;
}

void Mask::remove(const Mask& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
}

std::int32_t Mask::pop() {
    std::size_t i = 0;
    while (words_[i] == 0) ++i;
    const int bit = std::countr_zero(words_[i]);
    words_[i] &= words_[i] - 1;
    return static_cast<std::int32_t>(64 * i) + bit;
}

void Recombine::Ascent::start(std::vector<double> from) {
    prices = std::move(from);
    best = prices;
    bound = -std::numeric_limits<double>::infinity();
    pace = 1.0;
    stalled = 0;
}

// Moves the prices towards records that classes lack; `value` is the relaxation's at these, `most`
// the loss that it stays below. False where it is at its end.
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
    for (const std::int32_t x : lack) norm += static_cast<double>(x) * x;
    if (norm == 0.0 || pace < kSlowest || bound >= most) return false;
    const double by = pace * (most - value) / norm;
    for (std::size_t i = 0; i < prices.size(); ++i) prices[i] += by * lack[i];
    return true;
}

Recombine::Recombine(const Table& table, std::int32_t k)
    : table_(table),
      k_(k),
      room_(2 * k - 1),
      useful_(4 * room_ <= Mask::kRecords),
      most_(std::max(kIds, kTimes * static_cast<std::size_t>(table.n)) / static_cast<std::size_t>(room_)),
      slots_(1 << 12, -1),
      place_(static_cast<std::size_t>(table.n), -1) {}

std::int32_t& Recombine::slot(std::uint64_t hash) {
    return slots_[static_cast<std::size_t>(hash) & (slots_.size() - 1)];
}

// By hash, all anew.
void Recombine::index() {
    std::fill(slots_.begin(), slots_.end(), -1);
    for (std::int32_t at = 0; at < static_cast<std::int32_t>(size_.size()); ++at) {
        std::uint64_t hash = hash_of(members(at), size(at));
        while (slot(hash) >= 0) ++hash;
        slot(hash) = at;
    }
}

std::int32_t Recombine::find(const std::int32_t* ids, std::int32_t count) {
    const std::size_t at = size_.size(), room = static_cast<std::size_t>(room_);
    members_.resize((at + 1) * room);
    std::int32_t* sorted = members_.data() + at * room;
    std::copy(ids, ids + count, sorted);
    std::sort(sorted, sorted + count);
    spent_ += 60 + 8 * count;
    std::uint64_t hash = hash_of(sorted, count);
    for (; slot(hash) >= 0; ++hash) {
        const std::int32_t other = slot(hash);
        if (size(other) == count && std::equal(sorted, sorted + count, members(other))) {
            members_.resize(at * room);
            return other;
        }
    }
    slot(hash) = static_cast<std::int32_t>(at);
    size_.push_back(count);
    double sum = 0.0;
    for (int j = 0; j < table_.p; ++j) {
        double mean = 0.0, squares = 0.0;
        for (std::int32_t i = 0; i < count; ++i) mean += table_.row(sorted[i])[j] / count;
        for (std::int32_t i = 0; i < count; ++i) {
            const double gap = table_.row(sorted[i])[j] - mean;
            squares += gap * gap;
        }
        sum += squares;
    }
    spent_ += std::int64_t{count} * table_.p;
    loss_.push_back(sum);
    if (2 * size_.size() > slots_.size()) {
        slots_.resize(2 * slots_.size());
        index();
    }
    return static_cast<std::int32_t>(at);
}

void Recombine::begin(const std::vector<std::int32_t>& labels) {
    std::vector<std::vector<std::int32_t>> classes;
    for (std::size_t id = 0; id < labels.size(); ++id) {
        const std::size_t at = static_cast<std::size_t>(labels[id]);
        if (at >= classes.size()) classes.resize(at + 1);
        classes[at].push_back(static_cast<std::int32_t>(id));
    }
    current_.resize(labels.size());
    std::vector<double> prices(labels.size());
    for (const auto& ids : classes) {
        if (ids.empty()) continue;
        const std::int32_t count = static_cast<std::int32_t>(ids.size());
        const std::int32_t at = find(ids.data(), count);
        for (const std::int32_t id : ids) {
            current_[static_cast<std::size_t>(id)] = at;
            prices[static_cast<std::size_t>(id)] = loss(at) / count;
        }
    }
    ascent_.start(std::move(prices));
    steps_left_ = kSteps;
}

double Recombine::reduced(std::int32_t at, const std::vector<double>& prices) const {
    double left = loss(at);
    const std::int32_t* ids = members(at);
    for (std::int32_t i = 0; i < size(at); ++i) left -= prices[static_cast<std::size_t>(ids[i])];
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
        for (std::int32_t i = 0; i < size(at); ++i) --lack_[static_cast<std::size_t>(ids[i])];
    }
    spent_ += std::int64_t{count} * (4 + k_);
    if (ascent_.step(value, total(), lack_) && --steps_left_ > 0) return true;
    forget();
    list();
    return false;
}

// The dearer half of the classes, where there is no room for more.
void Recombine::forget() {
    const std::size_t count = size_.size(), room = static_cast<std::size_t>(room_);
    reduced_.resize(count);
    for (std::size_t at = 0; at < count; ++at) {
        reduced_[at] = reduced(static_cast<std::int32_t>(at), ascent_.best);
    }
    if (count <= most_ / 2) return;
    std::vector<double> order = reduced_;
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(most_ / 2);
    std::nth_element(order.begin(), middle, order.end());
    const double bar = *middle;
    std::vector<std::int32_t> moved(count, -1);
    for (const std::int32_t at : current_) moved[static_cast<std::size_t>(at)] = 0;
    std::size_t left = 0;
    for (std::size_t at = 0; at < count; ++at) {
        if (reduced_[at] >= bar && moved[at] < 0) continue;
        moved[at] = static_cast<std::int32_t>(left);
        std::copy_n(members_.begin() + static_cast<std::ptrdiff_t>(at * room), room,
                    members_.begin() + static_cast<std::ptrdiff_t>(left * room));
        size_[left] = size_[at];
        loss_[left] = loss_[at];
        reduced_[left++] = reduced_[at];
    }
    for (std::int32_t& at : current_) at = moved[static_cast<std::size_t>(at)];
    members_.resize(left * room);
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
        return reduced_[static_cast<std::size_t>(a)] < reduced_[static_cast<std::size_t>(b)];
    });
    of_.resize(static_cast<std::size_t>(first_.back()));
    for (const std::int32_t at : order) {
        for (std::int32_t i = 0; i < size(at); ++i) {
            std::int32_t& place = next[static_cast<std::size_t>(members(at)[i])];
            of_[static_cast<std::size_t>(place++)] = at;
        }
    }
    spent_ += std::int64_t{count} * (100 + 8 * k_);
}

void Recombine::enter(std::int32_t at) {
    region_loss_ += loss(at);
    region_reduced_ += reduced_[static_cast<std::size_t>(at)];
    for (std::int32_t i = 0; i < size(at); ++i) {
        const std::int32_t id = members(at)[i];
        place_[static_cast<std::size_t>(id)] = static_cast<std::int32_t>(records_.size());
        records_.push_back(id);
    }
}

// A class that costs more than its prices, and classes that share records with the best of others.
void Recombine::gather(Random& random) {
    records_.clear();
    region_loss_ = region_reduced_ = 0.0;
    const auto cost = [&](std::int32_t at) { return reduced_[static_cast<std::size_t>(at)]; };
    const auto drawn = [&] { return current_[static_cast<std::size_t>(random.below(table_.n))]; };
    const std::int32_t one = drawn(), other = drawn();
    enter(cost(other) > cost(one) ? other : one);
    const std::int32_t most = Mask::kRecords / 4 + random.below(Mask::kRecords * 3 / 4);
    for (int tries = 2 * Mask::kRecords; tries > 0; --tries) {
        const std::int32_t count = static_cast<std::int32_t>(records_.size());
        if (count >= most) break;
        const std::size_t from =
            static_cast<std::size_t>(records_[static_cast<std::size_t>(random.below(count))]);
        const std::int32_t best = std::min(first_[from + 1] - first_[from], kGrowing);
        const std::int32_t by = of_[static_cast<std::size_t>(first_[from] + random.below(best))];
        for (std::int32_t i = 0; i < size(by); ++i) {
            const std::size_t id = static_cast<std::size_t>(members(by)[i]);
            const std::int32_t at = current_[id];
            const bool fits = static_cast<std::int32_t>(records_.size()) + size(at) <= Mask::kRecords;
            if (place_[id] < 0 && fits) enter(at);
        }
    }
}

// The classes inside the region that may be of use.
void Recombine::collect() {
    local_.clear();
    for (std::size_t x = 0; x < records_.size(); ++x) {
        const std::size_t id = static_cast<std::size_t>(records_[x]);
        for (std::int32_t i = first_[id]; i < first_[id + 1]; ++i) {
            const std::int32_t at = of_[static_cast<std::size_t>(i)];
            if (reduced_[static_cast<std::size_t>(at)] > region_reduced_) break;
            ++spent_;
            Local found{{}, 0.0, at};
            bool inside = true;
            for (std::int32_t l = 0; l < size(at) && inside; ++l) {
                const std::int32_t place = place_[static_cast<std::size_t>(members(at)[l])];
                // Below x: it is there by another record.
                inside = place >= static_cast<std::int32_t>(x);
                if (inside) found.mask.add(place);
            }
            if (inside) local_.push_back(found);
        }
    }
    if (local_.size() > kLocal) {
        const auto cheaper = [&](const Local& a, const Local& b) {
            const double one = reduced_[static_cast<std::size_t>(a.at)];
            const double other = reduced_[static_cast<std::size_t>(b.at)];
            return one < other || (one == other && a.at < b.at);
        };
        std::nth_element(local_.begin(), local_.begin() + kLocal, local_.end(), cheaper);
        local_.resize(kLocal);
    }
    const std::size_t room = static_cast<std::size_t>(room_);
    inside_.resize(local_.size() * room);
    for (std::size_t c = 0; c < local_.size(); ++c) {
        const std::int32_t at = local_[c].at;
        for (std::int32_t i = 0; i < size(at); ++i) {
            inside_[c * room + static_cast<std::size_t>(i)] =
                static_cast<std::uint8_t>(place_[static_cast<std::size_t>(members(at)[i])]);
        }
    }
    spent_ += static_cast<std::int64_t>(local_.size()) * (4 + k_);
    for (const std::int32_t id : records_) place_[static_cast<std::size_t>(id)] = -1;
}

double Recombine::above(std::size_t c, const std::vector<double>& prices) const {
    const std::uint8_t* places = inside_.data() + c * static_cast<std::size_t>(room_);
    double left = loss(local_[c].at);
    for (std::int32_t i = 0; i < size(local_[c].at); ++i) left -= prices[places[i]];
    return left;
}

// Prices of the region; false where they prove that it cannot lose less.
bool Recombine::bound() {
    std::vector<double> from;
    for (const std::int32_t id : records_) from.push_back(ascent_.best[static_cast<std::size_t>(id)]);
    around_.start(std::move(from));
    const double most = region_loss_ * (1.0 - kGain);
    for (int step = 0; step < kRegionSteps; ++step) {
        lack_.assign(records_.size(), 1);
        double value = std::accumulate(around_.prices.begin(), around_.prices.end(), 0.0);
        for (std::size_t c = 0; c < local_.size(); ++c) {
            const double left = above(c, around_.prices);
            if (left >= 0.0) continue;
            value += left;
            const std::uint8_t* places = inside_.data() + c * static_cast<std::size_t>(room_);
            for (std::int32_t i = 0; i < size(local_[c].at); ++i) --lack_[places[i]];
        }
        spent_ += static_cast<std::int64_t>(local_.size()) * (2 + k_ / 2);
        if (!around_.step(value, most, lack_)) break;
    }
    return around_.bound < most;
}

// Lowers prices until no class costs less, and leaves the classes that may still be taken.
void Recombine::settle() {
    const std::size_t room = static_cast<std::size_t>(room_);
    std::vector<double>& prices = around_.best;
    std::vector<double> less(prices.size(), 0.0);
    for (std::size_t c = 0; c < local_.size(); ++c) {
        const double share = above(c, prices) / size(local_[c].at);
        for (std::int32_t i = 0; i < size(local_[c].at); ++i) {
            double& most = less[inside_[c * room + static_cast<std::size_t>(i)]];
            most = std::min(most, share);
        }
    }
    for (std::size_t x = 0; x < prices.size(); ++x) prices[x] += less[x];
    least_ = region_loss_ * (1.0 - kGain) - std::accumulate(prices.begin(), prices.end(), 0.0);
    std::size_t left = 0;
    for (std::size_t c = 0; c < local_.size(); ++c) {
        local_[c].cost = above(c, prices);
        if (local_[c].cost < least_) local_[left++] = local_[c];
    }
    local_.resize(left);
    std::sort(local_.begin(), local_.end(), [](const Local& a, const Local& b) {
        return a.cost < b.cost || (a.cost == b.cost && a.at < b.at);
    });
    of_place_.resize(Mask::kRecords);
    for (std::size_t x = 0; x < records_.size(); ++x) of_place_[x].clear();
    for (std::size_t c = 0; c < left; ++c) {
        for (Mask places = local_[c].mask; !places.empty();) {
            of_place_[static_cast<std::size_t>(places.pop())].push_back(static_cast<std::int32_t>(c));
        }
    }
    spent_ += static_cast<std::int64_t>(left) * (60 + 4 * k_);
}

// Of the records that are left, the one that fewest classes can take; -1 where none can take one.
std::int32_t Recombine::hardest(Mask left, double cost) const {
    std::int32_t found = -1, fewest = std::numeric_limits<std::int32_t>::max();
    for (Mask rest = left; !rest.empty() && fewest > 1;) {
        const std::int32_t x = rest.pop();
        std::int32_t count = 0;
        for (const std::int32_t c : of_place_[static_cast<std::size_t>(x)]) {
            const Local& one = local_[static_cast<std::size_t>(c)];
            if (cost + one.cost >= least_ || count >= fewest) break;
            if (one.mask.within(left)) ++count;
        }
        if (count == 0) return -1;
        if (count < fewest) fewest = count, found = x;
    }
    return found;
}

void Recombine::branch(Mask left, double cost) {
    if (left.empty()) {
        least_ = cost;
        best_ = chosen_;
        return;
    }
    const std::int32_t x = hardest(left, cost);
    if (x < 0) return;
    for (const std::int32_t c : of_place_[static_cast<std::size_t>(x)]) {
        const Local& one = local_[static_cast<std::size_t>(c)];
        if (cost + one.cost >= least_ || ++nodes_ > kNodes) return;
        if (!one.mask.within(left)) continue;
        Mask rest = left;
        rest.remove(one.mask);
        chosen_.push_back(one.at);
        branch(rest, cost + one.cost);
        chosen_.pop_back();
    }
}

bool Recombine::improve(Random& random) {
    gather(random);
    collect();
    if (!bound()) return false;
    settle();
    Mask all;
    for (std::size_t x = 0; x < records_.size(); ++x) all.add(static_cast<std::int32_t>(x));
    nodes_ = 0;
    best_.clear();
    branch(all, 0.0);
    spent_ += 60 * nodes_;
    for (const std::int32_t at : best_) {
        for (std::int32_t i = 0; i < size(at); ++i) {
            current_[static_cast<std::size_t>(members(at)[i])] = at;
        }
    }
    return !best_.empty();
}

std::vector<std::int32_t> Recombine::labels() const {
    std::vector<std::int32_t> number(size_.size(), -1), found(current_.size());
    std::int32_t next = 0;
    for (std::size_t id = 0; id < current_.size(); ++id) {
        std::int32_t& label = number[static_cast<std::size_t>(current_[id])];
        if (label < 0) label = next++;
        found[id] = label;
    }
    return found;
}

std::int64_t Recombine::spent() {
    const std::int64_t spent = spent_;
    spent_ = 0;
    return spent;
}

}  // namespace dbanon
