// A thin layer over the vector registers of one instruction set, chosen by the compiler flags of the
// translation unit. Everything sits in an anonymous namespace: search.cpp is compiled once per
// instruction set, and no symbol of one build may be merged with that of another by the linker.
// max and min give their second argument when either is not a number, as the instructions do.
#pragma once

#include <cstdint>

#if defined(__SSE2__) || defined(__AVX__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)

struct Lanes {
    static constexpr int width = 8;
    __m512d v;
    static Lanes all(double x) { return {_mm512_set1_pd(x)}; }
    static Lanes load(const double* from) { return {_mm512_loadu_pd(from)}; }
    static Lanes load(const std::int32_t* from) {
        return {_mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
    }
    void store(double* to) const { _mm512_storeu_pd(to, v); }
    friend Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_pd(a.v, b.v)}; }
    friend Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_pd(a.v, b.v)}; }
    friend Lanes operator*(Lanes a, Lanes b) { return {_mm512_mul_pd(a.v, b.v)}; }
    friend Lanes max(Lanes a, Lanes b) { return {_mm512_max_pd(a.v, b.v)}; }
    friend Lanes min(Lanes a, Lanes b) { return {_mm512_min_pd(a.v, b.v)}; }
    friend unsigned lanes_at_most(Lanes a, Lanes b) { return _mm512_cmp_pd_mask(a.v, b.v, _CMP_LE_OQ); }
};

#elif defined(__AVX__)

struct Lanes {
    static constexpr int width = 4;
    __m256d v;
    static Lanes all(double x) { return {_mm256_set1_pd(x)}; }
    static Lanes load(const double* from) { return {_mm256_loadu_pd(from)}; }
    static Lanes load(const std::int32_t* from) {
        return {_mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
    }
    void store(double* to) const { _mm256_storeu_pd(to, v); }
    friend Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_pd(a.v, b.v)}; }
    friend Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_pd(a.v, b.v)}; }
    friend Lanes operator*(Lanes a, Lanes b) { return {_mm256_mul_pd(a.v, b.v)}; }
    friend Lanes max(Lanes a, Lanes b) { return {_mm256_max_pd(a.v, b.v)}; }
    friend Lanes min(Lanes a, Lanes b) { return {_mm256_min_pd(a.v, b.v)}; }
    friend unsigned lanes_at_most(Lanes a, Lanes b) {
        return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(a.v, b.v, _CMP_LE_OQ)));
    }
};

#elif defined(__SSE2__)

struct Lanes {
    static constexpr int width = 2;
    __m128d v;
    static Lanes all(double x) { return {_mm_set1_pd(x)}; }
    static Lanes load(const double* from) { return {_mm_loadu_pd(from)}; }
    static Lanes load(const std::int32_t* from) {
        return {_mm_cvtepi32_pd(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)))};
    }
    void store(double* to) const { _mm_storeu_pd(to, v); }
    friend Lanes operator+(Lanes a, Lanes b) { return {_mm_add_pd(a.v, b.v)}; }
    friend Lanes operator-(Lanes a, Lanes b) { return {_mm_sub_pd(a.v, b.v)}; }
    friend Lanes operator*(Lanes a, Lanes b) { return {_mm_mul_pd(a.v, b.v)}; }
    friend Lanes max(Lanes a, Lanes b) { return {_mm_max_pd(a.v, b.v)}; }
    friend Lanes min(Lanes a, Lanes b) { return {_mm_min_pd(a.v, b.v)}; }
    friend unsigned lanes_at_most(Lanes a, Lanes b) {
        return static_cast<unsigned>(_mm_movemask_pd(_mm_cmple_pd(a.v, b.v)));
    }
};

#else

struct Lanes {
    static constexpr int width = 1;
    double v;
    static Lanes all(double x) { return {x}; }
    static Lanes load(const double* from) { return {*from}; }
    static Lanes load(const std::int32_t* from) { return {static_cast<double>(*from)}; }
    void store(double* to) const { *to = v; }
    friend Lanes operator+(Lanes a, Lanes b) { return {a.v + b.v}; }
    friend Lanes operator-(Lanes a, Lanes b) { return {a.v - b.v}; }
    friend Lanes operator*(Lanes a, Lanes b) { return {a.v * b.v}; }
    friend Lanes max(Lanes a, Lanes b) { return {a.v > b.v ? a.v : b.v}; }
    friend Lanes min(Lanes a, Lanes b) { return {a.v < b.v ? a.v : b.v}; }
    friend unsigned lanes_at_most(Lanes a, Lanes b) { return a.v <= b.v ? 1u : 0u; }
};

#endif

}  // namespace
