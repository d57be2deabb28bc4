// The digest of rows of SQLite: the sum of the hashes of all rows, modulo 2**128.
//
// The bytes of a row are those that Python's marshal writes in its version 2, for a tuple of the
// values in which a text is a tuple of its bytes. Digests in ledgers depend on them: they never change.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dbanon {

class RowHashes {
   public:
    // The salt's bytes precede those of each row.
    RowHashes(const char* salt, std::size_t size);

    void begin_row(std::size_t n_values);
    void add_null();
    void add_integer(std::int64_t value);
    void add_real(double value);
    void add_text(const char* bytes, std::size_t size);
    void add_blob(const char* bytes, std::size_t size);
    // A value that marshal has written.
    void add_written(const char* bytes, std::size_t size);
    void end_row();

    std::uint64_t rows() const { return rows_; }
    // The low word, then the high one.
    std::array<std::uint64_t, 2> sum() const { return sum_; }

   private:
    // Adds the letter of a type and the low bytes of a word, the lowest first.
    template <std::size_t kBytes>
    void add_type(char type, std::uint64_t word);

    std::vector<std::uint8_t> bytes_;
    std::size_t salt_size_;
    std::uint64_t rows_ = 0;
    std::array<std::uint64_t, 2> sum_{};
};

}  // namespace dbanon
