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

    bool whole() const { return whole_; }
    double least() const { return least_; }
    double most() const { return most_; }
    // The sums of an exponent's numbers, in units of 2**(e - 1075) for e of at least 1, and of
    // 2**-1074 for 0: the sum in two words, the first signed, and the sum of squares in three
    // words, in the square of that unit. The highest word comes first.
    std::array<std::int64_t, 2> total(std::size_t e) const;
    std::array<std::int64_t, 3> squares(std::size_t e) const;
    bool empty(std::size_t e) const { return !is_used_[e]; }

   private:
    __extension__ using Wide = __int128;
    __extension__ using Square = unsigned __int128;
    std::array<Wide, kExponents> totals_{};
    std::array<Square, kExponents> squares_{};
    std::array<std::uint64_t, kExponents> carried_{};
    std::array<bool, kExponents> is_used_{};
    std::size_t count_ = 0;
    bool whole_ = true;
    double least_ = 0.0, most_ = 0.0;
};

}  // namespace dbanon
