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
    std::vector<std::vector<std::int32_t>> classes_of_tuple;  // by tuple: the classes that contain it

    void add_class(std::int32_t c, std::int32_t tuple) { classes_of_tuple[tuple].push_back(c); }
    void remove_class(std::int32_t c, std::int32_t tuple) {
        auto& classes_with_tuple = classes_of_tuple[tuple];
        *std::find(classes_with_tuple.begin(), classes_with_tuple.end(), c) = classes_with_tuple.back();
        classes_with_tuple.pop_back();
    }
};

}  // namespace dbanon
