// Methods that form one class after the other around far records, for records without coordinates:
// as in points/, but with integer squared distances (square.hpp).
#pragma once

#include "common/kernel.hpp"
#include "mixed/centre.hpp"
#include "mixed/unassigned.hpp"

namespace dbanon {

// A record's squared distance from the mean of m others is
//   (sum of d^2 to the m records) / m - (sum of d^2 of their pairs) / m^2.
// It is stored as an integer and a fraction, since a common denominator would overflow.
struct DistanceFromMean {
    using Sum = MixedCentroid::Sum;
    Sum integer_part, remainder, denominator;

    static DistanceFromMean of(Sum to_all, Sum of_pairs, std::size_t count) {
        const auto m = static_cast<Sum>(count);
        const Sum sum = to_all * m - of_pairs;
        return {sum / (m * m), sum % (m * m), m * m};
    }
    bool operator<(const DistanceFromMean& other) const {
        return integer_part != other.integer_part ? integer_part < other.integer_part : remainder * other.denominator < other.remainder * denominator;
    }
};

// squared_step_costs: by attribute; for a tree, the squared distance of leaves that meet at height 1.
class MixedSequentialKernel : public Kernel {
   public:
    MixedSequentialKernel(Mixed mixed, std::span<const Cost> squared_step_costs, std::int32_t k);

   protected:
    using Sum = MixedCentroid::Sum;

    // Assigns the smallest remaining record of a tuple to a class, and returns it.
    std::int32_t take(std::int32_t tuple, std::int32_t label) {
        const std::int32_t record = unassigned_.take(tuple);
        assign(record, label);
        taken_tuples_.push_back(tuple);
        return record;
    }
    // Assigns the smallest record of a tuple and the k - 1 records nearest to it.
    void take_class(std::int32_t tuple, std::int32_t label);
    // Assigns the `count` records nearest to a record, which may be assigned already.
    void take_around(std::int32_t tuple, std::int32_t count, std::int32_t label);
    // Assigns fewer than k remaining records to the class with the nearest mean each; means are not
    // updated.
    Coroutine assign_leftovers(std::int32_t classes);

    const Mixed mixed_;
    Unassigned unassigned_;
    Square square_;
    MixedCentroid centroid_;
    std::vector<std::int32_t> taken_tuples_;  // of the records assigned since the last move_centroid()
    std::vector<std::int32_t> neighbours_;  // records
};

// Methods that search for the record farthest from the centroid of remaining records.
class CentroidKernel : public MixedSequentialKernel {
   public:
    CentroidKernel(Mixed mixed, std::span<const Cost> squared_step_costs, std::int32_t k);

   protected:
    // Rebuilds trees if necessary, which invalidates hints and bounds.
    void rebuild_if_sparse() {
        if (unassigned_.rebuild_if_sparse(work_)) far_.reset();
    }
    void move_centroid() {
        far_.add_movement(centroid_.remove_records(taken_tuples_));
        taken_tuples_.clear();
    }

    FarthestFromCentroid far_;
};

// MDAV (Domingo-Ferrer & Torra 2005).
class MixedMdav final : public CentroidKernel {
   public:
    using CentroidKernel::CentroidKernel;

   protected:
    Coroutine run() override;
};

// Centroid-based fixed size (Laszlo & Mukherjee 2005).
class MixedCbfs final : public CentroidKernel {
   public:
    using CentroidKernel::CentroidKernel;

   protected:
    Coroutine run() override;
};

// V-MDAV (Solanas & Martinez-Balleste 2006).
class MixedVmdav final : public CentroidKernel {
   public:
    MixedVmdav(Mixed mixed, std::span<const Cost> squared_step_costs, std::int32_t k, double lambda)
        : CentroidKernel(std::move(mixed), squared_step_costs, k), lambda_(lambda) {}

   protected:
    Coroutine run() override;

   private:
    struct OutsideRecord {
        Cost distance = 0;
        std::int32_t record = -1, tuple = -1;
    };
    struct Member {
        std::int32_t tuple;
        OutsideRecord outside;  // the nearest record outside the class
    };
    OutsideRecord outside_record(std::int32_t tuple) { return {square_.distance(tuple), unassigned_.record(tuple), tuple}; }
    // The record outside the class that is nearest to any member.
    OutsideRecord nearest_outside();
    // The nearest remaining record; -1 if none remains.
    std::int32_t nearest_remaining(std::int32_t tuple);

    const double lambda_;
    std::vector<Member> members_;
};

}  // namespace dbanon
