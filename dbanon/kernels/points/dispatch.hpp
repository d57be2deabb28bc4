// Selects the build of search.cpp: chosen when the module is loaded, changeable for tests.
#pragma once

#include <string>
#include <vector>

#include "points/search.hpp"

namespace dbanon {

std::vector<std::string> simd_levels();  // supported here, slowest first
std::string simd_level();
bool set_simd_level(const std::string& name);  // false: unknown or not supported

const Ops& ops_for(int p);  // of the current level; kernels keep it for their lifetime
// Whether batches of searches can run: not every processor with AVX-512 has their instructions.
bool can_run_batches();

}  // namespace dbanon
