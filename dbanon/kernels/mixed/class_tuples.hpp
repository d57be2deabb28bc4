// Classes as counts of tuples, while a local search changes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "mixed/mixed.hpp"

namespace dbanon {

struct ClassTuples {
    struct Class {
        std::vector<std::pair<std::int32_t, std::int32_t>> tuples;  // with the number of copies
        Cost loss = 0;
    };

    std::vector<Class> classes;
    std::vector<std::vector<std::int32_t>> of;  // by tuple: the classes that contain it

    void enter(std::int32_t c, std::int32_t tuple) { of[tuple].push_back(c); }
    void leave(std::int32_t c, std::int32_t tuple) {
        auto& holding = of[tuple];
        *std::find(holding.begin(), holding.end(), c) = holding.back();
        holding.pop_back();
    }
};

}  // namespace dbanon
