#include "mixed/tuple_scan.hpp"

#include <cmath>
#include <limits>

namespace dbanon {

namespace {

constexpr float kUnlimited = std::numeric_limits<float>::infinity();
// Candidates of a class at first, and at most as a share of all tuples: to copy a candidate takes as
// long as to scan some dozens of tuples.
constexpr std::int32_t kCandidates = 128, kLargestShare = 32;
// Tuples of a sample below the cost that low_cost() estimates.
constexpr std::int32_t kSampled = 4;
// A slice of work counts tuples of a tree, which take longer.
constexpr std::int32_t kTuplesPerVisit = 4;
// Costs of more than 53 bits are rounded as double, by far less than this share of a unit.
constexpr double kLostShare = 0x1p-20;

}  // namespace

double TupleScan::Rounding::difference(double cost) const {
    return relative * cost + absolute + root * (2 * std::sqrt(cost) + root);
}

// Eight times the difference is enough for it to hold at the result, too: a root there is at most
// the root of the difference here.
float TupleScan::Rounding::largest_scanned(double cost) const {
    if (unit) return static_cast<float>(std::floor(cost / static_cast<double>(unit) + 2 * kLostShare));
    return std::nextafter(static_cast<float>(cost + 8 * difference(cost)), kUnlimited);
}

float TupleScan::Rounding::smallest_scanned(double cost) const {
    if (unit) return static_cast<float>(std::ceil(cost / static_cast<double>(unit) - 2 * kLostShare));
    return std::nextafter(static_cast<float>(cost - 8 * difference(cost)), -kUnlimited);
}

double TupleScan::Rounding::least_cost_above(float scanned) const {
    if (unit) return (std::floor(scanned) + 1.0 - kLostShare) * static_cast<double>(unit);
    if (scanned < 8 * root * root) return 0;
    return std::max(scanned - difference(scanned), 0.0);
}

TupleScan::TupleScan(const MixedTable& table, const Columns& columns, NumberPenalty number_penalty,
                     const std::vector<std::int32_t>& record)
    : table_(table),
      columns_(columns),
      ops_(lane_ops(number_penalty)),
      record_(record),
      blocks_(table.tuples(), columns.numbers(), columns.count() - columns.numbers()),
      candidates_(blocks_),
      builder_(table, columns) {
    unit_rounding_.relative = builder_.relative_error();
    double sum = 0, squares = 0;
    for (std::size_t c = 0; c < columns.numbers(); ++c) {
        // Of both ends of a gap, each rounded by half of a step.
        const double step = builder_.rounding_step(c);
        sum += step;
        squares += step * step;
    }
    const bool is_squared = number_penalty == NumberPenalty::kSquaredWidth;
    unit_rounding_.absolute = is_squared ? 0 : sum;
    unit_rounding_.root = is_squared ? std::sqrt(squares) : 0;
}

TupleScan::Rounding TupleScan::rounding(Cost weight) const {
    Rounding weighted = unit_rounding_;
    weighted.unit = unit_;
    // At least one unit, so that bounds of equal costs differ.
    weighted.absolute = weighted.absolute * static_cast<double>(weight) + 1;
    return weighted;
}

void TupleScan::build(std::span<const std::int32_t> tuples) {
    blocks_.clear();
    candidates_.clear();
    blocks_.reserve(tuples.size());
    for (const std::int32_t tuple : tuples) add(blocks_, tuple);
    costs_.clear();
    distances_from_ = -1;
    has_candidates_ = false;
}

void TupleScan::add(ScanBlocks& blocks, std::int32_t tuple) const {
    const std::int32_t index = blocks.add(tuple);
    const Code* row = table_.row(tuple);
    const std::size_t numbers = columns_.numbers();
    for (std::size_t c = 0; c < numbers; ++c) {
        blocks.number(index, c) = static_cast<float>(row[columns_.attribute(c)]);
    }
    for (std::size_t c = numbers; c < columns_.count(); ++c) {
        blocks.code(index, c - numbers) = columns_.value(c, row[columns_.attribute(c)]);
    }
}

void TupleScan::remove(std::int32_t tuple) {
    candidates_.remove(tuple);
    const std::int32_t index = blocks_.remove(tuple), last = blocks_.count();
    if (costs_.empty() || index < 0) return;
    costs_[index] = costs_[last];
    const std::int32_t subset = index / kScanItems * kScanSubsets + index % kScanSubsets;
    least_[subset] = std::min(least_[subset], costs_[last]);
    most_[subset] = std::max(most_[subset], costs_[last]);
}

template <class Measure>
void TupleScan::set_query(const Measure& measure) {
    const auto cost_at_depth = [&](std::size_t a, std::int32_t depth) { return measure.cost_at_depth(a, depth); };
    builder_.set(measure, cost_at_depth, true);
    unit_ = builder_.use_exact_unit();
    distances_from_ = -1;
}

template <class Measure>
void TupleScan::set_lasting_query(const Measure& measure) {
    const auto lasting = [&](std::size_t a, std::int32_t depth) { return measure.lasting_cost_at_depth(a, depth); };
    builder_.set(measure, lasting, false);
    unit_ = builder_.use_exact_unit();
    distances_from_ = -1;
}

void TupleScan::compute_costs(Work& work) {
    const std::size_t blocks = blocks_.blocks();
    costs_.resize(blocks * kScanItems);
    least_.resize(blocks * kScanSubsets);
    most_.resize(blocks * kScanSubsets);
    for (std::int32_t b = 0; b < blocks_.blocks(); ++b) {
        ops_.scan(builder_.query(), blocks_.numbers(b), blocks_.codes(b), costs_.data() + b * kScanItems,
                  least_.data() + b * kScanSubsets, most_.data() + b * kScanSubsets);
    }
    work.left -= blocks_.count() / kTuplesPerVisit;
}

template <class Visit>
void TupleScan::visit_costs(float from, float to, const Visit& visit) const {
    for (std::int32_t b = 0; b < blocks_.blocks(); ++b) {
        const float* costs = costs_.data() + b * kScanItems;
        const std::int32_t n_filled = blocks_.n_filled(b);
        for (std::int32_t j = 0; j < kScanSubsets; ++j) {
            const std::int32_t subset = b * kScanSubsets + j;
            if (least_[subset] > to || most_[subset] <= from) continue;
            for (std::int32_t i = j; i < n_filled; i += kScanSubsets) {
                if (costs[i] > from && costs[i] <= to) visit(blocks_.id(b * kScanItems + i), costs[i]);
            }
        }
    }
}

float TupleScan::low_cost(std::int64_t count) const {
    const std::int64_t stride = std::max<std::int64_t>(count / kSampled, 1);
    if (blocks_.count() <= 2 * kSampled * stride) return kUnlimited;
    float least[kSampled];
    std::fill_n(least, kSampled, kUnlimited);
    for (std::int64_t i = 0; i < blocks_.count(); i += stride) {
        if (costs_[i] >= least[0]) continue;
        std::pop_heap(least, least + kSampled);
        least[kSampled - 1] = costs_[i];
        std::push_heap(least, least + kSampled);
    }
    return least[0];
}

template <bool is_nearest>
bool TupleScan::improve(Best& best, Cost cost, std::int32_t tuple) const {
    if (best.tuple >= 0) {
        if (is_nearest ? cost > best.cost : cost < best.cost) return false;
        if (cost == best.cost && record_[tuple] > record_[best.tuple]) return false;
    }
    best = {cost, tuple};
    return true;
}

template <bool is_nearest, class Measure>
TupleScan::Best TupleScan::best_of(const ScanBlocks& blocks, const Measure& measure, Work& work) const {
    const Rounding bounds = rounding(measure.cost_per_unit());
    float costs[kScanItems], least[kScanSubsets], most[kScanSubsets];
    const float* const extremes = is_nearest ? least : most;
    float limit = is_nearest ? kUnlimited : -kUnlimited;
    Best best;
    const auto may_improve = [&](float cost) { return is_nearest ? cost <= limit : cost >= limit; };
    for (std::int32_t b = 0; b < blocks.blocks(); ++b) {
        ops_.scan(builder_.query(), blocks.numbers(b), blocks.codes(b), costs, least, most);
        const std::int32_t n_filled = blocks.n_filled(b);
        for (std::int32_t j = 0; j < kScanSubsets; ++j) {
            if (!may_improve(extremes[j])) continue;
            for (std::int32_t i = j; i < n_filled; i += kScanSubsets) {
                if (!may_improve(costs[i])) continue;
                const std::int32_t tuple = blocks.id(b * kScanItems + i);
                if (!improve<is_nearest>(best, cost_of(measure, tuple, costs[i]), tuple)) continue;
                const auto cost = static_cast<double>(best.cost);
                limit = is_nearest ? bounds.largest_scanned(cost) : bounds.smallest_scanned(cost);
            }
        }
    }
    work.left -= blocks.count() / kTuplesPerVisit;
    return best;
}

template <class Measure>
void TupleScan::choose_candidates(const Measure& measure, Work& work) {
    set_lasting_query(measure);
    compute_costs(work);
    scanned_weight_ = measure.cost_per_unit();
    scanned_rounding_ = rounding(scanned_weight_);
    candidate_limit_ = low_cost(kCandidates);
    candidates_.clear();
    visit_costs(-1, candidate_limit_, [&](std::int32_t tuple, float) { add(candidates_, tuple); });
    has_candidates_ = is_scan_current_ = true;
}

template <class Measure>
std::int32_t TupleScan::nearest(const Measure& measure, bool is_new_class, Work& work) {
    if (is_new_class) has_candidates_ = false;
    for (;;) {
        if (!has_candidates_ || candidates_.count() == 0) choose_candidates(measure, work);
        set_query(measure);
        const Best best = best_of<true>(candidates_, measure, work);
        if (candidates_.count() == blocks_.count()) return best.tuple;
        // The lasting costs grow at least with the weight.
        const double growth =
            static_cast<double>(measure.cost_per_unit()) / static_cast<double>(scanned_weight_);
        const Rounding& bounds = scanned_rounding_;
        const auto cost = static_cast<double>(best.cost);
        if (cost < bounds.least_cost_above(candidate_limit_) * growth) {
            is_scan_current_ = false;
            return best.tuple;
        }
        if (!is_scan_current_) {
            // A scan for the class as it is now gives better bounds.
            has_candidates_ = false;
            continue;
        }
        const float limit = std::max(bounds.largest_scanned(cost / growth), candidate_limit_);
        const std::int32_t most = std::max(blocks_.count() / kLargestShare, 4 * kCandidates) - candidates_.count();
        more_.clear();
        visit_costs(candidate_limit_, limit, [&](std::int32_t tuple, float) {
            if (static_cast<std::int32_t>(more_.size()) <= most) more_.push_back(tuple);
        });
        if (static_cast<std::int32_t>(more_.size()) > most) {
            has_candidates_ = false;
            return best_of<true>(blocks_, measure, work).tuple;
        }
        for (const std::int32_t tuple : more_) add(candidates_, tuple);
        candidate_limit_ = limit;
    }
}

template std::int32_t TupleScan::nearest(const Reach&, bool, Work&);
template std::int32_t TupleScan::nearest(const Growth&, bool, Work&);

template <class Measure>
std::int32_t TupleScan::farthest(const Measure& measure, Work& work) {
    set_query(measure);
    return best_of<false>(blocks_, measure, work).tuple;
}

template std::int32_t TupleScan::farthest(const Reach&, Work&);

void TupleScan::compute_distances(const Square& square, std::int32_t from, Work& work) {
    if (distances_from_ == from) return;
    set_query(square);
    compute_costs(work);
    distances_from_ = from;
    has_candidates_ = false;
}

std::int32_t TupleScan::farthest(const Square& square, std::int32_t from, Work& work) {
    compute_distances(square, from, work);
    const Rounding bounds = rounding(1);
    float limit = -1;
    Best best;
    for (std::int32_t subset = 0; subset < blocks_.blocks() * kScanSubsets; ++subset) {
        if (most_[subset] < limit) continue;
        const std::int32_t first = subset / kScanSubsets * kScanItems + subset % kScanSubsets;
        const std::int32_t end = std::min(first + kScanItems, blocks_.count());
        for (std::int32_t i = first; i < end; i += kScanSubsets) {
            if (costs_[i] < limit) continue;
            const std::int32_t tuple = blocks_.id(i);
            if (!improve<false>(best, cost_of(square, tuple, costs_[i]), tuple)) continue;
            limit = bounds.smallest_scanned(static_cast<double>(best.cost));
        }
    }
    return best.tuple;
}

void TupleScan::around(const Square& square, std::int32_t from, std::int32_t k,
                       const std::vector<std::int32_t>& next, std::vector<std::int32_t>& records_out, Work& work) {
    records_out.clear();
    if (k == 0) return;
    compute_distances(square, from, work);
    const Rounding bounds = rounding(1);
    std::vector<std::pair<Cost, std::int32_t>> nearest;  // distances and records
    float limit = low_cost(4 * std::int64_t{k});
    for (;;) {
        nearest.clear();
        visit_costs(-1, limit, [&](std::int32_t tuple, float scanned) {
            const Cost distance = cost_of(square, tuple, scanned);
            const std::int32_t copies = std::min(table_.end(tuple) - next[tuple], k);
            for (std::int32_t i = 0; i < copies; ++i) nearest.emplace_back(distance, table_.copy(next[tuple] + i));
        });
        const std::size_t first = std::min(nearest.size(), static_cast<std::size_t>(k));
        std::partial_sort(nearest.begin(), nearest.begin() + static_cast<std::ptrdiff_t>(first), nearest.end());
        if (limit == kUnlimited) break;
        if (nearest.size() < static_cast<std::size_t>(k)) {
            limit = kUnlimited;
            continue;
        }
        const auto distance = static_cast<double>(nearest[static_cast<std::size_t>(k) - 1].first);
        if (distance < bounds.least_cost_above(limit)) break;
        limit = std::max(bounds.largest_scanned(distance), std::nextafter(limit, kUnlimited));
    }
    nearest.resize(std::min(nearest.size(), static_cast<std::size_t>(k)));
    for (const auto& [distance, record] : nearest) records_out.push_back(record);
}

}  // namespace dbanon
