#include "common/sums.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dbanon {

namespace {

constexpr int kMantissaBits = 52;
constexpr std::uint64_t kImplicitBit = std::uint64_t{1} << kMantissaBits;

}  // namespace

bool ExactSums::add(const Strided<double>& values) {
    for (std::size_t i = 0; i < values.n; ++i) {
        const double value = values[i];
        const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
        const std::size_t e = static_cast<std::size_t>(bits >> kMantissaBits) & 0x7ff;
        if (e >= kExponents) return false;
        const std::uint64_t mantissa = (bits & (kImplicitBit - 1)) | (e ? kImplicitBit : 0);
        totals_[e] += (bits >> 63) ? -Wide{mantissa} : Wide{mantissa};
        const Square square = Square{mantissa} * mantissa;
        squares_[e] += square;
        if (squares_[e] < square) ++carries_[e];
        has_values_[e] = true;
        all_integers_ = all_integers_ && std::floor(value) == value;
        min_ = count_ ? std::min(min_, value) : value;
        max_ = count_ ? std::max(max_, value) : value;
        ++count_;
    }
    return true;
}

std::array<std::int64_t, 2> ExactSums::total(std::size_t e) const {
    return {static_cast<std::int64_t>(totals_[e] >> 64), static_cast<std::int64_t>(totals_[e])};
}

std::array<std::int64_t, 3> ExactSums::squares(std::size_t e) const {
    return {static_cast<std::int64_t>(carries_[e]), static_cast<std::int64_t>(squares_[e] >> 64),
            static_cast<std::int64_t>(squares_[e])};
}

}  // namespace dbanon
