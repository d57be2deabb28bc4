#pragma once

#include <nanobind/nanobind.h>

namespace dbanon {

void bind_generalization(nanobind::module_& m);

}  // namespace dbanon
