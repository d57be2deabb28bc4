#include "rows.hpp"

#include <cstring>

namespace dbanon {
namespace {

constexpr std::size_t kLength = 4;

// The bytes of a field's length, in network order; -1 stands for NULL, which has no others.
std::int32_t length_at(const std::uint8_t* at) {
    const std::uint32_t found = static_cast<std::uint32_t>(at[0]) << 24 |
                                static_cast<std::uint32_t>(at[1]) << 16 |
                                static_cast<std::uint32_t>(at[2]) << 8 | at[3];
    return static_cast<std::int32_t>(found);
}

// Where the fields that begin here end; 0 where they do not within n bytes.
std::size_t end_of_fields(const std::uint8_t* bytes, std::size_t from, std::size_t n,
                          std::size_t fields) {
    for (std::size_t i = 0; i < fields; ++i) {
        if (n - from < kLength) return 0;
        const std::int32_t length = length_at(bytes + from);
        from += kLength;
        if (length < -1) return 0;
        if (length > 0) {
            if (n - from < static_cast<std::size_t>(length)) return 0;
            from += static_cast<std::size_t>(length);
        }
    }
    return from;
}

}  // namespace

std::int64_t count_rows(const std::uint8_t* bytes, std::size_t n, std::size_t width,
                        std::size_t fields) {
    std::int64_t rows = 0;
    for (std::size_t at = 0; at < n; ++rows) {
        if (n - at < width) return -1;
        const std::size_t end = end_of_fields(bytes, at + width, n, fields);
        if (end == 0) return -1;
        at = end;
    }
    return rows;
}

void split_rows(const std::uint8_t* bytes, std::size_t rows, std::size_t width, std::size_t fields,
                std::uint8_t* heads, std::uint8_t* tails, std::int64_t* ends) {
    std::size_t at = 0, held = 0;
    for (std::size_t row = 0; row < rows; ++row) {
        std::memcpy(heads + row * width, bytes + at, width);
        at += width;
        const std::size_t begin = at;
        for (std::size_t i = 0; i < fields; ++i) {
            const std::int32_t length = length_at(bytes + at);
            at += kLength + (length > 0 ? static_cast<std::size_t>(length) : 0);
        }
        if (at > begin) std::memcpy(tails + held, bytes + begin, at - begin);
        held += at - begin;
        ends[row] = static_cast<std::int64_t>(held);
    }
}

std::size_t joined_size(const Pieces& heads, const std::int64_t* head_of, const Pieces& tails,
                        const std::int64_t* tail_of, std::size_t count) {
    std::size_t size = 2 * count;
    for (std::size_t i = 0; i < count; ++i) {
        size += heads.size(static_cast<std::size_t>(head_of[i]));
        if (tail_of) size += tails.size(static_cast<std::size_t>(tail_of[i]));
    }
    return size;
}

void join_rows(std::int16_t fields, const Pieces& heads, const std::int64_t* head_of,
               const Pieces& tails, const std::int64_t* tail_of, std::size_t count,
               std::uint8_t* out) {
    const std::uint8_t number[2] = {static_cast<std::uint8_t>(fields >> 8),
                                    static_cast<std::uint8_t>(fields & 0xFF)};
    const auto add = [&out](const Pieces& pieces, std::int64_t which) {
        const std::size_t i = static_cast<std::size_t>(which), size = pieces.size(i);
        if (size) std::memcpy(out, pieces.bytes + pieces.begin(i), size);
        out += size;
    };
    // Rows lie anywhere in what was read: those that come soon are asked for early.
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = 0; i < count; ++i) {
        if (tail_of && i + 2 * kAhead < count) {
            __builtin_prefetch(tails.ends + tail_of[i + 2 * kAhead]);
        }
        if (tail_of && i + kAhead < count) {
            __builtin_prefetch(tails.bytes +
                               tails.begin(static_cast<std::size_t>(tail_of[i + kAhead])));
        }
        std::memcpy(out, number, 2);
        out += 2;
        add(heads, head_of[i]);
        if (tail_of) add(tails, tail_of[i]);
    }
}

}  // namespace dbanon
