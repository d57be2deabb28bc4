// Minimal sample uniques (MSUs; Elliot, Manning & Ford 2002; Manning, Haglin & Keane 2008): the
// smallest sets of keys on which a record differs from all others.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/kernel.hpp"

namespace dbanon {

// A matrix of codes owned by the caller, row by row: from 0 to below n, or -1 where a value is
// missing.
struct CodeTable {
    const std::int32_t* codes;
    std::int32_t n;
    int m;
};

// Finds the MSUs of up to max_size keys, smallest first. A missing value equals no other and is in
// no MSU.
//
// SUDA2 intersects the lists of records of single values. This kernel refines classes instead: a
// depth-first search over the sets of keys splits the classes of a set by one more key. A record
// that becomes unique leaves the search there, for no larger set can be minimal. Records that equal
// another one on all keys are never unique; they only keep others from being so.
//
// The search runs once for each size. It descends only to sets that can reach this size, which
// makes about twice as many sets as a single search would visit. In return it may stop at any time
// with all MSUs of the sizes before.
class Suda final : public Kernel {
   public:
    static constexpr int kMaxKeys = 27;
    using KeySet = std::uint32_t;  // bit j: key j

    // codes must outlive the kernel. max_seconds: 0 for no limit.
    Suda(const CodeTable& table, int max_size, double max_seconds);

    // All MSUs, by record, then by size, then by key set.
    const std::vector<std::int32_t>& msu_records() const { return msu_records_; }
    const std::vector<KeySet>& msu_keys() const { return msu_keys_; }
    // The search is complete for MSUs of up to this size; below max_size if the time was up.
    int searched_size() const { return searched_size_; }
    // Records that equal no other record on all keys, a missing value being a value of its own.
    std::int64_t n_unique() const { return static_cast<std::int64_t>(record_of_.size()); }
    // Records that equal exactly one other record in this sense.
    std::int64_t n_paired() const { return n_paired_; }

   protected:
    Coroutine run() override;
    double fraction_done() const override;

   private:
    // Records with equal values on a set of keys. Candidates, which equal no other record on all
    // keys, come first; each class has one. The others are represented by one record for each
    // combination of values.
    struct RecordClass {
        std::size_t begin;  // in Level::members
        std::int32_t n_candidates, n_members;
    };
    // A set of keys on the current path of the search, with its classes of two records and more.
    // The search adds keys below the smallest one, `end_key`.
    struct Level {
        std::vector<std::int32_t> members;
        std::vector<RecordClass> classes;
        KeySet keys;  // as ranks of keys
        int next_key, end_key;
    };
    // Of a value in a class; after counting, where its next members are written.
    struct ValueCount {
        std::int32_t candidates, others;
    };

    void count_values(int key);
    void sort_by(int key);
    void collect_combinations();
    void start_size(int size);
    bool visit_next_set();
    void split_classes(const Level& parent, int key, Level& child);
    void split_class(const std::int32_t* members, const RecordClass& parent,
                     const std::int32_t* values, Level& child);
    void find_uniques(const Level& parent, int key);
    void add_if_minimal(std::int32_t candidate, KeySet keys);
    void append_new_msus();
    std::vector<std::int32_t> candidates_by_record();
    void write_msus(std::int32_t candidate);
    bool is_out_of_time() const;

    const std::int32_t* values_of(int key) const { return values_.data() + n_combinations_ * key; }

    const CodeTable codes_;
    const int max_size_;
    const double max_seconds_;
    std::chrono::steady_clock::time_point start_time_;

    std::vector<std::int32_t> order_, sorted_;  // records in the current order, and in the next
    std::vector<std::int32_t> n_values_;        // [key]
    // Keys by their numbers of values. The search knows keys by their ranks: sets with the largest
    // rank, which are half of all, then have the smallest classes.
    std::vector<int> ranked_keys_;
    // Distinct combinations of values, candidates first.
    std::size_t n_combinations_ = 0;
    std::vector<std::int32_t> record_of_;  // [candidate]
    std::vector<std::int32_t> values_;     // [rank of key][combination]

    int size_ = 0;
    int depth_ = 0;
    std::vector<Level> levels_;       // [number of keys]
    std::vector<ValueCount> counts_;  // [value], 0 between calls
    std::vector<std::int32_t> present_values_;
    bool has_candidates_left_ = false;  // whether larger MSUs are possible

    // Candidate c has the MSUs from msu_starts_[c] to before msu_starts_[c + 1], by size.
    std::vector<std::size_t> msu_starts_;
    std::vector<KeySet> msu_ranks_;  // [MSU], its keys as ranks
    // The MSUs of the size that is searched, by candidate and keys. None includes another, so they
    // join the others only when this size is complete.
    std::vector<std::pair<std::int32_t, KeySet>> new_msus_;

    double n_visited_ = 0.0, n_sets_ = 0.0;
    int searched_size_ = 0;
    std::int64_t n_paired_ = 0;
    std::vector<std::int32_t> msu_records_;
    std::vector<KeySet> msu_keys_;
};

}  // namespace dbanon
