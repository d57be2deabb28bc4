// The records that are in no class yet: the nearest to a class, and the farthest from it.
#pragma once

#include "mixed/wide_tree.hpp"

namespace dbanon {

class Unassigned {
   public:
    explicit Unassigned(const MixedTable& table);

    std::int32_t count() const { return count_; }
    // Takes the record of smallest index among the copies of a tuple that remain.
    std::int32_t take(std::int32_t tuple);

    template <class Measure>
    std::int32_t nearest(const Measure& measure, std::int32_t hint, Work& work) {
        return near_.nearest(measure, hint, work);
    }
    std::int32_t farthest(const Reach& reach, Work& work) { return far_.farthest(reach, work); }

    // Between two classes: new trees when half of the tuples have left, whose boxes lie apart
    // again. No hint from before may be given any more.
    void tidy(Work& work);

   private:
    void build();

    const MixedTable& table_;
    const Columns columns_;
    std::int32_t count_, tuples_, built_ = 0;  // records, tuples; tuples of the trees when built
    std::vector<std::int32_t> next_;           // by tuple: position among its copies
    std::vector<std::int32_t> record_;         // by tuple: the record there; kNone: none remains
    // Either question has a tree that is cut for it.
    WideTree near_, far_;
};

}  // namespace dbanon
