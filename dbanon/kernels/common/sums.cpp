#include "common/sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dbanon {

namespace {

constexpr int kMantissa = 52;
constexpr std::uint64_t kHidden = std::uint64_t{1} << kMantissa;

}  // namespace

bool ExactSums::add(const Strided<double>& values) {
    for (std::size_t i = 0; i < values.n; ++i) {
        const double value = values[i];
        const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
        const std::size_t e = static_cast<std::size_t>(bits >> kMantissa) & 0x7ff;
        if (e >= kExponents) return false;
        const std::uint64_t mantissa = (bits & (kHidden - 1)) | (e ? kHidden : 0);
        totals_[e] += (bits >> 63) ? -Wide{mantissa} : Wide{mantissa};
        const Square square = Square{mantissa} * mantissa;
        squares_[e] += square;
        if (squares_[e] < square) ++carried_[e];
        is_used_[e] = true;
        whole_ = whole_ && std::floor(value) == value;
        least_ = count_ ? std::min(least_, value) : value;
        most_ = count_ ? std::max(most_, value) : value;
        ++count_;
    }
    return true;
}

std::array<std::int64_t, 2> ExactSums::total(std::size_t e) const {
    return {static_cast<std::int64_t>(totals_[e] >> 64), static_cast<std::int64_t>(totals_[e])};
}

std::array<std::int64_t, 3> ExactSums::squares(std::size_t e) const {
    return {static_cast<std::int64_t>(carried_[e]), static_cast<std::int64_t>(squares_[e] >> 64),
            static_cast<std::int64_t>(squares_[e])};
}

}  // namespace dbanon
