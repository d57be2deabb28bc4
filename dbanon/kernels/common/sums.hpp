// Sums without rounding, independent of the order of addition.
//
// Every double is a multiple of 2**-1074. Mantissas and their squares are added by exponent, in
// integers wide enough for any number of values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/labels.hpp"

namespace dbanon {

class ExactSums {
   public:
    static constexpr std::size_t kExponents = 2047;  // of finite numbers

    // False if a value is not finite.
    bool add(const Strided<double>& values);

    bool all_integers() const { return all_integers_; }
    double min() const { return min_; }
    double max() const { return max_; }
    // The sums of an exponent's numbers, in units of 2**(e - 1075) for e of at least 1, and of
    // 2**-1074 for 0: the sum in two words, the first signed, and the sum of squares in three
    // words, in the square of that unit. The highest word comes first.
    std::array<std::int64_t, 2> total(std::size_t e) const;
    std::array<std::int64_t, 3> squares(std::size_t e) const;
    bool empty(std::size_t e) const { return !has_values_[e]; }

   private:
    __extension__ using Wide = __int128;
    __extension__ using Square = unsigned __int128;
    std::array<Wide, kExponents> totals_{};
    std::array<Square, kExponents> squares_{};
    std::array<std::uint64_t, kExponents> carries_{};
    std::array<bool, kExponents> has_values_{};
    std::size_t count_ = 0;
    bool all_integers_ = true;
    double min_ = 0.0, max_ = 0.0;
};

}  // namespace dbanon
