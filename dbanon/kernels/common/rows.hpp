// Splits and joins rows of PostgreSQL's binary COPY without decoding fields, and formats numbers as
// elements of array literals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dbanon {

// Functions of the libpq that opened the connection, as addresses.
struct Libpq {
    int (*get_copy_data)(void* connection, char** row, int async);
    int (*consume_input)(void* connection);
    void (*free)(void* row);
};

// Why drain() stopped: enough rows, no data available yet, end of the COPY, or an error of libpq.
enum class DrainStatus : int { full, no_data, ended, failed };

// Buffers the rows of a COPY … TO STDOUT (FORMAT binary) without its header and trailer.
class CopyDrain {
   public:
    CopyDrain(const Libpq& libpq, void* connection, std::size_t head)
        : libpq_(libpq), connection_(connection), header_size_(head) {}
    // Reads until this number of rows is buffered; never blocks.
    DrainStatus drain(std::size_t rows);
    std::size_t rows() const { return rows_; }
    // Moves the buffered bytes out and clears the buffer.
    std::vector<std::uint8_t> take();

   private:
    // The size of the next row, as returned by PQgetCopyData; tries again after reading available
    // input.
    int next(char** row) const;

    Libpq libpq_;
    void* connection_;
    std::size_t header_size_;
    std::vector<std::uint8_t> buffer_;
    std::size_t rows_ = 0;
};

// Concatenated byte strings, and the end of each.
struct ByteStrings {
    const std::uint8_t* bytes;
    const std::int64_t* ends;
    std::size_t begin(std::size_t i) const {
        return i ? static_cast<std::size_t>(ends[i - 1]) : 0;
    }
    std::size_t end(std::size_t i) const { return static_cast<std::size_t>(ends[i]); }
    std::size_t size(std::size_t i) const { return end(i) - begin(i); }
};

// The layout of rows: fields of these widths, or NULL, followed by other fields.
struct RowLayout {
    const std::int32_t* widths;
    std::size_t n_widths;
    std::size_t n_other_fields;
    // The size in bytes of the first fields, including their lengths, if none is NULL.
    std::size_t head_size() const {
        std::size_t size = 0;
        for (std::size_t i = 0; i < n_widths; ++i) size += 4 + static_cast<std::size_t>(widths[i]);
        return size;
    }
};

// Number of rows, and of bytes in the other fields (other_bytes); rows is -1 if the bytes do not match the layout.
struct RowCount {
    std::int64_t rows;
    std::size_t other_bytes;
};
RowCount count_rows(const std::uint8_t* bytes, std::size_t n, const RowLayout& shape);

// Splits each row into its first fields, with zeros in place of NULL, and its other fields
// unchanged.
void split_rows(const std::uint8_t* bytes, std::size_t rows, const RowLayout& shape,
                std::uint8_t* heads, std::uint8_t* tails, std::int64_t* ends);

// The size of `count` joined rows: the number of fields, a head, and a tail if there are any.
std::size_t joined_size(const ByteStrings& heads, const std::int64_t* head_of, const ByteStrings& tails,
                        const std::int64_t* tail_of, std::size_t count);

void join_rows(std::int16_t fields, const ByteStrings& heads, const std::int64_t* head_of,
               const ByteStrings& tails, const std::int64_t* tail_of, std::size_t count,
               std::uint8_t* out);

// Records by class, and the start of each class.
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

// The records of these classes, class by class, each class shuffled with as many random words of 64
// bits as there are records; and the index of each record's class, counted from `first`.
void shuffle_classes(const ClassMembers& all, const std::int64_t* classes, std::size_t count,
                     const std::uint64_t* words, std::int64_t first, std::int64_t* class_positions,
                     std::int64_t* records);

// Numbers as text, separated by commas.
std::string integers_text(const std::int64_t* values, std::size_t n);

// The same for floats, in hexadecimal, which needs no conversion of digits. False if a value is
// neither a normal number nor 0.
bool floats_text(const double* values, std::size_t n, std::string& text);

}  // namespace dbanon
