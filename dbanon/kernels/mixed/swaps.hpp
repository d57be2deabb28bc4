// Swaps or moves copies of tuples between two near classes if both then have k records, satisfy the
// privacy models and lose less in total.
//
// A class is compared with those that hold most of the nearest neighbours of its tuples. For each
// pair the best change is applied until none helps. Pairs that have not changed are not compared
// again.
#pragma once

#include "common/grid.hpp"
#include "common/table.hpp"
#include "mixed/class_tuples.hpp"
#include "mixed/models.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

class Swaps {
   public:
    // shapes: scratch space for n_shapes(most) shapes. most: the maximum number of tuples; classes
    // with more are skipped.
    Swaps(const MixedTable& table, const Models& models, Shapes& shapes, std::size_t most,
          ClassTuples& class_tuples, std::int32_t k);
    static std::size_t n_shapes(std::size_t most) { return 4 * most + 2; }

    static constexpr std::int32_t kNear = 12;  // maximum of nearest tuples per tuple
    // Sets the class to compare. neighbours: by tuple, nearest first.
    void start(std::int32_t c, const Grid<std::int32_t>& neighbours, Work& work);
    // Compares it with the next class; false if there is none.
    bool compare(Work& work);
    std::int64_t changes() const { return changes_; }

   private:
    // One of two classes. Its shapes: each tuple, the class without each tuple, the class.
    struct ComparedClass {
        explicit ComparedClass(std::size_t from, std::size_t n_shapes) : first(from), most(n_shapes) {}

        const std::size_t first, most;
        std::int32_t c = -1;
        std::size_t tuples = 0;
        std::vector<Cost> loss_without, each;  // without a tuple: the loss, and a lower bound with another record
        std::vector<Count> counts;     // of the models

        std::size_t tuple_shape(std::size_t i) const { return first + i; }
        std::size_t without(std::size_t i) const { return first + most + i; }
        std::size_t class_shape() const { return first + 2 * most; }
    };
    // Copies of one tuple per side to exchange; 0 for none from that side.
    struct Change {
        Cost loss;  // of both classes afterwards
        std::size_t i = 0, j = 0;
        Count from_a = 0, from_b = 0;
    };
    // A class compared before, and the number of changes at that time.
    struct PreviousComparison {
        std::int32_t with;
        std::int64_t at;
    };

    const std::vector<std::pair<std::int32_t, std::int32_t>>& tuples(const ComparedClass& side) const {
        return class_tuples_.classes[side.c].tuples;
    }
    Cost size(const ComparedClass& side) const { return shapes_.size(side.class_shape()); }
    bool is_up_to_date(std::int32_t c, std::int32_t other) const;
    void load(ComparedClass& side, std::int32_t c);
    bool improve(Work& work);
    void swap(Change& best, Work& work);
    Change best_move(const ComparedClass& from, const ComparedClass& to, Cost most, Work& work);
    bool satisfies(const Change& change, Work& work);
    void apply_change(const Change& change);
    void move_copies(const ComparedClass& from, const ComparedClass& to, std::int32_t tuple, Count copies);

    const MixedTable& table_;
    const Models& models_;
    Shapes& shapes_;
    const std::size_t max_tuples_;
    ClassTuples& class_tuples_;
    const std::int32_t k_;

    ComparedClass a_, b_;
    std::vector<std::int32_t> partners_;
    std::vector<std::pair<std::int32_t, std::int32_t>> near_classes_;  // times, class
    std::int64_t changes_ = 0;
    std::vector<std::int64_t> last_change_;                        // by class: number of its last change
    std::vector<std::vector<PreviousComparison>> previous_comparisons_;              // by class
};

}  // namespace dbanon
