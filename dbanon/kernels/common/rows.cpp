#include "common/rows.hpp"

#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

namespace dbanon {
namespace {

constexpr std::size_t kLengthBytes = 4;
// The end of a COPY is a separate message; no row is that short.
constexpr int kTrailerBytes = 2;

// A field's length in network order; -1 stands for NULL, which has no further bytes.
std::int32_t length_at(const std::uint8_t* field) {
    const std::uint32_t bits = static_cast<std::uint32_t>(field[0]) << 24 |
                                static_cast<std::uint32_t>(field[1]) << 16 |
                                static_cast<std::uint32_t>(field[2]) << 8 | field[3];
    return static_cast<std::int32_t>(bits);
}

// The end of the field at this offset; 0 if it is not within n bytes.
std::size_t end_of_field(const std::uint8_t* bytes, std::size_t from, std::size_t n) {
    if (n - from < kLengthBytes) return 0;
    const std::int32_t length = length_at(bytes + from);
    from += kLengthBytes;
    if (length < -1) return 0;
    const std::size_t size = length > 0 ? static_cast<std::size_t>(length) : 0;
    return n - from < size ? 0 : from + size;
}

}  // namespace

int CopyDrain::next(char** row) const {
    const int size = libpq_.get_copy_data(connection_, row, 1);
    if (size != 0 || !libpq_.consume_input(connection_)) return size;
    return libpq_.get_copy_data(connection_, row, 1);
}

DrainStatus CopyDrain::drain(std::size_t rows) {
    while (rows_ < rows) {
        char* row_bytes = nullptr;
        const int size = next(&row_bytes);
        const std::unique_ptr<char, void (*)(void*)> row(row_bytes, libpq_.free);
        if (size == 0) return DrainStatus::no_data;
        if (size < 0) return DrainStatus::failed;
        // The header precedes the first row.
        const std::size_t row_size = static_cast<std::size_t>(size);
        if (row_size < header_size_) return DrainStatus::failed;
        const std::uint8_t* bytes = reinterpret_cast<const std::uint8_t*>(row.get()) + header_size_;
        const std::size_t n = row_size - std::exchange(header_size_, 0);
        if (n == kTrailerBytes && bytes[0] == 0xFF && bytes[1] == 0xFF) return DrainStatus::ended;
        buffer_.insert(buffer_.end(), bytes, bytes + n);
        ++rows_;
    }
    return DrainStatus::full;
}

std::vector<std::uint8_t> CopyDrain::take() {
    std::vector<std::uint8_t> moved_bytes;
    // The next batch is likely to have the same size.
    moved_bytes.reserve(buffer_.size() + buffer_.size() / 16);
    moved_bytes.swap(buffer_);
    rows_ = 0;
    return moved_bytes;
}

RowCount count_rows(const std::uint8_t* bytes, std::size_t n, const RowLayout& shape) {
    RowCount total{0, 0};
    const std::size_t fields = shape.n_widths + shape.n_other_fields;
    const RowCount mismatch{-1, 0};
    for (std::size_t offset = 0; offset < n; ++total.rows) {
        if (n - offset < 2) return mismatch;
        if ((static_cast<std::size_t>(bytes[offset]) << 8 | bytes[offset + 1]) != fields) return mismatch;
        offset += 2;
        for (std::size_t i = 0; i < shape.n_widths; ++i) {
            const std::size_t end = end_of_field(bytes, offset, n);
            if (end == 0) return mismatch;
            const std::int32_t length = length_at(bytes + offset);
            if (length != -1 && length != shape.widths[i]) return mismatch;
            offset = end;
        }
        const std::size_t begin = offset;
        for (std::size_t i = 0; i < shape.n_other_fields; ++i) {
            offset = end_of_field(bytes, offset, n);
            if (offset == 0) return mismatch;
        }
        total.other_bytes += offset - begin;
    }
    return total;
}

void split_rows(const std::uint8_t* bytes, std::size_t rows, const RowLayout& shape,
                std::uint8_t* heads, std::uint8_t* tails, std::int64_t* ends) {
    const std::size_t width = shape.head_size();
    std::size_t offset = 0, tail_bytes = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        offset += 2;
        bool is_complete = true;
        std::size_t end = offset;
        for (std::size_t i = 0; i < shape.n_widths; ++i) {
            const bool null = length_at(bytes + end) < 0;
            is_complete &= !null;
            end += kLengthBytes + (null ? 0 : static_cast<std::size_t>(shape.widths[i]));
        }
        if (is_complete) {
            std::memcpy(heads, bytes + offset, width);
            heads += width;
        } else {
            for (std::size_t i = 0; i < shape.n_widths; ++i) {
                const std::size_t size = static_cast<std::size_t>(shape.widths[i]);
                const bool null = length_at(bytes + offset) < 0;
                std::memcpy(heads, bytes + offset, kLengthBytes);
                if (null) {
                    std::memset(heads + kLengthBytes, 0, size);
                } else {
                    std::memcpy(heads + kLengthBytes, bytes + offset + kLengthBytes, size);
                }
                offset += kLengthBytes + (null ? 0 : size);
                heads += kLengthBytes + size;
            }
        }
        offset = end;
        for (std::size_t i = 0; i < shape.n_other_fields; ++i) {
            const std::int32_t length = length_at(bytes + offset);
            offset += kLengthBytes + (length > 0 ? static_cast<std::size_t>(length) : 0);
        }
        if (offset > end) std::memcpy(tails + tail_bytes, bytes + end, offset - end);
        tail_bytes += offset - end;
        ends[row] = static_cast<std::int64_t>(tail_bytes);
    }
}

std::size_t joined_size(const ByteStrings& heads, const std::int64_t* head_of, const ByteStrings& tails,
                        const std::int64_t* tail_of, std::size_t count) {
    std::size_t size = 2 * count;
    for (std::size_t i = 0; i < count; ++i) {
        size += heads.size(static_cast<std::size_t>(head_of[i]));
        if (tail_of) size += tails.size(static_cast<std::size_t>(tail_of[i]));
    }
    return size;
}

void join_rows(std::int16_t fields, const ByteStrings& heads, const std::int64_t* head_of,
               const ByteStrings& tails, const std::int64_t* tail_of, std::size_t count,
               std::uint8_t* out) {
    const std::uint8_t field_count[2] = {static_cast<std::uint8_t>(fields >> 8),
                                    static_cast<std::uint8_t>(fields & 0xFF)};
    const auto add = [&out](const ByteStrings& strings, std::int64_t which) {
        const std::size_t i = static_cast<std::size_t>(which), size = strings.size(i);
        if (size) std::memcpy(out, strings.bytes + strings.begin(i), size);
        out += size;
    };
    // Rows are scattered in the input: prefetch the next ones.
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = 0; i < count; ++i) {
        if (tail_of && i + 2 * kAhead < count) {
            __builtin_prefetch(tails.ends + tail_of[i + 2 * kAhead]);
        }
        if (tail_of && i + kAhead < count) {
            __builtin_prefetch(tails.bytes +
                               tails.begin(static_cast<std::size_t>(tail_of[i + kAhead])));
        }
        std::memcpy(out, field_count, 2);
        out += 2;
        add(heads, head_of[i]);
        if (tail_of) add(tails, tail_of[i]);
    }
}

void shuffle_classes(const ClassMembers& all, const std::int64_t* classes, std::size_t count,
                     const std::uint64_t* words, std::int64_t first, std::int64_t* class_positions,
                     std::int64_t* records) {
    for (std::size_t position = 0; position < count; ++position) {
        const std::size_t c = static_cast<std::size_t>(classes[position]);
        const std::int64_t* members = all.members + all.starts[c];
        const std::size_t size = all.size(c);
        // Inside-out shuffle: swap each new element with an earlier one, or leave it last.
        for (std::size_t i = 0; i < size; ++i) {
            // A number up to i from the upper and lower 32 bits of a word; i is below 2**32.
            const std::uint64_t upper = words[i] >> 32, lower = words[i] & 0xFFFFFFFF;
            const std::uint64_t chosen = (upper * (i + 1) + ((lower * (i + 1)) >> 32)) >> 32;
            if (chosen != i) records[i] = records[chosen];
            records[chosen] = members[i];
            class_positions[i] = first + static_cast<std::int64_t>(position);
        }
        records += size;
        class_positions += size;
        words += size;
    }
}

std::string integers_text(const std::int64_t* values, std::size_t n) {
    std::string text;
    char digits[24];
    for (std::size_t i = 0; i < n; ++i) {
        if (i) text += ',';
        const auto [end, error] = std::to_chars(digits, digits + sizeof digits, values[i]);
        text.append(digits, end);
    }
    return text;
}

bool floats_text(const double* values, std::size_t n, std::string& text) {
    constexpr std::int64_t kSpecial = 0x7FF, kBias = 1023;
    char digits[24];
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint64_t bits = std::bit_cast<std::uint64_t>(values[i]);
        const std::int64_t exponent = static_cast<std::int64_t>(bits >> 52) & kSpecial;
        std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
        if (exponent == kSpecial || (exponent == 0 && fraction != 0)) return false;
        if (i) text += ',';
        if (bits >> 63) text += '-';
        if (exponent == 0) {
            text += '0';
            continue;
        }
        text += "0x1";
        if (fraction) text += '.';
        while (fraction) {
            text += "0123456789abcdef"[fraction >> 48];
            fraction = (fraction << 4) & ((std::uint64_t{1} << 52) - 1);
        }
        text += 'p';
        const auto [end, error] = std::to_chars(digits, digits + sizeof digits, exponent - kBias);
        text.append(digits, end);
    }
    return true;
}

}  // namespace dbanon
