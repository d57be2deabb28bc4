#include "mixed/greedy.hpp"

#include "mixed/unassigned.hpp"

namespace dbanon {

template <class Measure, bool from_seed>
Coroutine Greedy::grow() {
    const MixedTable& table = *mixed_;
    Unassigned unassigned(table);
    Measure measure(table);
    Reach reach(table);
    std::vector<Extent> classes;
    std::int32_t seed = 0;
    while (unassigned.count() >= k_) {
        unassigned.rebuild_if_sparse(work_);
        const auto label = static_cast<std::int32_t>(classes.size());
        Extent& extent = classes.emplace_back();
        measure.start(seed);
        reach.start(seed);
        extent.start(table, seed);
        assign(unassigned.take(seed), label);
        std::int32_t last = seed;
        while (extent.size < k_) {
            last = unassigned.nearest(measure, last, extent.size == 1, work_);
            assign(unassigned.take(last), label);
            measure.add(last);
            if constexpr (!from_seed) reach.add(last);
            extent.add(table, last);
            if (work_.left <= 0) co_yield nullptr;
        }
        if (unassigned.count() >= k_) seed = unassigned.farthest(reach, work_);
    }
    for (std::int32_t record = 0; unassigned.count() > 0; ++record) {
        if (is_assigned(record)) continue;
        const std::int32_t tuple = table.tuple_of(record);
        std::size_t best = 0;
        Cost least = 0;
        for (std::size_t c = 0; c < classes.size(); ++c) {
            const Cost increase = classes[c].loss_with(table, tuple) - classes[c].loss(table);
            if (c == 0 || increase < least) {
                least = increase;
                best = c;
            }
        }
        classes[best].add(table, tuple);
        assign(unassigned.take(tuple), static_cast<std::int32_t>(best));
        work_.left -= static_cast<std::int64_t>(classes.size());
        if (work_.left <= 0) co_yield nullptr;
    }
}

Coroutine GaaCp::run() { return grow<Reach, false>(); }

Coroutine KMember::run() { return grow<Growth, true>(); }

}  // namespace dbanon
