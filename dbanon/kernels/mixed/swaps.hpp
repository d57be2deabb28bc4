// Copies of tuples change places between two classes that are near each other, or move from one to
// the other, where both classes then hold k records, keep to the privacy models and lose less.
//
// A class is compared with those that hold most of the nearest tuples of its own. Of each two the
// change that loses least is made, again and again until none pays. Two classes that have not
// changed since are not compared again.
#pragma once

#include "common/grid.hpp"
#include "common/table.hpp"
#include "mixed/class_tuples.hpp"
#include "mixed/models.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

class Swaps {
   public:
    // shapes: room for room(most) of them, used while it compares. most: tuples in a class, above
    // which it is left as it is.
    Swaps(const MixedTable& table, const Models& models, Shapes& shapes, std::size_t most,
          ClassTuples& held, std::int32_t k);
    static std::size_t room(std::size_t most) { return 4 * most + 2; }

    static constexpr std::int32_t kNear = 12;  // nearest tuples of each, to be given at most
    // The class to compare with others. neighbours: by tuple, the nearest ones first.
    void start(std::int32_t c, const Grid<std::int32_t>& neighbours, Work& work);
    // Compares it with one more; false when there is none left.
    bool compare(Work& work);
    std::int64_t changes() const { return changes_; }

   private:
    // A class of two. Its shapes: each tuple alone, the class without each, the whole.
    struct Side {
        explicit Side(std::size_t from, std::size_t room) : first(from), most(room) {}

        const std::size_t first, most;
        std::int32_t c = -1;
        std::size_t tuples = 0;
        std::vector<Cost> rest, each;  // without a tuple: the loss, and of one record more at least
        std::vector<Count> counts;     // of the models

        std::size_t alone(std::size_t i) const { return first + i; }
        std::size_t without(std::size_t i) const { return first + most + i; }
        std::size_t whole() const { return first + 2 * most; }
    };
    // Copies of one tuple of either side that change places; 0: none go that way.
    struct Change {
        Cost loss;  // of both classes afterwards
        std::size_t i = 0, j = 0;
        Count from_a = 0, from_b = 0;
    };
    // A class that others were compared with, and how many changes there were before.
    struct Compared {
        std::int32_t with;
        std::int64_t at;
    };

    const std::vector<std::pair<std::int32_t, std::int32_t>>& tuples(const Side& side) const {
        return held_.classes[side.c].tuples;
    }
    Cost size(const Side& side) const { return shapes_.size(side.whole()); }
    bool compared(std::int32_t c, std::int32_t other) const;
    void load(Side& side, std::int32_t c);
    bool improve(Work& work);
    void swap(Change& best, Work& work);
    Change moved(const Side& from, const Side& to, Cost most, Work& work);
    bool keeps(const Change& change, Work& work);
    void make(const Change& change);
    void hand(const Side& from, const Side& to, std::int32_t tuple, Count copies);

    const MixedTable& table_;
    const Models& models_;
    Shapes& shapes_;
    const std::size_t most_;
    ClassTuples& held_;
    const std::int32_t k_;

    Side a_, b_;
    std::vector<std::int32_t> partners_;
    std::vector<std::pair<std::int32_t, std::int32_t>> near_;  // times, class
    std::int64_t changes_ = 0;
    std::vector<std::int64_t> changed_;                        // by class: which change was its last
    std::vector<std::vector<Compared>> compared_;              // by class
};

}  // namespace dbanon
