// Methods that form classes around far records, for records without coordinates: those of points/,
// with integer squared distances (square.hpp).
#pragma once

#include "common/kernel.hpp"
#include "mixed/centre.hpp"
#include "mixed/unassigned.hpp"

namespace dbanon {

// A record's squared distance from the mean of m others is
//   sum over them d^2 / m - sum over each two of them d^2 / m^2,
// stored as an integer and a fraction, since a common denominator would overflow.
struct DistanceFromMean {
    using Sum = MixedCentroid::Sum;
    Sum whole, part, over;

    static DistanceFromMean of(Sum to_all, Sum of_pairs, std::size_t count) {
        const auto m = static_cast<Sum>(count);
        const Sum sum = to_all * m - of_pairs;
        return {sum / (m * m), sum % (m * m), m * m};
    }
    bool operator<(const DistanceFromMean& other) const {
        return whole != other.whole ? whole < other.whole : part * other.over < other.part * over;
    }
};

// each: for a tree, the squared distance of leaves that meet at height 1.
class MixedSequentialKernel : public Kernel {
   public:
    MixedSequentialKernel(Mixed mixed, std::span<const Cost> each, std::int32_t k);

   protected:
    using Sum = MixedCentroid::Sum;

    std::int32_t take(std::int32_t tuple, std::int32_t label) {
        const std::int32_t record = unassigned_.take(tuple);
        assign(record, label);
        taken_tuples_.push_back(tuple);
        return record;
    }
    // The smallest record of a tuple, and the k - 1 nearest to it.
    void take_class(std::int32_t tuple, std::int32_t label);
    // The k nearest records to one that may be assigned already.
    void take_around(std::int32_t tuple, std::int32_t count, std::int32_t label);
    // Fewer than k records remain: each joins the class with the nearest mean, without updating
    // means.
    Coroutine update_constants(std::int32_t classes);

    const Mixed mixed_;
    Unassigned unassigned_;
    Square square_;
    MixedCentroid centroid_;
    std::vector<std::int32_t> taken_tuples_;  // tuples
    std::vector<std::int32_t> neighbours_;  // records
};

// Methods that search for the record farthest from the centroid of remaining records.
class CentroidKernel : public MixedSequentialKernel {
   public:
    CentroidKernel(Mixed mixed, std::span<const Cost> each, std::int32_t k);

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
    MixedVmdav(Mixed mixed, std::span<const Cost> each, std::int32_t k, double lambda)
        : CentroidKernel(std::move(mixed), each, k), lambda_(lambda) {}

   protected:
    Coroutine run() override;

   private:
    struct Next {
        Cost distance = 0;
        std::int32_t record = -1, tuple = -1;
    };
    struct Member {
        std::int32_t tuple;
        Next next;  // the nearest record outside the class
    };
    Next next(std::int32_t tuple) { return {square_.distance(tuple), unassigned_.record(tuple), tuple}; }
    // Of all members the nearest record outside.
    Next nearest();
    // The nearest remaining record; -1 if none remains.
    std::int32_t nearest_remaining(std::int32_t tuple);

    const double lambda_;
    std::vector<Member> members_;
};

}  // namespace dbanon
