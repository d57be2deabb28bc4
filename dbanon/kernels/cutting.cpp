// Which block a record goes to: a walk down a tree of cuts (partitioning/cuts.py).
#include "binding.hpp"

namespace dbanon {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Sides = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Blocks = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

// Sums attribute by attribute, so that a record goes the same way whatever is asked beside it.
Blocks block_of(const Matrix& points, const Keys& keys, const Matrix& directions,
                const Values& borders, const Keys& cut_keys, const Sides& sides) {
    const std::size_t n = points.shape(0);
    const std::size_t p = points.shape(1);
    const std::size_t cuts = borders.shape(0);
    if (keys.shape(0) != n) throw nb::value_error("a key for each record");
    if (directions.shape(0) != cuts || directions.shape(1) != p || cut_keys.shape(0) != cuts ||
        sides.shape(0) != cuts || sides.shape(1) != 2) {
        throw nb::value_error("a direction over all attributes, a key and two sides for each cut");
    }
    for (std::size_t i = 0; i < 2 * cuts; ++i) {
        const std::int64_t to = sides.data()[i];
        // So every walk ends.
        if (to >= 0 && (to <= static_cast<std::int64_t>(i / 2) || to >= static_cast<std::int64_t>(cuts))) {
            throw nb::value_error("a cut must lead to later cuts");
        }
    }
    auto found = std::make_unique<std::vector<std::int64_t>>(n);
    {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < n; ++i) {
            const double* row = points.data() + i * p;
            std::int64_t at = cuts > 0 ? 0 : -1;
            while (at >= 0) {
                const std::size_t cut = static_cast<std::size_t>(at);
                const double* direction = directions.data() + cut * p;
                double along = 0.0;
                for (std::size_t j = 0; j < p; ++j) along += row[j] * direction[j];
                const double border = borders.data()[cut];
                const bool below =
                    along < border || (along == border && keys.data()[i] < cut_keys.data()[cut]);
                at = sides.data()[2 * cut + (below ? 0 : 1)];
            }
            (*found)[i] = -1 - at;
        }
    }
    std::int64_t* data = found->data();
    const nb::capsule owner(found.get(), [](void* at) noexcept {
        delete static_cast<std::vector<std::int64_t>*>(at);
    });
    found.release();
    return Blocks(data, {n}, owner);
}

}  // namespace

void bind_cutting(nb::module_& m) {
    m.def("block_of", &block_of, nb::arg("points").noconvert(), nb::arg("keys").noconvert(),
          nb::arg("directions").noconvert(), nb::arg("borders").noconvert(),
          nb::arg("cut_keys").noconvert(), nb::arg("sides").noconvert());
}

}  // namespace dbanon
