// LDF and HDF of records without coordinates: as points/density.hpp, on squared distances in whole
// numbers. All candidates hold k records, so that the sum of the squared distances of their pairs
// tells which has the largest sum of squares.
//
// Copies of a tuple have candidates of one density: only the smallest that remains is rated.
#pragma once

#include "mixed/taking.hpp"

namespace dbanon {

class MixedDensity final : public Taking {
   public:
    MixedDensity(Mixed mixed, std::span<const Cost> each, std::int32_t k, bool lowest);

   protected:
    Steps run() override;

   private:
    struct Entry {
        Sum within;
        std::int32_t record, tuple, version;
    };
    // For a heap with the next candidate on top.
    bool after(const Entry& a, const Entry& b) const;
    std::int32_t* list(std::int32_t tuple) { return lists_.row(tuple); }
    void look_up(std::int32_t tuple);
    std::int32_t shorten(std::int32_t tuple);
    void rate(std::int32_t tuple, std::int32_t n_remaining);
    Entry next();
    void collect(std::int32_t removed);

    const bool lowest_;
    const std::int32_t room_;    // neighbours kept
    Grid<std::int32_t> lists_;   // by tuple: records near its smallest one, the nearest first
    std::vector<std::int32_t> length_, version_;      // by tuple
    std::vector<std::vector<std::int32_t>> holders_;  // by record: tuples whose candidates hold it
    std::vector<bool> marked_;                        // by tuple
    std::vector<std::int32_t> hit_;                   // tuples whose candidates are to be rated anew
    std::vector<Entry> heap_;
    std::vector<std::int32_t> members_;
};

}  // namespace dbanon
