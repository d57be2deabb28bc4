#include <atomic>
#include <cstring>

#include "mixed/lanes.hpp"

namespace dbanon {

extern const LaneOps lanes_baseline[2];
#ifdef DBANON_X86
extern const LaneOps lanes_avx2[2];
extern const LaneOps lanes_avx512[2];
#endif

namespace {

const LaneOps* fastest() {
#ifdef DBANON_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return lanes_avx512;
    if (__builtin_cpu_supports("avx2")) return lanes_avx2;
#endif
    return lanes_baseline;
}

std::atomic<const LaneOps*>& current() {
    static std::atomic<const LaneOps*> ops{fastest()};
    return ops;
}

}  // namespace

bool set_lanes(const char* name) {
    if (std::strcmp(name, "baseline") == 0) {
        current() = lanes_baseline;
        return true;
    }
#ifdef DBANON_X86
    if (std::strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2")) {
        current() = lanes_avx2;
        return true;
    }
    if (std::strcmp(name, "avx512") == 0 && __builtin_cpu_supports("avx512f")) {
        current() = lanes_avx512;
        return true;
    }
#endif
    return false;
}

const LaneOps& lane_ops(NumberPenalty by) { return current().load()[static_cast<int>(by)]; }

}  // namespace dbanon
