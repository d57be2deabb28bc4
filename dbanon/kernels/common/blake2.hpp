// BLAKE2b (RFC 7693) without a key, for digests of 128 bits.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace dbanon {

// The digest of `size` bytes as an integer of 128 bits, the first byte lowest: its low word, then
// its high one.
std::array<std::uint64_t, 2> blake2b_128(const std::uint8_t* message, std::size_t size);

}  // namespace dbanon
