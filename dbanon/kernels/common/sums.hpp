// Sums without rounding, of any numbers in any order.
//
// Every double is a whole number of 2**-1074. Mantissas, and their squares, are added up by exponent
// as integers that are wide enough for any number of values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/labels.hpp"

namespace dbanon {

class ExactSums {
   public:
    static constexpr std::size_t kExponents = 2047;  // of finite numbers

    // False where one is not finite.
    bool add(const Strided<double>& values);

    bool whole() const { return whole_; }
    double least() const { return least_; }
    double most() const { return most_; }
    // Of the numbers of an exponent, in units of 2**(e - 1075) where e is 1 or more and else of
    // 2**-1074: the sum in two words, the first signed, and that of the squares in three, in the
    // square of that unit. The highest word comes first.
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
