#include "mixed/greedy.hpp"

#include "mixed/tuple_tree.hpp"

namespace dbanon {

template <class Measure, bool from_seed>
Steps Greedy::grow() {
    const MixedTable& table = *mixed_;
    // Either question has a tree that is cut for it; both know what remains.
    TupleTree near(table, CutBy::kGain), far(table, CutBy::kRange);
    const auto take = [&](std::int32_t tuple) {
        far.take(tuple);
        return near.take(tuple);
    };
    Measure measure(table);
    Reach reach(table);
    std::vector<Extent> classes;
    std::int32_t seed = 0;
    while (near.remaining() >= k_) {
        const auto label = static_cast<std::int32_t>(classes.size());
        Extent& extent = classes.emplace_back();
        measure.start(seed);
        reach.start(seed);
        extent.start(table, seed);
        assign(take(seed), label);
        std::int32_t last = seed;
        while (extent.size < k_) {
            last = near.nearest(measure, last, work_);
            assign(take(last), label);
            measure.add(last);
            if constexpr (!from_seed) reach.add(last);
            extent.add(table, last);
            if (work_.left <= 0) co_yield nullptr;
        }
        if (near.remaining() >= k_) seed = far.farthest(reach, work_);
    }
    for (std::int32_t record = 0; near.remaining() > 0; ++record) {
        if (assigned(record)) continue;
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
        assign(take(tuple), static_cast<std::int32_t>(best));
        work_.left -= static_cast<std::int64_t>(classes.size());
        if (work_.left <= 0) co_yield nullptr;
    }
}

Steps GaaCp::run() { return grow<Reach, false>(); }

Steps KMember::run() { return grow<Growth, true>(); }

}  // namespace dbanon
