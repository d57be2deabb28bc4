#pragma once

#include "common/kernel.hpp"
#include "mixed/mixed.hpp"

namespace dbanon {

// Both methods: classes of k grown one record at a time from far seeds.
class Greedy : public Kernel {
   public:
    Greedy(Mixed mixed, std::int32_t k)
        : Kernel({nullptr, mixed->records(), mixed->n_attributes()}, k), mixed_(std::move(mixed)) {}

   protected:
    // Measure: the criterion for the next record. The next seed is farthest from the last seed, or
    // from the complete class.
    template <class Measure, bool from_seed>
    Coroutine grow();

   private:
    const Mixed mixed_;
};

// GAA-CP (Jiang, Zeng & Ma 2017); the definitions are in docs and in
// tests/reference/generalization.py.
class GaaCp final : public Greedy {
   public:
    using Greedy::Greedy;

   protected:
    Coroutine run() override;
};

// k-member (Byun, Kamra, Bertino & Li 2007).
class KMember final : public Greedy {
   public:
    using Greedy::Greedy;

   protected:
    Coroutine run() override;
};

}  // namespace dbanon
