// Coordinates as 16-bit integer steps: they take a quarter of the memory of doubles, and an
// instruction processes four times as many. They only serve to rule out records; the remaining ones
// are checked in doubles.
#pragma once

#include <cstdint>
#include <vector>

#include "points/search.hpp"

namespace dbanon {

// Steps have the same length in all attributes and are counted from a central point.
//
// The step is long enough for sums of squared differences to fit into 32 bits. A few outliers, as
// in heavy tails, would make it too coarse for all other records, so coordinates beyond kClipDeviations times
// the mean deviation (without the farthest records) are clipped. Clipping only brings records
// together, so nearest searches may rely on it; farthest searches check clipped records in doubles.
//
// Codes are 8-bit numbers: the same range in 254 steps, counted from its middle. Processors multiply four
// pairs of them at once. With c the codes of a record and q those of a point, the squared distance is
// |q|^2 - 2 (q c - |c|^2 / 2). They are multiplied as q + 128, which is not negative, so the sum begins with the
// record's offset, -|c|^2 / 2 - 128 (the sum of c), the half rounded towards 0.
class Coarse {
   public:
    Coarse() = default;
    // `points` is n x p, row by row. Disabled if there are too few attributes for a gain, or if
    // bounds would not hold for the number of attributes or the values.
    Coarse(const double* points, std::int32_t n, int p, const std::vector<double>& middle);

    // With fewer attributes doubles are as fast (1,000,000 records of 4).
    static constexpr bool is_worthwhile(int p) { return p >= kMinCoarseAttributes; }

    bool is_enabled() const { return is_enabled_; }
    int pairs() const { return (p_ + 1) / 2; }
    // The number of integers in a block.
    std::int64_t block() const { return std::int64_t{2} * pairs() * kBlock; }
    double step() const { return step_; }

    std::int16_t steps(double x, int j) const {
        const Axis& axis = axes_[static_cast<std::size_t>(j)];
        double cell = (x - axis.origin) * per_step_;
        // Also clips NaN, as in a centroid after an overflow.
        cell = cell >= axis.least ? cell : axis.least;
        cell = cell <= axis.most ? cell : axis.most;
        // Rounds half up, whatever the processor's rounding mode.
        return static_cast<std::int16_t>(static_cast<std::int32_t>(cell + 32768.5) - 32768);
    }
    bool is_clipped(double x, int j) const {
        const Axis& axis = axes_[static_cast<std::size_t>(j)];
        const double cell = (x - axis.origin) * per_step_;
        return !(cell >= axis.least && cell <= axis.most);
    }
    // Writes a record into a lane of a block; returns whether it was clipped.
    bool store_record(const double* row, std::int16_t* block, std::int32_t lane) const;
    // The same in codes.
    void store_codes(const double* row, std::int8_t* block, std::int32_t lane) const;
    void move_codes(std::int8_t* block, std::int32_t to_lane, std::int32_t from_lane) const;
    // Bytes of a block in codes.
    std::int64_t code_block() const { return std::int64_t{4} * (1 + groups()) * kBlock; }
    double code_step() const { return code_step_; }
    static void move(std::int16_t* to, std::int32_t to_lane, const std::int16_t* from,
                     std::int32_t from_lane, int pairs);

    // Converts a query point to steps. `storage` owns the arrays that `query` points to.
    void convert_query(const double* point, std::vector<std::int16_t>& storage, CoarsePoint& query) const;

   private:
    struct Axis {
        double origin, least, most;
    };

    int groups() const { return (p_ + 3) / 4; }
    // In codes, before rounding; within 127 of 0.
    double code_position(double x, int j) const {
        const Axis& axis = axes_[static_cast<std::size_t>(j)];
        double cell = (x - axis.origin) * per_step_;
        cell = cell >= axis.least ? cell : axis.least;
        cell = cell <= axis.most ? cell : axis.most;
        return (cell - 0.5 * (axis.least + axis.most)) * steps_to_codes_;
    }
    static int code(double position) { return static_cast<int>(position + 128.5) - 128; }

    int p_ = 0;
    double code_step_ = 0.0, steps_to_codes_ = 0.0;
    bool is_enabled_ = false;
    double step_ = 0.0, per_step_ = 0.0;
    std::vector<Axis> axes_;
};

// For tests and benchmarks: whether new kernels may use integer steps. Labels do not depend on it.
void allow_integer_steps(bool value);

// The medians of a fixed sample: a central point that is robust to outliers.
std::vector<double> sample_medians(const double* points, std::int32_t n, int p);

}  // namespace dbanon
