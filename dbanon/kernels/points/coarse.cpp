#include "points/coarse.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

namespace dbanon {

namespace {

constexpr int kMaxAttributes = 1024;
constexpr std::int32_t kStepSample = 255;
// Outliers of the sample that are excluded from an attribute's mean deviation.
constexpr std::int32_t kOutliers = 8;
// In mean deviations of the sample; 19 standard deviations for a normal distribution.
constexpr double kClipDeviations = 24.0;
// The maximum difference of two records; with 2 more for each attribute, still below 2^15.5.
constexpr double kMaxLength = 46000.0;
constexpr double kMaxWidth = 32000.0;

std::atomic<bool>& integer_steps_allowed() {
    static std::atomic<bool> value{true};
    return value;
}

// One attribute of a fixed sample, ascending.
void sample(const double* points, std::int32_t n, int p, int j, std::vector<double>& sampled) {
    const std::int32_t count = std::min(n, kStepSample);
    sampled.clear();
    for (std::int32_t i = 0; i < count; ++i) sampled.push_back(points[std::int64_t{i} * n / count * p + j]);
    std::sort(sampled.begin(), sampled.end());
}

}  // namespace

Coarse::Coarse(const double* points, std::int32_t n, int p, const std::vector<double>& middle)
    : p_(p) {
    if (!integer_steps_allowed() || !is_worthwhile(p) || p > kMaxAttributes || n == 0) return;
    const std::size_t width = static_cast<std::size_t>(p);
    std::vector<double> values;
    double squares = 0.0;
    for (int j = 0; j < p; ++j) {
        sample(points, n, p, j, values);
        for (double& value : values) value = std::fabs(value - middle[static_cast<std::size_t>(j)]);
        std::sort(values.begin(), values.end());
        if (values.size() > 2 * kOutliers) values.resize(values.size() - kOutliers);
        double deviation = 0.0;
        for (const double value : values) deviation += value / static_cast<double>(values.size());
        squares += deviation * deviation / p;
    }
    const double clip_distance = kClipDeviations * std::sqrt(squares);
    std::vector<double> low(points, points + p);
    std::vector<double> high = low;
    for (std::int64_t i = 1; i < n; ++i) {
        const double* row = points + i * p;
        for (std::size_t j = 0; j < width; ++j) {
            low[j] = std::min(low[j], row[j]);
            high[j] = std::max(high[j], row[j]);
        }
    }
    double length_squared = 0.0;
    double widest = 0.0;
    for (std::size_t j = 0; j < width; ++j) {
        low[j] = std::max(low[j] - middle[j], -clip_distance);
        high[j] = std::min(high[j] - middle[j], clip_distance);
        length_squared += (high[j] - low[j]) * (high[j] - low[j]);
        widest = std::max(widest, high[j] - low[j]);
    }
    step_ = std::max(std::sqrt(length_squared) / kMaxLength, widest / kMaxWidth);
    // Far from values whose squares overflow, or lose digits because they are tiny.
    is_enabled_ = step_ > 1e-140 && step_ < 1e140;
    if (!is_enabled_) return;
    per_step_ = 1.0 / step_;
    // Not below the widest range in 254 steps; the rounding of ranges must not lead to a code of 128.
    code_step_ = std::max(widest / 253.9, 16.0 * step_);
    steps_to_codes_ = step_ / code_step_;
    for (std::size_t j = 0; j < width; ++j) {
        axes_.push_back({middle[j], low[j] * per_step_ - 1e-6, high[j] * per_step_ + 1e-6});
    }
}

void allow_integer_steps(bool value) { integer_steps_allowed() = value; }

bool Coarse::store_record(const double* row, std::int16_t* block, std::int32_t lane) const {
    bool clipped = false;
    for (int j = 0; j < p_; ++j) {
        block[(j / 2 * kBlock + lane) * 2 + j % 2] = steps(row[j], j);
        clipped |= is_clipped(row[j], j);
    }
    if (p_ % 2 != 0) block[(p_ / 2 * kBlock + lane) * 2 + 1] = 0;
    return clipped;
}

void Coarse::move(std::int16_t* to, std::int32_t to_lane, const std::int16_t* from,
                  std::int32_t from_lane, int pairs) {
    for (int i = 0; i < pairs; ++i) {
        std::copy_n(from + (i * kBlock + from_lane) * 2, 2, to + (i * kBlock + to_lane) * 2);
    }
}

void Coarse::store_codes(const double* row, std::int8_t* block, std::int32_t lane) const {
    std::int32_t squares = 0;
    std::int32_t sum = 0;
    for (int j = 0; j < 4 * groups(); ++j) {
        const int code_j = j < p_ ? code(code_position(row[j], j)) : 0;
        squares += code_j * code_j;
        sum += code_j;
        block[((1 + j / 4) * kBlock + lane) * 4 + j % 4] = static_cast<std::int8_t>(code_j);
    }
    const std::int32_t offset = -(squares / 2) - 128 * sum;
    std::memcpy(block + 4 * lane, &offset, sizeof(offset));
}

void Coarse::move_codes(std::int8_t* block, std::int32_t to_lane, std::int32_t from_lane) const {
    for (int i = 0; i <= groups(); ++i) {
        std::copy_n(block + (i * kBlock + from_lane) * 4, 4, block + (i * kBlock + to_lane) * 4);
    }
}

void Coarse::convert_query(const double* point, std::vector<std::int16_t>& storage, CoarsePoint& query) const {
    const int width = 2 * pairs();
    storage.assign(static_cast<std::size_t>(4 * width + 2 * groups()), 0);
    std::int16_t* to = storage.data();
    std::uint8_t* codes = reinterpret_cast<std::uint8_t*>(to + 4 * width);
    double code_norm = 0.0;
    double code_error = 0.0;
    double squared = 0.0;
    bool is_unclipped = true;
    for (int j = 0; j < p_; ++j) {
        const int steps_j = steps(point[j], j);
        is_unclipped = is_unclipped && !is_clipped(point[j], j);
        squared += static_cast<double>(steps_j) * steps_j;
        const double exact_code = code_position(point[j], j);
        const int code_j = code(exact_code);
        code_error += (exact_code - code_j) * (exact_code - code_j);
        codes[j] = static_cast<std::uint8_t>(code_j + 128);
        code_norm += static_cast<double>(code_j) * code_j;
        const double vertex = std::floor(-steps_j / (kReachMultiplier - 1.0) + 0.5);
        to[j] = static_cast<std::int16_t>(steps_j);
        to[width + j] = static_cast<std::int16_t>(steps_j + 1);
        to[2 * width + j] = static_cast<std::int16_t>(steps_j - 1);
        to[3 * width + j] = static_cast<std::int16_t>(std::clamp(vertex, -32700.0, 32700.0));
    }
    query = {to, to + width, to + 2 * width, to + 3 * width,
          5.0 * std::sqrt(p_ * squared) + 2963.0 * p_, is_unclipped};
    query.codes = codes;
    query.code_norm = code_norm;
    query.code_error = std::sqrt(code_error);
}

std::vector<double> sample_medians(const double* points, std::int32_t n, int p) {
    std::vector<double> middle, values;
    for (int j = 0; j < p && n > 0; ++j) {
        sample(points, n, p, j, values);
        middle.push_back(values[values.size() / 2]);
    }
    return middle;
}

}  // namespace dbanon
