#pragma once

#include <vector>

#include "points/classes.hpp"

namespace dbanon {

// TFRP (Chang, Li, Huang 2007). First stage: the record farthest from one of two fixed points, used
// alternately, with its nearest; the points are the corners of all minima and of all maxima. Second
// stage: in descending order of their sum of squares, classes are dissolved if that lowers the
// total: their members, in the order taken, join the class with the currently nearest mean.
class Tfrp final : public SequentialKernel {
   public:
    Tfrp(const Table& table, std::int32_t k, bool second_stage, Search search)
        : SequentialKernel(table, k, search), second_stage_(second_stage) {}

   protected:
    Coroutine run() override;

   private:
    struct Move {
        std::int32_t id, to;
    };
    void add_leftover(std::int32_t id);
    void sum_members(std::int32_t label);
    double sum_of_squares(std::int32_t label) const;
    void set_mean(std::int32_t label);
    double join_class(std::int32_t id, std::int32_t label, double squared);
    void undo_moves();
    void renumber();

    bool second_stage_;
    std::vector<double> low_, high_;
    std::vector<std::vector<std::int32_t>> members_;
    Grid<double> sums_, means_of_;  // by class
    std::vector<double> saved_sums_;
    std::vector<Move> moves_;
    std::unique_ptr<BlockRecords> centres_;
};

}  // namespace dbanon
