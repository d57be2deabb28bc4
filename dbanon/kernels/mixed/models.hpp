// Privacy models on sensitive attributes: conditions on the value counts of a class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dbanon {

using Count = std::int32_t;

enum class ModelKind : std::uint8_t {
    distinct_l, entropy_l, recursive_cl, alpha_k, beta_likeness, delta_disclosure,
    equal_t, ordered_t, hierarchical_t,
    each_k,  // minimum count of each value in a class, in records or persons
};

struct Model {
    ModelKind kind;
    std::size_t attribute;
    double level;
    std::int32_t l;             // for recursive_cl
    std::vector<double> table_shares;  // share of each value in the table
    // For hierarchical_t, by node, parents before children: the parent, and the leaves below.
    std::vector<std::int32_t> parent, first, last;
};

// A class's counts are those of all attributes, concatenated. If persons are counted, the last
// attribute has one value, whose count is the number of persons in the class, and the count of any
// other value is the number of persons who have it: a person may have several.
class Models {
   public:
    // widths: the number of values of each attribute. persons: the last attribute counts persons.
    explicit Models(const std::vector<std::int32_t>& widths, bool persons = false);
    Models() = default;

    void add(Model model);

    bool empty() const { return models_.empty(); }
    std::size_t attributes() const { return n_values_.size(); }
    std::size_t width(std::size_t attribute) const { return n_values_[attribute]; }
    std::size_t n_counts() const { return n_counts_; }
    // The cost of satisfies() and of adding counts, in elementary steps.
    std::int64_t work_per_check() const { return static_cast<std::int64_t>(n_counts_ / 8); }

    bool persons() const { return persons_; }
    // values: of one record, one for each attribute; -1, if persons are counted, is not counted.
    void count(Count* counts, const std::int32_t* values, Count copies) const {
        for (std::size_t a = 0; a < n_values_.size(); ++a) {
            if (values[a] < 0) continue;
            counts[first_count_[a] + static_cast<std::size_t>(values[a])] += copies;
        }
    }
    // Roughly the number of records that would have to change for a class with these counts to
    // satisfy all models; 0 if it does. An empty class never satisfies them.
    double lack(const Count* counts) const;
    bool satisfies(const Count* counts) const { return lack(counts) == 0; }

   private:
    double lack(const Model& model, const Count* counts, Count persons) const;
    void least_diverse(const Count* counts, std::size_t s, Count persons) const;
    double moved_share(const Model& model, const Count* counts, double size) const;

    std::vector<std::size_t> n_values_, first_count_;
    std::size_t n_counts_ = 0;
    bool persons_ = false;
    std::vector<Model> models_;
    mutable std::vector<Count> descending_counts_, least_diverse_counts_;
    mutable std::vector<double> excess_shares_, gain_, loss_;
    mutable std::vector<std::int32_t> height_;
};

}  // namespace dbanon
