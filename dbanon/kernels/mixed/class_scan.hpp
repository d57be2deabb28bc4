// The class whose loss grows least when another class joins it, by a scan of all classes, for
// tables whose boxes do not prune.
//
// Scans compute lower bounds in single precision; exact losses of the classes whose bounds do not
// exceed the best increase decide, so results equal those of ClassTree.
#pragma once

#include <vector>

#include "common/table.hpp"
#include "mixed/scan_blocks.hpp"
#include "mixed/scan_query.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

// For a column of a class: the smallest and largest value, and the depth of its node or single leaf.
struct ClassRange {
    Code low, high;
    std::int32_t depth;
};

class ClassScan {
   public:
    // There are no classes at first. shapes, losses: by class id, as of ClassTree. ranges: by class
    // id (classes, columns).
    ClassScan(const MixedTable& table, const Columns& columns, const Shapes& shapes,
              const std::vector<Cost>& losses, const Grid<ClassRange>& ranges);

    void reserve(std::size_t count) { blocks_.reserve(count); }
    void add(std::int32_t id);
    // After a change of its range or size.
    void update(std::int32_t id) { write(id, blocks_.index(id)); }
    void remove(std::int32_t id) { blocks_.remove(id); }

    // As in ClassTree, by (increase, smallest class). extent: of the class `query`.
    std::int32_t cheapest(std::int32_t query, const Extent& extent, Work& work);

   private:
    void write(std::int32_t id, std::int32_t index);

    const MixedTable& table_;
    const Columns& columns_;
    const Shapes& shapes_;
    const std::vector<Cost>& losses_;
    const Grid<ClassRange>& ranges_;
    const LaneOps& ops_;
    ScanBlocks blocks_;
    ScanQueryBuilder builder_;
    float share_, slack_;  // as in MergeQuery
};

}  // namespace dbanon
