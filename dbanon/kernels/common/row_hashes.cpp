#include "common/row_hashes.hpp"

#include <bit>
#include <limits>

#include "common/blake2.hpp"

namespace dbanon {

RowHashes::RowHashes(const char* salt, std::size_t size) : bytes_(salt, salt + size), salt_size_(size) {}

template <std::size_t kBytes>
void RowHashes::add_type(char type, std::uint64_t word) {
    std::array<std::uint8_t, 1 + kBytes> bytes{static_cast<std::uint8_t>(type)};
    for (std::size_t i = 0; i < kBytes; ++i) bytes[1 + i] = static_cast<std::uint8_t>(word >> 8 * i);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void RowHashes::begin_row(std::size_t n_values) {
    bytes_.resize(salt_size_);
    add_type<4>('(', n_values);
}

void RowHashes::add_null() { add_type<0>('N', 0); }

void RowHashes::add_integer(std::int64_t value) {
    const std::uint64_t word = static_cast<std::uint64_t>(value);
    if (value >= std::numeric_limits<std::int32_t>::min() &&
        value <= std::numeric_limits<std::int32_t>::max()) {
        return add_type<4>('i', word);
    }
    // Digits of 15 bits, the lowest first; their number has the sign of the value.
    constexpr int kDigitBits = 15;
    std::uint64_t rest = value < 0 ? std::uint64_t{0} - word : word;
    const std::uint64_t n_digits =
        static_cast<std::uint64_t>((std::bit_width(rest) + kDigitBits - 1) / kDigitBits);
    add_type<4>('l', value < 0 ? std::uint64_t{0} - n_digits : n_digits);
    for (; rest; rest >>= kDigitBits) {
        const std::uint64_t digit = rest & ((1u << kDigitBits) - 1);
        bytes_.push_back(static_cast<std::uint8_t>(digit));
        bytes_.push_back(static_cast<std::uint8_t>(digit >> 8));
    }
}

void RowHashes::add_real(double value) { add_type<8>('g', std::bit_cast<std::uint64_t>(value)); }

void RowHashes::add_text(const char* bytes, std::size_t size) {
    add_type<4>('(', 1);
    add_blob(bytes, size);
}

void RowHashes::add_blob(const char* bytes, std::size_t size) {
    add_type<4>('s', size);
    add_written(bytes, size);
}

void RowHashes::add_written(const char* bytes, std::size_t size) {
    bytes_.insert(bytes_.end(), bytes, bytes + size);
}

void RowHashes::end_row() {
    const auto hash = blake2b_128(bytes_.data(), bytes_.size());
    sum_[0] += hash[0];
    sum_[1] += hash[1] + (sum_[0] < hash[0]);
    ++rows_;
}

}  // namespace dbanon
