// Pairs of 16-bit numbers in vector registers, and the 32-bit sums of their products; as lanes.hpp
// for doubles. AVX-512 has these operations on longer registers only in an extension of its own.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX2__)

struct Sums {
    __m256i v;
    static Sums zero() { return {_mm256_setzero_si256()}; }
    void store(std::int32_t* to) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }
    friend Sums operator+(Sums a, Sums b) { return {_mm256_add_epi32(a.v, b.v)}; }
    // The lanes in which a > b.
    static unsigned above(Sums a, std::int32_t b) {
        const __m256i greater = _mm256_cmpgt_epi32(a.v, _mm256_set1_epi32(b));
        return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(greater)));
    }
};

struct Pairs {
    static constexpr int width = 8;
    __m256i v;
    static Pairs all(const std::int16_t* pair) {
        std::int32_t both;
        std::memcpy(&both, pair, sizeof(both));
        return {_mm256_set1_epi32(both)};
    }
    static Pairs zero() { return {_mm256_setzero_si256()}; }
    static Pairs load(const std::int16_t* from) {
        return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
    }
    friend Pairs operator-(Pairs a, Pairs b) { return {_mm256_sub_epi16(a.v, b.v)}; }
    friend Pairs max(Pairs a, Pairs b) { return {_mm256_max_epi16(a.v, b.v)}; }
    friend Pairs min(Pairs a, Pairs b) { return {_mm256_min_epi16(a.v, b.v)}; }
    friend Sums squares(Pairs a) { return {_mm256_madd_epi16(a.v, a.v)}; }
};

#elif defined(__SSE2__)

struct Sums {
    __m128i v;
    static Sums zero() { return {_mm_setzero_si128()}; }
    void store(std::int32_t* to) const { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v); }
    friend Sums operator+(Sums a, Sums b) { return {_mm_add_epi32(a.v, b.v)}; }
    static unsigned above(Sums a, std::int32_t b) {
        const __m128i greater = _mm_cmpgt_epi32(a.v, _mm_set1_epi32(b));
        return static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(greater)));
    }
};

struct Pairs {
    static constexpr int width = 4;
    __m128i v;
    static Pairs all(const std::int16_t* pair) {
        std::int32_t both;
        std::memcpy(&both, pair, sizeof(both));
        return {_mm_set1_epi32(both)};
    }
    static Pairs zero() { return {_mm_setzero_si128()}; }
    static Pairs load(const std::int16_t* from) {
        return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))};
    }
    friend Pairs operator-(Pairs a, Pairs b) { return {_mm_sub_epi16(a.v, b.v)}; }
    friend Pairs max(Pairs a, Pairs b) { return {_mm_max_epi16(a.v, b.v)}; }
    friend Pairs min(Pairs a, Pairs b) { return {_mm_min_epi16(a.v, b.v)}; }
    friend Sums squares(Pairs a) { return {_mm_madd_epi16(a.v, a.v)}; }
};

#else

struct Sums {
    std::int32_t v;
    static Sums zero() { return {0}; }
    void store(std::int32_t* to) const { *to = v; }
    friend Sums operator+(Sums a, Sums b) { return {a.v + b.v}; }
    static unsigned above(Sums a, std::int32_t b) { return a.v > b ? 1u : 0u; }
};

struct Pairs {
    static constexpr int width = 1;
    std::int32_t a, b;
    static Pairs all(const std::int16_t* pair) { return {pair[0], pair[1]}; }
    static Pairs zero() { return {0, 0}; }
    static Pairs load(const std::int16_t* from) { return {from[0], from[1]}; }
    friend Pairs operator-(Pairs x, Pairs y) { return {x.a - y.a, x.b - y.b}; }
    friend Pairs max(Pairs x, Pairs y) { return {x.a > y.a ? x.a : y.a, x.b > y.b ? x.b : y.b}; }
    friend Pairs min(Pairs x, Pairs y) { return {x.a < y.a ? x.a : y.a, x.b < y.b ? x.b : y.b}; }
    friend Sums squares(Pairs x) { return {x.a * x.a + x.b * x.b}; }
};

#endif

}  // namespace
