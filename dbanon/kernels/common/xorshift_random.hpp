#pragma once

#include <cstddef>
#include <cstdint>

namespace dbanon {

// Random integers from a seed, the same on every platform (xorshift64*).
//
// Used by the kernels of hierarchies, while those of points use Random (points/refine_pool.hpp):
// labels for a given seed must not change between versions, so neither generator can be replaced.
class XorshiftRandom {
   public:
    explicit XorshiftRandom(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x2545F4914F6CDD1Du) {
        if (state_ == 0) state_ = 1;
    }
    std::uint32_t below(std::size_t n) {
        return static_cast<std::uint32_t>(((next() >> 32) * static_cast<std::uint64_t>(n)) >> 32);
    }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

   private:
    std::uint64_t next() {
        state_ ^= state_ >> 12;
        state_ ^= state_ << 25;
        state_ ^= state_ >> 27;
        return state_ * 0x2545F4914F6CDD1Du;
    }
    std::uint64_t state_;
};

}  // namespace dbanon
