#include "common/row_groups.hpp"

#include <bit>
#include <map>
#include <utility>

namespace dbanon {

ComparedValue ComparedValue::of_integer(std::int64_t value) {
    return {Type::integer, {static_cast<std::uint64_t>(value), 0}};
}

ComparedValue ComparedValue::of_real(double value) {
    constexpr double kLimit = 9223372036854775808.0;  // 2**63
    if (value >= -kLimit && value < kLimit) {
        const std::int64_t integer = static_cast<std::int64_t>(value);
        if (static_cast<double>(integer) == value) return of_integer(integer);
    }
    return {Type::real, {std::bit_cast<std::uint64_t>(value), 0}};
}

std::size_t RowGroups::slot_of(const ComparedValue& value) const {
    std::uint64_t hash = value.words[0] ^ (value.words[1] + static_cast<std::uint64_t>(value.type));
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15;
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = static_cast<std::size_t>(hash >> 32) & mask;
    while (slots_[slot] && values_[slots_[slot] - 1] != value) slot = (slot + 1) & mask;
    return slot;
}

void RowGroups::grow() {
    slots_.assign(2 * slots_.size(), 0);
    for (std::size_t group = 0; group < values_.size(); ++group) {
        slots_[slot_of(values_[group])] = static_cast<std::uint32_t>(group + 1);
    }
}

void RowGroups::add(const ComparedValue* row) {
    std::size_t slot = slot_of(row[0]);
    const ComparedValue* compared = row + 1;
    if (!slots_[slot]) {
        values_.push_back(row[0]);
        sizes_.push_back(1);
        slots_[slot] = static_cast<std::uint32_t>(sizes_.size());
        for (std::size_t i = 0; i < others_; ++i) {
            first_words_.push_back(compared[i].words[0]);
            first_types_.push_back(compared[i].type);
            is_single_.push_back(1);
        }
        if (2 * sizes_.size() > slots_.size()) grow();
        return;
    }
    const std::size_t group = slots_[slot] - 1;
    ++sizes_[group];
    for (std::size_t i = 0; i < others_; ++i) {
        const std::size_t at = group * others_ + i;
        is_single_[at] &= first_words_[at] == compared[i].words[0] && first_types_[at] == compared[i].type;
    }
}

std::vector<GroupCount> RowGroups::counts() const {
    std::map<std::pair<bool, std::int64_t>, GroupCount> counts;
    for (std::size_t group = 0; group < sizes_.size(); ++group) {
        const bool is_null = values_[group].type == ComparedValue::Type::null;
        GroupCount& count = counts[{is_null, sizes_[group]}];
        if (!count.groups++) {
            count.is_null = is_null;
            count.size = sizes_[group];
            count.single.assign(others_, 0);
        }
        for (std::size_t i = 0; i < others_; ++i) count.single[i] += is_single_[group * others_ + i];
    }
    std::vector<GroupCount> ordered;
    for (auto& [key, count] : counts) ordered.push_back(std::move(count));
    return ordered;
}

}  // namespace dbanon
