#include "common/blake2.hpp"

#include <bit>
#include <cstring>

namespace dbanon {
namespace {

constexpr std::size_t kBlockBytes = 128;
constexpr std::uint64_t kDigestBytes = 16;
constexpr std::array<std::uint64_t, 8> kInitialWords{
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
// The order in which a round takes the words of a block.
constexpr std::array<std::array<std::uint8_t, 16>, 10> kWordOrders{{
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}};
constexpr std::size_t kRounds = 12;

using State = std::array<std::uint64_t, 8>;
using Words = std::array<std::uint64_t, 16>;

void mix(Words& v, std::size_t a, std::size_t b, std::size_t c, std::size_t d, std::uint64_t x,
         std::uint64_t y) {
    v[a] += v[b] + x;
    v[d] = std::rotr(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = std::rotr(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = std::rotr(v[b] ^ v[c], 63);
}

std::uint64_t little_endian_word(const std::uint8_t* bytes) {
    std::uint64_t word = 0;
    for (int i = 7; i >= 0; --i) word = word << 8 | bytes[i];
    return word;
}

// Adds a block to the state; `n_hashed` counts the bytes of the message up to its end.
void compress(State& state, const std::uint8_t* block, std::uint64_t n_hashed, bool is_last) {
    Words m, v;
    for (std::size_t i = 0; i < m.size(); ++i) m[i] = little_endian_word(block + 8 * i);
    for (std::size_t i = 0; i < state.size(); ++i) {
        v[i] = state[i];
        v[i + 8] = kInitialWords[i];
    }
    v[12] ^= n_hashed;
    if (is_last) v[14] = ~v[14];
    for (std::size_t round = 0; round < kRounds; ++round) {
        const auto& order = kWordOrders[round % kWordOrders.size()];
        for (std::size_t i = 0; i < 4; ++i) {
            mix(v, i, i + 4, i + 8, i + 12, m[order[2 * i]], m[order[2 * i + 1]]);
        }
        for (std::size_t i = 0; i < 4; ++i) {
            mix(v, i, (i + 1) % 4 + 4, (i + 2) % 4 + 8, (i + 3) % 4 + 12, m[order[2 * i + 8]],
                m[order[2 * i + 9]]);
        }
    }
    for (std::size_t i = 0; i < state.size(); ++i) state[i] ^= v[i] ^ v[i + 8];
}

}  // namespace

std::array<std::uint64_t, 2> blake2b_128(const std::uint8_t* message, std::size_t size) {
    State state = kInitialWords;
    // The parameters of a hash without a key, salt or tree.
    state[0] ^= 0x01010000 ^ kDigestBytes;
    std::size_t start = 0;
    // The last block is a full one where the size is a multiple of a block's.
    for (; size - start > kBlockBytes; start += kBlockBytes) {
        compress(state, message + start, start + kBlockBytes, false);
    }
    std::array<std::uint8_t, kBlockBytes> last_block{};
    if (size > start) std::memcpy(last_block.data(), message + start, size - start);
    compress(state, last_block.data(), size, true);
    return {state[0], state[1]};
}

}  // namespace dbanon
