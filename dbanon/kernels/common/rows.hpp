// Splits and joins rows of PostgreSQL's binary COPY without decoding fields, and formats numbers as
// elements of array literals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dbanon {

// Functions of the libpq that opened the connection, by address.
struct Libpq {
    int (*get_copy_data)(void* connection, char** row, int async);
    int (*consume_input)(void* connection);
    void (*free)(void* row);
};

// Why no more rows are taken: there are as many as wanted, the server has to be waited for, the
// last one was taken, or libpq says no more of them.
enum class Drained : int { full, waits, ended, failed };

// Rows of a COPY … TO STDOUT (FORMAT binary) behind one another, without its head and its end.
class CopyDrain {
   public:
    CopyDrain(const Libpq& libpq, void* connection, std::size_t head)
        : libpq_(libpq), connection_(connection), head_(head) {}
    // Takes rows until so many are held; it never waits.
    Drained drain(std::size_t rows);
    std::size_t rows() const { return rows_; }
    // Moves the buffered bytes out and clears the buffer.
    std::vector<std::uint8_t> take();

   private:
    // The size of the next row, as of PQgetCopyData: asked for again once what came was read.
    int next(char** row) const;

    Libpq libpq_;
    void* connection_;
    std::size_t head_;
    std::vector<std::uint8_t> buffer_;
    std::size_t rows_ = 0;
};

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

// What rows look like: the number of their fields, fields of these widths or NULL, any others.
struct RowShape {
    const std::int32_t* widths;
    std::size_t n_widths;
    std::size_t others;
    // The bytes of the first fields, with their lengths, where none is NULL.
    std::size_t head() const {
        std::size_t size = 0;
        for (std::size_t i = 0; i < n_widths; ++i) size += 4 + static_cast<std::size_t>(widths[i]);
        return size;
    }
};

// How many rows, and how many bytes of other fields; rows is -1 where the bytes are none of these.
struct RowCount {
    std::int64_t rows;
    std::size_t others;
};
RowCount count_rows(const std::uint8_t* bytes, std::size_t n, const RowShape& shape);

// Of each of these rows its first fields, zeros where there is NULL, and its others as they are.
void split_rows(const std::uint8_t* bytes, std::size_t rows, const RowShape& shape,
                std::uint8_t* heads, std::uint8_t* tails, std::int64_t* ends);

// The bytes of `count` rows: the number of fields, a head, and a tail where there are any.
std::size_t joined_size(const Pieces& heads, const std::int64_t* head_of, const Pieces& tails,
                        const std::int64_t* tail_of, std::size_t count);

void join_rows(std::int16_t fields, const Pieces& heads, const std::int64_t* head_of,
               const Pieces& tails, const std::int64_t* tail_of, std::size_t count,
               std::uint8_t* out);

// Records by class, and where each class begins.
struct ClassMembers {
    const std::int64_t* members;
    std::size_t n;
    const std::int64_t* starts;
    std::size_t n_classes;
    std::size_t size(std::size_t c) const {
        const std::size_t begin = static_cast<std::size_t>(starts[c]);
        return (c + 1 < n_classes ? static_cast<std::size_t>(starts[c + 1]) : n) - begin;
    }
};

// The records of these classes, one class after the other, each in a random order by as many random
// words of 64 bits as there are records; and the place of each one's class, counted from `first`.
void shuffle_classes(const ClassMembers& all, const std::int64_t* classes, std::size_t count,
                     const std::uint64_t* words, std::int64_t first, std::int64_t* places,
                     std::int64_t* records);

// Numbers as text, with commas between them.
std::string integers_text(const std::int64_t* values, std::size_t n);

// The same of floats, hexadecimal: no digit is computed. False where one is no normal number or 0.
bool floats_text(const double* values, std::size_t n, std::string& text);

}  // namespace dbanon
