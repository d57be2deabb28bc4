// Rows of PostgreSQL's binary COPY, taken apart and put together: nobody looks into a field.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dbanon {

// Bytes that lie one after the other, and where each of them ends.
struct Pieces {
    const std::uint8_t* bytes;
    const std::int64_t* ends;
    std::size_t begin(std::size_t i) const {
        return i ? static_cast<std::size_t>(ends[i - 1]) : 0;
    }
    std::size_t end(std::size_t i) const { return static_cast<std::size_t>(ends[i]); }
    std::size_t size(std::size_t i) const { return end(i) - begin(i); }
};

// How many rows there are whose first `width` bytes, the number of fields among them, are followed
// by so many fields; -1 where the bytes are no such rows.
std::int64_t count_rows(const std::uint8_t* bytes, std::size_t n, std::size_t width,
                        std::size_t fields);

// Of each of these rows its first bytes, and its last fields with their lengths; tails has room for
// what is no head.
void split_rows(const std::uint8_t* bytes, std::size_t rows, std::size_t width, std::size_t fields,
                std::uint8_t* heads, std::uint8_t* tails, std::int64_t* ends);

// The bytes of `count` rows: the number of fields, a head, and a tail where there are any.
std::size_t joined_size(const Pieces& heads, const std::int64_t* head_of, const Pieces& tails,
                        const std::int64_t* tail_of, std::size_t count);

void join_rows(std::int16_t fields, const Pieces& heads, const std::int64_t* head_of,
               const Pieces& tails, const std::int64_t* tail_of, std::size_t count,
               std::uint8_t* out);

}  // namespace dbanon
