#pragma once

#include "kernel.hpp"
#include "mixed.hpp"

namespace dbanon {

// GAA-CP (Jiang, Zeng & Ma 2017); the definition is in docs and in
// tests/reference_generalization.py.
class GaaCp final : public Kernel {
   public:
    GaaCp(std::unique_ptr<MixedTable> mixed, std::int32_t k)
        : Kernel({nullptr, mixed->records(), mixed->d()}, k), mixed_(std::move(mixed)) {}

   protected:
    Steps run() override;

   private:
    std::unique_ptr<MixedTable> mixed_;
};

}  // namespace dbanon
