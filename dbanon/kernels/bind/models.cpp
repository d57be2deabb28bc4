// Privacy models as Python objects.
#include "mixed/models.hpp"

#include <map>
#include <string>

#include "bind/arrays.hpp"
#include "bind/binding.hpp"

namespace dbanon {
namespace {

ModelKind parse_model_kind(const std::string& name) {
    static const std::map<std::string, ModelKind> kinds = {
        {"distinct_l", ModelKind::distinct_l},       {"entropy_l", ModelKind::entropy_l},
        {"recursive_cl", ModelKind::recursive_cl},   {"alpha_k", ModelKind::alpha_k},
        {"beta_likeness", ModelKind::beta_likeness}, {"delta_disclosure", ModelKind::delta_disclosure},
        {"equal_t", ModelKind::equal_t},             {"ordered_t", ModelKind::ordered_t},
        {"hierarchical_t", ModelKind::hierarchical_t}, {"each_k", ModelKind::each_k},
    };
    const auto kind_entry = kinds.find(name);
    if (kind_entry == kinds.end()) throw nb::value_error("there is no such model");
    return kind_entry->second;
}

Models make_models(const InputArray<std::int32_t>& widths, bool persons) {
    for (std::size_t a = 0; a < widths.shape(0); ++a) {
        if (widths.data()[a] < 1) throw nb::value_error("every attribute must have a value");
    }
    if (persons && (widths.shape(0) < 1 || widths.data()[widths.shape(0) - 1] != 1)) {
        throw nb::value_error("the last attribute, of persons, must have one value");
    }
    return Models(std::vector<std::int32_t>(widths.data(), widths.data() + widths.shape(0)),
                  persons);
}

void add_model(Models& models, const std::string& kind, std::size_t attribute, double level,
               std::int32_t l, const InputArray<double>& shares, const InputArray<std::int32_t>& parents, const InputMatrix<std::int32_t>& ranges) {
    if (attribute >= models.attributes()) throw nb::value_error("there is no such attribute");
    const std::size_t s = models.width(attribute), nodes = parents.shape(0);
    if (shares.shape(0) != s) throw nb::value_error("one share for each value");
    if (l < 1) throw nb::value_error("l must be at least 1");
    Model model{parse_model_kind(kind), attribute, level, l, {shares.data(), shares.data() + s}, {}, {}, {}};
    if (model.kind == ModelKind::hierarchical_t) {
        if (ranges.shape(0) != nodes || ranges.shape(1) != 2) {
            throw nb::value_error("first and last leaf of each node");
        }
        for (std::size_t node = 0; node < nodes; ++node) {
            const std::int32_t first = ranges.data()[2 * node], last = ranges.data()[2 * node + 1];
            const std::int32_t parent = parents.data()[node];
            if (first < 0 || last < first || static_cast<std::size_t>(last) >= s ||
                (node > 0 && (parent < 0 || static_cast<std::size_t>(parent) >= node))) {
                throw nb::value_error("parents and ranges must be those of a tree of the values");
            }
            model.parent.push_back(parent);
            model.first.push_back(first);
            model.last.push_back(last);
        }
    }
    models.add(std::move(model));
}

double lack(const Models& models, const InputArray<std::int32_t>& counts) {
    if (counts.shape(0) != models.n_counts()) throw nb::value_error("one count for each value");
    for (std::size_t i = 0; i < counts.shape(0); ++i) {
        if (counts.data()[i] < 0) throw nb::value_error("counts must be at least 0");
    }
    return models.lack(counts.data());
}

bool satisfies(const Models& models, const InputArray<std::int32_t>& counts) { return lack(models, counts) == 0; }

}  // namespace

void bind_models(nb::module_& m) {
    nb::class_<Models>(m, "Models")
        .def("__init__",
             [](Models* self, const InputArray<std::int32_t>& widths, bool persons) {
                 new (self) Models(make_models(widths, persons));
             },
             nb::arg("widths").noconvert(), nb::arg("persons") = false)
        .def("add", add_model, nb::arg("wish"), nb::arg("attribute"), nb::arg("level"),
             nb::arg("l"), nb::arg("whole").noconvert(), nb::arg("parents").noconvert(),
             nb::arg("ranges").noconvert())
        .def("keeps", satisfies, nb::arg("counts").noconvert())
        .def("lack", lack, nb::arg("counts").noconvert())
        .def_prop_ro("persons", &Models::persons)
        .def_prop_ro("widths", [](const Models& models) {
            std::vector<std::size_t> widths;
            for (std::size_t a = 0; a < models.attributes(); ++a) widths.push_back(models.width(a));
            return widths;
        });
}

}  // namespace dbanon
