#pragma once

#include "common/xorshift_random.hpp"
#include "common/kernel.hpp"
#include "mixed/shapes.hpp"

namespace dbanon {

// Merging classes below k with the class of least merging loss. KACA (Li, Wong, Fu & Pei 2006)
// starts from distinct records. EBKC (Zhang, Zhao, Yang & Yang 2014) starts from classes of records
// within a distance, and finally splits large classes along the attribute with the largest entropy.
class Merging final : public Kernel {
   public:
    // threshold: of the distance (def. 5, mean over the attributes); below 0 for KACA.
    Merging(Mixed mixed, std::int32_t k, std::uint64_t seed,
            double threshold);

   protected:
    Coroutine run() override;

   private:
    void split(std::vector<std::int32_t> records, std::int32_t& label);
    int highest_entropy_attribute(const std::vector<std::int32_t>& records) const;

    const Mixed mixed_;
    XorshiftRandom random_;
    const double threshold_;
    Shapes shapes_;
};

}  // namespace dbanon
