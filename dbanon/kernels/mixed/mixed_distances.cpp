#include "mixed/mixed_distances.hpp"

#include <bit>
#include <numeric>

namespace dbanon {

namespace {

// Of distances: sums over 2^13 records fit into a double.
constexpr int kBits = 40;

}  // namespace

MixedDistances::MixedDistances(Mixed mixed, std::span<const Cost> squared_step_costs)
    : mixed_(std::move(mixed)),
      columns_(*mixed_),
      square_(*mixed_, squared_step_costs),
      near_(*mixed_, columns_, SplitCriterion::kGain, NumberPenalty::kSquaredWidth),
      values_(columns_.count(), 0) {
    std::uint64_t largest = 0;
    for (std::size_t a = 0; a < static_cast<std::size_t>(mixed_->n_attributes()); ++a) {
        const Cost unit = mixed_->unit(a);
        largest += static_cast<std::uint64_t>(mixed_->tree(a) ? square_.cost_at_depth(a, 0) : unit * unit);
    }
    shift_ = std::max(static_cast<int>(std::bit_width(largest)) - kBits, 0);
    for (std::size_t c = columns_.numbers(); c < columns_.paths_end(); ++c) add_levels(c);
    std::vector<std::int32_t> tuples(mixed_->tuples()), record(tuples.size());
    std::iota(tuples.begin(), tuples.end(), 0);
    for (const std::int32_t t : tuples) {
        first_.push_back(mixed_->begin(t));
        record[t] = mixed_->copy(first_.back());
    }
    near_.build(tuples, record);
}

void MixedDistances::add_levels(std::size_t column) {
    const std::size_t a = columns_.attribute(column);
    const std::vector<Field>& fields = columns_.fields(column);
    for (std::size_t f = 0; f < fields.size(); ++f) {
        const Cost below = f + 1 < fields.size() ? square_.cost_at_depth(a, fields[f + 1].depth) : 0;
        levels_.push_back({column, square_.cost_at_depth(a, fields[f].depth) - below, fields[f].shift});
    }
}

void MixedDistances::load(const std::int32_t* ids, std::int32_t count) {
    if (static_cast<std::size_t>(count) > values_.width()) values_.assign(columns_.count(), count);
    tuples_.resize(count);
    apart_.resize(count);
    for (std::int32_t i = 0; i < count; ++i) tuples_[i] = mixed_->tuple_of(ids[i]);
    for (std::size_t c = 0; c < columns_.count(); ++c) {
        Code* values = values_.row(c);
        const std::size_t a = columns_.attribute(c);
        for (std::int32_t i = 0; i < count; ++i) {
            values[i] = columns_.value(c, mixed_->row(tuples_[i])[a]);
        }
    }
}

void MixedDistances::row(std::int32_t tuple, std::int32_t count, double* out) {
    const auto value_of = [&](std::size_t c) {
        return columns_.value(c, mixed_->row(tuple)[columns_.attribute(c)]);
    };
    Cost* sum = apart_.data();
    std::fill_n(sum, count, 0);
    for (std::size_t c = 0; c < columns_.numbers(); ++c) {
        const Code* values = values_.row(c);
        const Cost x = value_of(c);
        for (std::int32_t i = 0; i < count; ++i) sum[i] += (x - values[i]) * (x - values[i]);
    }
    for (const Level& level : levels_) {
        const Code* values = values_.row(level.column);
        const Code x = value_of(level.column);
        for (std::int32_t i = 0; i < count; ++i) {
            sum[i] += (x ^ values[i]) >> level.shift ? level.step : 0;
        }
    }
    for (std::size_t c = columns_.paths_end(); c < columns_.count(); ++c) {
        const std::size_t a = columns_.attribute(c);
        square_.start(tuple);
        for (std::int32_t i = 0; i < count; ++i) sum[i] += square_.distance(a, values_.row(c)[i]);
    }
    for (std::int32_t i = 0; i < count; ++i) out[i] = static_cast<double>(sum[i] >> shift_);
}

void MixedDistances::fill_pairwise(const std::int32_t* ids, std::int32_t count, std::int32_t stride,
                       double* out) {
    load(ids, count);
    for (std::int32_t i = 0; i < count; ++i) row(tuples_[i], count, out + std::int64_t{i} * stride);
}

void MixedDistances::fill_row(std::int32_t id, const std::int32_t* ids, std::int32_t count, double* out) {
    load(ids, count);
    row(mixed_->tuple_of(id), count, out);
}

void MixedDistances::find_nearest(std::int32_t id, std::int32_t count, std::int32_t* ids_out, Work& work) {
    const std::int32_t tuple = mixed_->tuple_of(id);
    square_.start(tuple);
    near_.around(square_, tuple, count + 1, first_, nearest_, work);
    std::int32_t n_out = 0;
    for (const std::int32_t record : nearest_) {
        if (record != id && n_out < count) ids_out[n_out++] = record;
    }
}

}  // namespace dbanon
