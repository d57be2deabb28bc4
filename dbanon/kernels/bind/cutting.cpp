// Preparation of blocks: standardize numbers, and assign each record to its block by descending a
// tree of cuts (partitioning/cuts.py).
#include "bind/binding.hpp"
#include "common/labels.hpp"

namespace dbanon {
namespace {

using Matrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Sides = nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Blocks = nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>;

// Sums attribute by attribute, so that the assignment does not depend on the rest of the batch.
Blocks assign_blocks(const Matrix& points, const Keys& keys, const Matrix& directions,
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
        const std::int64_t next = sides.data()[i];
        // So that every descent ends.
        if (next >= 0 && (next <= static_cast<std::int64_t>(i / 2) || next >= static_cast<std::int64_t>(cuts))) {
            throw nb::value_error("a cut must lead to later cuts");
        }
    }
    auto blocks = std::make_unique<std::vector<std::int64_t>>(n);
    {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < n; ++i) {
            const double* row = points.data() + i * p;
            std::int64_t position = cuts > 0 ? 0 : -1;
            while (position >= 0) {
                const std::size_t cut = position;
                const double* direction = directions.data() + cut * p;
                double projection = 0.0;
                for (std::size_t j = 0; j < p; ++j) projection += row[j] * direction[j];
                const double border = borders.data()[cut];
                const bool below =
                    projection < border || (projection == border && keys.data()[i] < cut_keys.data()[cut]);
                position = sides.data()[2 * cut + (below ? 0 : 1)];
            }
            (*blocks)[i] = -1 - position;
        }
    }
    std::int64_t* data = blocks->data();
    const nb::capsule owner(blocks.get(), [](void* pointer) noexcept {
        delete static_cast<std::vector<std::int64_t>*>(pointer);
    });
    blocks.release();
    return Blocks(data, {n}, owner);
}

using Coordinates = nb::ndarray<nb::numpy, double, nb::ndim<2>>;

// The same operations in the same order as numpy, for bit-identical results.
Coordinates standardize_rows(const Matrix& numbers, const Keys& records, const Keys& exponents,
                  const Values& shifts, const Values& scales, const Values& factors) {
    const std::size_t n = numbers.shape(0), p = numbers.shape(1), m = records.shape(0);
    if (exponents.shape(0) != p || shifts.shape(0) != p || scales.shape(0) != p ||
        factors.shape(0) != p) {
        throw nb::value_error("an exponent, a shift, a scale and a factor for each column");
    }
    std::unique_ptr<double[]> scaled(new double[m * p + 1]);
    bool is_valid = true;
    {
        const nb::gil_scoped_release release;
        std::vector<Affine> standardizers;
        for (std::size_t j = 0; j < p; ++j) {
            // Beyond this all doubles become 0 or infinite; within it an exponent fits into an int.
            const std::int64_t exponent =
                std::min<std::int64_t>(std::max<std::int64_t>(exponents.data()[j], -5000), 5000);
            standardizers.emplace_back(static_cast<int>(exponent), shifts.data()[j], scales.data()[j]);
        }
        for (std::size_t i = 0; i < m; ++i) {
            const std::int64_t record = records.data()[i];
            if (record < 0 || record >= static_cast<std::int64_t>(n)) {
                is_valid = false;
                break;
            }
            const double* row = numbers.data() + static_cast<std::size_t>(record) * p;
            double* next = scaled.get() + i * p;
            for (std::size_t j = 0; j < p; ++j) next[j] = standardizers[j](row[j]) * factors.data()[j];
        }
    }
    if (!is_valid) throw nb::value_error("records must be positions of rows");
    double* data = scaled.release();
    const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<double*>(pointer); });
    return Coordinates(data, {m, p}, owner);
}

}  // namespace

void bind_cutting(nb::module_& m) {
    m.def("standardized", &standardize_rows, nb::arg("numbers").noconvert(),
          nb::arg("records").noconvert(), nb::arg("exponents").noconvert(),
          nb::arg("shifts").noconvert(), nb::arg("scales").noconvert(),
          nb::arg("factors").noconvert());
    m.def("block_of", &assign_blocks, nb::arg("points").noconvert(), nb::arg("keys").noconvert(),
          nb::arg("directions").noconvert(), nb::arg("borders").noconvert(),
          nb::arg("cut_keys").noconvert(), nb::arg("sides").noconvert());
}

}  // namespace dbanon
