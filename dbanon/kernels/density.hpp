#pragma once

#include <vector>

#include "classes.hpp"

namespace dbanon {

// LDF and HDF: the candidate class of a remaining record is itself and its k - 1 nearest remaining
// records, its density value their sum of squares around their mean; each round takes the candidate
// of the largest (lowest density first) or smallest value.
//
// After a round only candidates that lost a member are renewed, from a list of neighbours a
// little longer than needed, which is looked up again only when it runs short.
class Density final : public TakingKernel {
   public:
    Density(const Table& table, std::int32_t k, bool lowest, Search search);

   protected:
    Steps run() override;

   private:
    struct Entry {
        double within;
        std::int32_t id;
        std::int32_t version;
    };
    bool shorten(std::int32_t id);
    void look_up(std::int32_t id);
    void rate(std::int32_t id);
    void collect(std::int32_t gone);
    bool after(const Entry& a, const Entry& b) const;
    std::int32_t* list(std::int32_t id) { return lists_.data() + std::int64_t{id} * room_; }

    bool lowest_;
    std::int32_t room_;  // neighbours kept for a record
    std::vector<std::int32_t> lists_, length_, version_, hit_;
    std::vector<std::vector<std::int32_t>> holders_;  // whose candidate a record may be in
    std::vector<bool> marked_;
    std::vector<Entry> heap_;
    std::vector<double> mean_;
};

}  // namespace dbanon
