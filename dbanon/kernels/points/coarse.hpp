// Coordinates in whole steps of 16 bits: a quarter of the memory, and four times as many to an
// instruction. What they rule out is ruled out for certain, all else is looked at in doubles.
#pragma once

#include <cstdint>
#include <vector>

#include "points/search.hpp"

namespace dbanon {

// Steps of one length for all attributes, counted from a point in the middle.
//
// The step is so long that sums of squared differences fit into 32 bits. A few records far out, as
// heavy tails have them, would make it long and all others alike: beyond kWide times the mean deviation
// (of all but the farthest out) coordinates are those of the border. Cutting off brings records together, never apart, so that
// nearest searches may rely on it; farthest searches look at such records in doubles.
class Coarse {
   public:
    Coarse() = default;
    // `points` is n x p, row by row. Nothing is coarse where there are too few attributes to gain by
    // it, or so many or such numbers that bounds would not hold.
    Coarse(const double* points, std::int32_t n, int p, const std::vector<double>& middle);

    // With fewer attributes doubles are as fast (1,000,000 records of 4).
    static constexpr bool pays(int p) { return p >= kStepped; }

    bool used() const { return used_; }
    int pairs() const { return (p_ + 1) / 2; }
    // Numbers in a block.
    std::int64_t block() const { return std::int64_t{2} * pairs() * kBlock; }
    double step() const { return step_; }

    std::int16_t steps(double x, int j) const {
        const Axis& axis = axes_[static_cast<std::size_t>(j)];
        double cell = (x - axis.origin) * per_step_;
        // NaN, as in a centroid after an overflow, is clipped as well.
        cell = cell >= axis.least ? cell : axis.least;
        cell = cell <= axis.most ? cell : axis.most;
        // Half up, whatever the processor's mode of rounding.
        return static_cast<std::int16_t>(static_cast<std::int32_t>(cell + 32768.5) - 32768);
    }
    bool beyond(double x, int j) const {
        const Axis& axis = axes_[static_cast<std::size_t>(j)];
        const double cell = (x - axis.origin) * per_step_;
        return !(cell >= axis.least && cell <= axis.most);
    }
    // One record into a lane of a block; returns whether it was cut off.
    bool put(const double* row, std::int16_t* block, std::int32_t lane) const;
    static void move(std::int16_t* to, std::int32_t to_lane, const std::int16_t* from,
                     std::int32_t from_lane, int pairs);

    // What a question asks with. `room` holds what `at` points to.
    void ask(const double* point, std::vector<std::int16_t>& room, CoarsePoint& at) const;

   private:
    struct Axis {
        double origin, least, most;
    };

    int p_ = 0;
    bool used_ = false;
    double step_ = 0.0, per_step_ = 0.0;
    std::vector<Axis> axes_;
};

// For tests and measurements: whether kernels made from now on may use whole steps. Labels do not
// depend on it.
void allow_whole_steps(bool value);

// The medians of a fixed sample: a point in the middle that a few records far out do not move.
std::vector<double> sampled_middle(const double* points, std::int32_t n, int p);

}  // namespace dbanon
