// LDF and HDF for records without coordinates: points/density.hpp with integer squared distances.
// All candidates have k records, so they are ordered by the sum of squared distances of their
// pairs.
//
// Copies of a tuple have candidates of equal density: only the smallest remaining record is rated.
#pragma once

#include "mixed/taking.hpp"

namespace dbanon {

class MixedDensity final : public Taking {
   public:
    MixedDensity(Mixed mixed, std::span<const Cost> each, std::int32_t k, bool lowest);

   protected:
    Coroutine run() override;

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
    const std::int32_t room_;    // number of stored neighbours
    Grid<std::int32_t> lists_;   // by tuple: records near its smallest one, the nearest first
    std::vector<std::int32_t> length_, version_;      // by tuple
    std::vector<std::vector<std::int32_t>> holders_;  // by record: tuples whose candidates hold it
    std::vector<bool> marked_;                        // by tuple
    std::vector<std::int32_t> hit_;                   // tuples whose candidates need a new rating
    std::vector<Entry> heap_;
    std::vector<std::int32_t> members_;
};

}  // namespace dbanon
