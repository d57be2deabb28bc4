#pragma once

#include <vector>

#include "points/classes.hpp"

namespace dbanon {

// LDF and HDF: the candidate class of a remaining record is itself and its k - 1 nearest remaining
// records, its density value their sum of squares around their mean; each round takes the candidate
// of the largest (lowest density first) or smallest value.
//
// After a round only candidates that lost a member are renewed, from a list of neighbours a
// little longer than needed, which is looked up again only when it runs short. Records with equal rows
// have equal candidates, member by member in value, so only the first one that remains has to be
// rated: otherwise a value shared by many records would make every round touch them all.
class Density final : public SequentialKernel {
   public:
    Density(const Table& table, std::int32_t k, bool lowest_first, Search search);

   protected:
    Coroutine run() override;

   private:
    struct Entry {
        double sum_of_squares;
        std::int32_t id;
        std::int32_t version;
    };
    bool same_row(std::int32_t a, std::int32_t b) const;
    void add_to_equal_rows(std::int32_t id);
    bool has_underflow(std::int32_t id) const;
    std::int32_t drop_assigned(std::int32_t id);
    void store_neighbours(std::int32_t id);
    void rate_candidate(std::int32_t id, std::int32_t n_remaining);
    void mark_affected_candidates(std::int32_t removed);
    bool is_first_of_row(std::int32_t id) const { return version_[id] >= 0; }
    bool comes_after(const Entry& a, const Entry& b) const;
    std::int32_t* neighbours(std::int32_t id) { return neighbour_lists_.row(id); }

    bool lowest_first_;
    std::int32_t max_neighbours_;  // neighbours kept for a record
    Grid<std::int32_t> neighbour_lists_;
    std::vector<std::int32_t> list_length_, candidates_to_rate_;
    std::vector<std::int32_t> version_;  // of the candidate; -1: not the first with its row
    std::vector<std::int32_t> next_equal_row_, last_equal_row_, slots_;  // chains of equal rows, and their hash table
    std::vector<std::vector<std::int32_t>> holders_;  // by record: the records whose candidates may contain it
    std::vector<bool> is_marked_;
    std::vector<Entry> heap_;
    std::vector<double> mean_;
};

}  // namespace dbanon
