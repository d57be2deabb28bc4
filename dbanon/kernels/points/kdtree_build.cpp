// Construction of the tree; queries and deletion are in kdtree.cpp.
#include "points/kdtree.hpp"

#include <algorithm>
#include <cmath>

#include "points/dispatch.hpp"
#include "points/distance.hpp"

namespace dbanon {

namespace {

// Ranges up to this length are split exactly and at once; longer ones at the median of a sample,
// piece by piece.
constexpr std::int32_t kShortRange = 16384;
constexpr std::int32_t kCutSample = 255;
constexpr std::int32_t kSliceRecords = 4096;
constexpr std::int32_t kPrefetchAhead = 32;  // distance of prefetched records
constexpr double kMaxRank = 4294967295.0;
// Limits of the selection, after which std::nth_element takes over: for few keys, or after many
// rounds, which only adversarial orders need.
constexpr std::int32_t kMinSelectKeys = 16;
constexpr int kMaxSelectRounds = 40;

// A fixed sequence: the tree, hence the time, is the same in every run.
std::uint64_t mix_bits(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

std::int32_t sample_index(std::int32_t begin, std::int32_t end, std::int32_t i) {
    const std::uint64_t length = static_cast<std::uint64_t>(end - begin);
    return begin + static_cast<std::int32_t>(mix_bits(static_cast<std::uint64_t>(i) + length) % length);
}

// std::nth_element for distinct keys, without unpredictable branches.
void select(std::uint64_t* first, std::uint64_t* last, const std::uint64_t* middle) {
    for (int round = 0; last - first > kMinSelectKeys && round < kMaxSelectRounds; ++round) {
        const std::uint64_t a = first[0], b = first[(last - first) / 2], c = last[-1];
        const std::uint64_t pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
        std::uint64_t* to = first;
        for (std::uint64_t* at = first; at < last; ++at) {
            const std::uint64_t key = *at;
            *at = *to;
            *to = key;
            to += key < pivot ? 1 : 0;
        }
        (to <= middle ? first : last) = to;
    }
    std::nth_element(first, first + (middle - first), last);
}

}  // namespace

KdTree::KdTree(const double* points, std::int32_t n, int p, const Ops& ops)
    : points_(points),
      p_(p),
      block_(block_records(p)),
      ops_(ops),
      size_(n),
      position_(static_cast<std::size_t>(n), 0) {
    order_.resize(static_cast<std::size_t>(n));
    for (std::int32_t i = 0; i < n; ++i) order_[static_cast<std::size_t>(i)] = i;
    // The middle need not be exact, only the same in all that follows.
    middle_ = sample_medians(points, n, p);
    coarse_ = Coarse(points, n, p, middle_);
    has_batches_ = coarse_.is_enabled() && ops_.nearest_of_batch != nullptr && can_run_batches();
    // Every short range may leave a leaf partly empty, and short ranges have at least an eighth of
    // kShort records unless the sample is bad; add_leaf() grows the storage if necessary.
    reserve_leaves(size_ / block_ + size_ / 512 + kFanOut);
    add_node({0, size_, -1, 0, 1, 0, 0});
}

// Reserves room for this number of leaves; pages are not touched before they are filled.
void KdTree::reserve_leaves(std::int64_t leaves) {
    leaf_points_.resize(static_cast<std::size_t>(leaves * block_ * p_));
    leaf_reach_.resize(static_cast<std::size_t>(leaves * block_));
    leaf_ids_.resize(static_cast<std::size_t>(leaves * block_));
    if (coarse_.is_enabled()) leaf_coarse_.resize(static_cast<std::size_t>(leaves * coarse_.block()));
    leaf_capacity_ = leaves;
}

bool KdTree::build(Work& work) {
    if (is_built_) return true;
    while (!tasks_.empty()) {
        if (work.is_spent()) return false;
        const BuildTask task = tasks_.back();
        if (!run_task(task, work)) return false;
    }
    if (first_enclosed_ < 0) first_enclosed_ = static_cast<std::int32_t>(live_children_.size());
    // Children have larger numbers than their parents, so backwards is bottom-up.
    while (first_enclosed_ > 1) {
        if (work.is_spent()) return false;
        --first_enclosed_;
        const std::int32_t up = parent_slots_[static_cast<std::size_t>(first_enclosed_)];
        set_box_from_node(up / kFanOut, up % kFanOut, first_enclosed_);
        work.left -= block_cost(p_);
    }
    order_ = {};
    spare_ = {};
    keys_ = {};
    ranks_ = {};
    refresh_view();
    is_built_ = true;
    return true;
}

bool KdTree::run_task(const BuildTask& task, Work& work) {
    const std::int32_t length = task.end - task.begin;
    if (length <= block_) {
        tasks_.pop_back();
        if (length > 0) add_leaf(task);
        work.left -= 4 * block_cost(p_);
        return true;
    }
    if (task.n_slots == 1) {
        tasks_.pop_back();
        add_node(task);
        return true;
    }
    std::int32_t middle;
    if (length <= kShortRange) {
        middle = split_short(task);
        work.left -= 4 * std::int64_t{length};
    } else if (!split_long(task, work, middle)) {
        return false;
    }
    tasks_.pop_back();
    push_halves(task, middle);
    return true;
}

void KdTree::push_halves(const BuildTask& task, std::int32_t middle) {
    const std::int32_t half = task.n_slots / 2;
    tasks_.push_back({middle, task.end, task.node, task.slot + half, task.n_slots - half, task.slot_records,
                      task.depth});
    tasks_.push_back({task.begin, middle, task.node, task.slot, half, task.slot_records, task.depth});
}

// Adds a node for a range. Short ranges are packed: all leaves full but the last, all nodes above
// full but the last.
void KdTree::add_node(const BuildTask& task) {
    const std::int32_t node = static_cast<std::int32_t>(live_children_.size());
    const std::int32_t length = task.end - task.begin;
    if (task.node >= 0) {
        child(task.node)[task.slot] = node;
        live_children_[static_cast<std::size_t>(task.node)] |= static_cast<std::uint8_t>(1u << task.slot);
    }
    boxes_.resize(boxes_.size() + static_cast<std::size_t>((2 * p_ + 1) * kFanOut));
    links_.resize(links_.size() + kLinksPerNode, 0);
    has_clipped_.push_back(0);
    if (coarse_.is_enabled()) {
        coarse_boxes_.resize(coarse_boxes_.size() + static_cast<std::size_t>(coarse_.pairs() * kFanOut * 4), 0);
        coarse_reach_.resize(coarse_reach_.size() + kFanOut, 0.0);
    }
    parent_slots_.push_back(task.node < 0 ? -1 : task.node * kFanOut + task.slot);
    live_children_.push_back(0);
    for (int slot = 0; slot < kFanOut; ++slot) close_slot(node, slot);
    std::int32_t slot_records = 0;
    std::int32_t n_slots = kFanOut;
    if (length <= kShortRange) {
        slot_records = block_;
        while (slot_records * kFanOut < length) slot_records *= kFanOut;
        n_slots = std::max(1, (length + slot_records - 1) / slot_records);
    }
    depth_ = std::max(depth_, task.depth + 1);
    tasks_.push_back({task.begin, task.end, node, 0, n_slots, slot_records, task.depth + 1});
}

void KdTree::add_leaf(const BuildTask& task) {
    if (n_leaves_ == leaf_capacity_) reserve_leaves(leaf_capacity_ + leaf_capacity_ / 2);
    const std::int32_t leaf = n_leaves_++;
    const std::int32_t count = task.end - task.begin;
    double* block = leaf_points_.data() + std::int64_t{leaf} * block_ * p_;
    std::int32_t* ids = leaf_ids_.data() + std::int64_t{leaf} * block_;
    double* reaches = leaf_reach_.data() + std::int64_t{leaf} * block_;
    std::sort(order_.begin() + task.begin, order_.begin() + task.end);
    for (std::int32_t lane = 0; lane < block_; ++lane) {
        // Unused lanes repeat the first record: any finite value would do.
        const std::int32_t id =
            order_[static_cast<std::size_t>(task.begin + (lane < count ? lane : 0))];
        for (int j = 0; j < p_; ++j) block[j * block_ + lane] = coordinate(id, j);
        ids[lane] = id;
        reaches[lane] = compute_reach(id);
        position_[static_cast<std::size_t>(id)] = leaf * block_ + (lane < count ? lane : 0);
        if (coarse_.is_enabled()) coarse_.store_record(row(id), leaf_coarse_.data() + leaf * coarse_.block(), lane);
    }
    leaf_count_.push_back(count);
    leaf_has_clipped_.push_back(0);
    leaf_parent_slots_.push_back(task.node * kFanOut + task.slot);
    double* lo = low(task.node) + task.slot;
    double* hi = high(task.node) + task.slot;
    for (int j = 0; j < p_; ++j) {
        const double* from = block + j * block_;
        const auto [least, most] = std::minmax_element(from, from + block_);
        lo[j * kFanOut] = *least;
        hi[j * kFanOut] = *most;
    }
    reach(task.node)[task.slot] = *std::max_element(reaches, reaches + block_);
    child(task.node)[task.slot] = ~leaf;
    first_ids(task.node)[task.slot] = ids[0];
    live_children_[static_cast<std::size_t>(task.node)] |= static_cast<std::uint8_t>(1u << task.slot);
    update_coarse_box(task.node, task.slot);
}

// The distance from the middle, rounded up.
double KdTree::compute_reach(std::int32_t id) const {
    double squared = 0.0;
    for (int j = 0; j < p_; ++j) {
        const double gap = coordinate(id, j) - middle_[static_cast<std::size_t>(j)];
        squared += gap * gap;
    }
    return std::sqrt(squared * (1.0 + (p_ + 8) * 2.3e-16)) * (1.0 + 4.5e-16) + 1e-150;
}

// The attribute that a cut in the middle splits best. If a sample has only two values, as for a
// category, the width does not reflect how many records are on either side: use twice the
// deviation, which equals the width if both sides are equal.
KdTree::Axis KdTree::choose_axis(std::int32_t begin, std::int32_t end) const {
    const std::int32_t length = end - begin;
    const std::int32_t count = std::min(length, kCutSample);
    const double* rows[kCutSample];
    for (std::int32_t i = 0; i < count; ++i) {
        const std::int32_t at = length <= kCutSample ? begin + i : sample_index(begin, end, i);
        rows[i] = row(order_[static_cast<std::size_t>(at)]);
    }
    Axis best{0, 0.0, 0.0};
    double spread = -1.0;
    for (int j = 0; j < p_; ++j) {
        double least = kInf;
        double most = -kInf;
        for (std::int32_t i = 0; i < count; ++i) {
            least = std::min(least, rows[i][j]);
            most = std::max(most, rows[i][j]);
        }
        double width = most - least;
        if (width <= spread) continue;
        std::int32_t lowest = 0;
        std::int32_t checked = 0;
        for (; checked < count; ++checked) {
            if (rows[checked][j] == least) {
                ++lowest;
            } else if (rows[checked][j] != most) {
                break;
            }
        }
        if (checked == count) {
            const double share = static_cast<double>(lowest) / count;
            width *= 2.0 * std::sqrt(share * (1.0 - share));
        }
        if (width > spread) {
            spread = width;
            best = {j, least, most};
        }
    }
    return best;
}

// Values become integers within the sample's range: ties are ordered by index, like equal values,
// and values outside are not near the cut.
std::int32_t KdTree::split_short(const BuildTask& task) {
    const std::int32_t length = task.end - task.begin;
    const std::int32_t left =
        task.slot_records > 0 ? std::min(task.n_slots / 2 * task.slot_records, length) : length / 2;
    const Axis axis = choose_axis(task.begin, task.end);
    const double scale = kMaxRank / (axis.most - axis.least);
    std::int32_t* order = order_.data() + task.begin;
    ranks_.resize(static_cast<std::size_t>(length));
    for (std::int32_t i = 0; i < length; ++i) {
        double rank = (coordinate(order[i], axis.attribute) - axis.least) * scale;
        rank = rank >= 0.0 ? rank : 0.0;  // NaN if all are equal
        rank = rank <= kMaxRank ? rank : kMaxRank;
        ranks_[static_cast<std::size_t>(i)] =
            static_cast<std::uint64_t>(static_cast<std::int64_t>(rank)) << 32 |
            static_cast<std::uint32_t>(order[i]);
    }
    select(ranks_.data(), ranks_.data() + length, ranks_.data() + left);
    for (std::int32_t i = 0; i < length; ++i) {
        order[i] = static_cast<std::int32_t>(ranks_[static_cast<std::size_t>(i)]);
    }
    return task.begin + left;
}

bool KdTree::split_long(const BuildTask& task, Work& work, std::int32_t& middle) {
    if (!split_.active) {
        const int attribute = choose_axis(task.begin, task.end).attribute;
        keys_.clear();
        for (std::int32_t i = 0; i < kCutSample; ++i) {
            const std::int32_t id =
                order_[static_cast<std::size_t>(sample_index(task.begin, task.end, i))];
            keys_.push_back({coordinate(id, attribute), id});
        }
        std::sort(keys_.begin(), keys_.end(), [](const Key& a, const Key& b) {
            return a.value < b.value || (a.value == b.value && a.id < b.id);
        });
        const Key& median = keys_[kCutSample / 2];
        split_ = {true, attribute, median.value, median.id, task.begin, task.begin, 0};
        spare_.resize(std::max(spare_.size(), static_cast<std::size_t>(task.end - task.begin)));
        work.left -= kCutSample * p_;
    }
    while (split_.next < task.end) {
        if (work.is_spent()) return false;
        const std::int32_t stop = std::min(split_.next + kSliceRecords, task.end);
        work.left -= 4 * std::int64_t{stop - split_.next};
        for (; split_.next < stop; ++split_.next) {
            const std::int32_t id = order_[static_cast<std::size_t>(split_.next)];
            const std::int32_t ahead = std::min(split_.next + kPrefetchAhead, task.end - 1);
            __builtin_prefetch(row(order_[static_cast<std::size_t>(ahead)]) + split_.attribute);
            const double value = coordinate(id, split_.attribute);
            const bool left = value < split_.value || (value == split_.value && id < split_.id);
            order_[static_cast<std::size_t>(split_.left)] = id;
            spare_[static_cast<std::size_t>(split_.right)] = id;
            split_.left += left ? 1 : 0;
            split_.right += left ? 0 : 1;
        }
    }
    std::copy_n(spare_.begin(), split_.right, order_.begin() + split_.left);
    middle = split_.left;
    split_.active = false;
    return true;
}

// Sets a child's box and smallest index in its parent from the child's own slots.
void KdTree::set_box_from_node(std::int32_t node, std::int32_t slot, std::int32_t inner) {
    for (int j = 0; j < p_; ++j) {
        const double* lo = low(inner) + j * kFanOut;
        const double* hi = high(inner) + j * kFanOut;
        low(node)[j * kFanOut + slot] = *std::min_element(lo, lo + kFanOut);
        high(node)[j * kFanOut + slot] = *std::max_element(hi, hi + kFanOut);
    }
    reach(node)[slot] = *std::max_element(reach(inner), reach(inner) + kFanOut);
    first_ids(node)[slot] = *std::min_element(first_ids(inner), first_ids(inner) + kFanOut);
    update_coarse_box(node, slot);
}

bool KdTree::encode(Work& work) {
    if (leaf_codes_.empty()) leaf_codes_.resize(static_cast<std::size_t>(n_leaves_ * coarse_.code_block()));
    for (; n_encoded_leaves_ < n_leaves_; ++n_encoded_leaves_) {
        if (work.is_spent()) return false;
        const std::int32_t* ids = leaf_ids_.data() + std::int64_t{n_encoded_leaves_} * block_;
        std::int8_t* block = leaf_codes_.data() + n_encoded_leaves_ * coarse_.code_block();
        for (std::int32_t lane = 0; lane < block_; ++lane) coarse_.store_codes(row(ids[lane]), block, lane);
        work.left -= 2 * block_cost(p_);
    }
    view_.leaves.codes = leaf_codes_.data();
    return true;
}

void KdTree::refresh_view() {
    const bool used = coarse_.is_enabled();
    view_ = {{p_, leaf_points_.data(), leaf_ids_.data(), leaf_count_.data(), points_,
              used ? leaf_coarse_.data() : nullptr, leaf_has_clipped_.data(), coarse_.step(),
              nullptr, coarse_.code_step()},
             boxes_.data(),
             middle_.data(),
             links_.data(),
             live_children_.data(),
             used ? coarse_boxes_.data() : nullptr,
             coarse_reach_.data(),
             has_clipped_.data()};
}

}  // namespace dbanon
