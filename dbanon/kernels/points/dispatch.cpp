#include "points/dispatch.hpp"

#include <atomic>

namespace dbanon {

const Ops* ops_baseline();
#ifdef DBANON_X86
const Ops* ops_avx2();
const Ops* ops_avx512();
#endif

namespace {

struct Level {
    const char* name;
    const Ops* ops;
};

std::vector<Level> supported() {
    std::vector<Level> levels{{"baseline", ops_baseline()}};
#ifdef DBANON_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) levels.push_back({"avx2", ops_avx2()});
    if (__builtin_cpu_supports("avx512f")) levels.push_back({"avx512", ops_avx512()});
#endif
    return levels;
}

const std::vector<Level>& levels() {
    static const std::vector<Level> levels = supported();
    return levels;
}

std::atomic<std::size_t>& current() {
    static std::atomic<std::size_t> index{levels().size() - 1};
    return index;
}

}  // namespace

std::vector<std::string> simd_levels() {
    std::vector<std::string> names;
    for (const Level& level : levels()) names.emplace_back(level.name);
    return names;
}

std::string simd_level() { return levels()[current()].name; }

bool set_simd_level(const std::string& name) {
    for (std::size_t i = 0; i < levels().size(); ++i) {
        if (name == levels()[i].name) {
            current() = i;
            return true;
        }
    }
    return false;
}

bool can_run_batches() {
#ifdef DBANON_X86
    return __builtin_cpu_supports("avx512vnni");
#else
    return false;
#endif
}

const Ops& ops_for(int p) { return levels()[current()].ops[p <= kMaxTemplatedAttributes ? p : 0]; }

}  // namespace dbanon
