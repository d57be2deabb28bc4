#include "common/row_hashes.hpp"

#include <bit>
#include <limits>

#include "common/blake2.hpp"

namespace dbanon {

RowHashes::RowHashes(const std::uint8_t* salt, std::size_t size)
    : bytes_(salt, salt + size), salt_size_(size) {}

template <std::size_t kBytes>
void RowHashes::add_little_endian(std::uint64_t value) {
    for (std::size_t i = 0; i < kBytes; ++i) {
        bytes_.push_back(static_cast<std::uint8_t>(value >> 8 * i));
    }
}

void RowHashes::begin_row(std::size_t n_values) {
    bytes_.resize(salt_size_);
    add_type('(');
    add_little_endian<4>(n_values);
}

void RowHashes::add_null() { add_type('N'); }

void RowHashes::add_integer(std::int64_t value) {
    if (value >= std::numeric_limits<std::int32_t>::min() &&
        value <= std::numeric_limits<std::int32_t>::max()) {
        add_type('i');
        add_little_endian<4>(static_cast<std::uint64_t>(value));
        return;
    }
    // Digits of 15 bits, the lowest first; their number has the sign of the value.
    constexpr int kDigitBits = 15;
    const std::uint64_t word = static_cast<std::uint64_t>(value);
    std::uint64_t rest = value < 0 ? std::uint64_t{0} - word : word;
    const std::uint64_t n_digits =
        static_cast<std::uint64_t>((std::bit_width(rest) + kDigitBits - 1) / kDigitBits);
    add_type('l');
    add_little_endian<4>(value < 0 ? std::uint64_t{0} - n_digits : n_digits);
    for (; rest; rest >>= kDigitBits) add_little_endian<2>(rest & ((1u << kDigitBits) - 1));
}

void RowHashes::add_real(double value) {
    add_type('g');
    add_little_endian<8>(std::bit_cast<std::uint64_t>(value));
}

void RowHashes::add_text(const char* bytes, std::size_t size) {
    add_type('(');
    add_little_endian<4>(1);
    add_blob(bytes, size);
}

void RowHashes::add_blob(const char* bytes, std::size_t size) {
    add_type('s');
    add_little_endian<4>(size);
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
