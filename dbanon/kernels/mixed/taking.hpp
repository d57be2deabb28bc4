// Methods that take far records and what is near them, of records without coordinates: the same as
// in points/, on squared distances in whole numbers (square.hpp).
#pragma once

#include "common/kernel.hpp"
#include "mixed/centre.hpp"
#include "mixed/unassigned.hpp"

namespace dbanon {

// each: of a tree, the squared distance of leaves that meet one step up.
class Taking : public Kernel {
   public:
    Taking(Mixed mixed, std::span<const Cost> each, std::int32_t k);

   protected:
    // New trees where they are due: hints and bounds of before are gone.
    void tidy() {
        if (rest_.tidy(work_)) far_.restart();
    }
    std::int32_t take(std::int32_t tuple, std::int32_t label) {
        const std::int32_t record = rest_.take(tuple);
        assign(record, label);
        taken_.push_back(tuple);
        return record;
    }
    // The smallest record of a tuple, and the k - 1 nearest to it.
    void take_class(std::int32_t tuple, std::int32_t label);
    // The centroid is that of the records that remain.
    void move_centre() {
        far_.moved(centre_.leave(taken_));
        taken_.clear();
    }

    const Mixed mixed_;
    Unassigned rest_;
    Square square_;
    Centre centre_;
    FarFromCentre far_;
    std::vector<std::int32_t> taken_, found_;
};

// MDAV (Domingo-Ferrer & Torra 2005).
class MixedMdav final : public Taking {
   public:
    using Taking::Taking;

   protected:
    Steps run() override;
};

}  // namespace dbanon
