// Groups of rows with equal values of a column, and the other columns that have a single value in them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dbanon {

// A value of SQLite, equal to another exactly if SQLite's binary comparison says so.
struct ComparedValue {
    enum class Type : std::uint8_t { null, integer, real, text, blob };

    static ComparedValue of_integer(std::int64_t value);
    // Equal to that of the integer if it is one.
    static ComparedValue of_real(double value);
    // `words` is a salted digest of the bytes, of 128 bits.
    static ComparedValue of_bytes(Type type, const std::array<std::uint64_t, 2>& words) { return {type, words}; }

    Type type = Type::null;
    std::array<std::uint64_t, 2> words{};
    bool operator==(const ComparedValue&) const = default;
};

// The groups of a size: NULL's apart from the others.
struct GroupCount {
    bool is_null;
    std::int64_t size;
    std::int64_t groups;
    // Per other column, the groups in which it has a single value, or NULL alone.
    std::vector<std::int64_t> single;
};

class RowGroups {
   public:
    // `others` is the number of other columns.
    explicit RowGroups(std::size_t others) : others_(others), slots_(kFirstSlots) {}

    std::size_t groups() const { return sizes_.size(); }
    // Adds a row: the value to group by, then those of the other columns.
    void add(const ComparedValue* row);
    // NULL's group last, and else by size.
    std::vector<GroupCount> counts() const;

   private:
    static constexpr std::size_t kFirstSlots = 1024;

    std::size_t slot_of(const ComparedValue& value) const;
    void grow();

    std::size_t others_;
    // A group's number plus 1; 0 in empty slots.
    std::vector<std::uint32_t> slots_;
    std::vector<ComparedValue> values_;
    std::vector<std::int64_t> sizes_;
    // The first row's values of the other columns, and whether those of all rows are equal.
    std::vector<std::uint64_t> first_words_;
    std::vector<ComparedValue::Type> first_types_;
    std::vector<std::uint8_t> is_single_;
};

}  // namespace dbanon
