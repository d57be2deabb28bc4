#include <cmath>

#include "bind/arrays.hpp"
#include "bind/linkage.hpp"
#include "mixed/mixed_linkage.hpp"

namespace dbanon {
namespace {

using Ends = nb::ndarray<const double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Nodes = InputMatrix<std::int32_t>;
using Parents = std::vector<std::optional<InputArray<std::int32_t>>>;

std::vector<BoxColumn> make_columns(const Parents& parents) {
    std::vector<BoxColumn> columns;
    for (const std::optional<InputArray<std::int32_t>>& tree : parents) {
        if (!tree) {
            columns.emplace_back(std::vector<std::int32_t>{});
            continue;
        }
        const std::int32_t* parent = tree->data();
        const std::size_t nodes = tree->shape(0);
        bool is_valid_tree = nodes > 0 && parent[0] == -1;
        for (std::size_t node = 1; node < nodes; ++node) {
            is_valid_tree &= parent[node] >= 0 && static_cast<std::size_t>(parent[node]) < node;
        }
        if (!is_valid_tree) throw nb::value_error("parents must come before their children");
        columns.emplace_back(std::vector<std::int32_t>(parent, parent + nodes));
    }
    return columns;
}

Boxes make_boxes(const std::vector<BoxColumn>& columns, const Ends& ends, const Nodes& nodes) {
    const std::size_t n = ends.shape(0);
    if (n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 2)) {
        throw nb::value_error("more than 2**30 boxes");
    }
    if (n < 1 || n != nodes.shape(0) || ends.shape(2) != 2 ||
        ends.shape(1) + nodes.shape(1) != columns.size()) {
        throw nb::value_error("ends and nodes of each box, one of either for each column");
    }
    const Boxes boxes{ends.data(), nodes.data(), static_cast<std::int32_t>(n),
                      static_cast<std::int32_t>(ends.shape(1)),
                      static_cast<std::int32_t>(nodes.shape(1))};
    std::size_t tree = 0;
    for (const BoxColumn& column : columns) {
        if (column.is_number()) continue;
        if (tree == nodes.shape(1)) throw nb::value_error("one column of nodes for each hierarchy");
        for (std::int32_t box = 0; box < boxes.n; ++box) {
            const std::int32_t node = boxes.nodes_of(box)[tree];
            if (node < 0 || node >= column.nodes()) throw nb::value_error("nodes must be the tree's");
        }
        ++tree;
    }
    if (tree != nodes.shape(1)) throw nb::value_error("one column of nodes for each hierarchy");
    for (std::size_t i = 0; i < n * ends.shape(1) * 2; i += 2) {
        // The negation also refuses NaN.
        if (!(ends.data()[i] <= ends.data()[i + 1])) throw nb::value_error("ends must be ordered");
    }
    return boxes;
}

// If both sides had inner nodes, distances would be undefined.
void require_leaves(const std::vector<BoxColumn>& columns, const Boxes& a, const Boxes& b) {
    std::size_t tree = 0;
    for (const BoxColumn& column : columns) {
        if (column.is_number()) continue;
        const auto inner = [&](const Boxes& boxes) {
            for (std::int32_t box = 0; box < boxes.n; ++box) {
                if (column.height(boxes.nodes_of(box)[tree]) > 0) return true;
            }
            return false;
        };
        if (inner(a) && inner(b)) throw nb::value_error("questions or boxes must be leaves");
        ++tree;
    }
}

class MixedLinkageRun : public ResultRun<MixedLinkage> {
   public:
    MixedLinkageRun(const Parents& parents, Ends question_ends, Nodes question_nodes, Ends ends,
                    Nodes nodes, Limits limits, Weights weights,
                    bool find_second)
        : ResultRun(Points(), make(parents, question_ends, question_nodes, ends, nodes, limits,
                                 weights, find_second)),
          ends_{std::move(question_ends), std::move(ends)},
          nodes_{std::move(question_nodes), std::move(nodes)},
          limits_(std::move(limits)),
          weights_(std::move(weights)) {}

    auto distances() { return to_numpy(finished_kernel().nearest()); }
    auto seconds() { return to_numpy(finished_kernel().second_nearest()); }
    auto weights() { return to_numpy(finished_kernel().tied_weight()); }

   private:
    static MixedLinkage* make(const Parents& parents, const Ends& question_ends,
                              const Nodes& question_nodes, const Ends& ends, const Nodes& nodes,
                              const Limits& limits,
                              const Weights& weights, bool find_second) {
        std::vector<BoxColumn> columns = make_columns(parents);
        const Boxes queries = make_boxes(columns, question_ends, question_nodes);
        const Boxes boxes = make_boxes(columns, ends, nodes);
        require_leaves(columns, queries, boxes);
        return new MixedLinkage(std::move(columns), queries, boxes,
                                checked_limits(limits, queries.n),
                                checked_weights(weights, boxes.n), find_second);
    }

    Ends ends_[2];
    Nodes nodes_[2];
    Limits limits_;
    Weights weights_;
};

}  // namespace

void bind_mixed_linkage(nb::module_& m) {
    nb::class_<MixedLinkageRun, KernelRun>(m, "MixedLinkage")
        .def(nb::init<const Parents&, Ends, Nodes, Ends, Nodes, Limits,
                      Weights, bool>(),
             nb::arg("parents"), nb::arg("question_ends").noconvert(),
             nb::arg("question_nodes").noconvert(), nb::arg("ends").noconvert(),
             nb::arg("nodes").noconvert(), nb::arg("limits").noconvert().none() = nb::none(),
             nb::arg("weights").noconvert().none() = nb::none(), nb::arg("second") = false)
        .def("distances", &MixedLinkageRun::distances)
        .def("seconds", &MixedLinkageRun::seconds)
        .def("weights", &MixedLinkageRun::weights);
}

}  // namespace dbanon
