#include "common/suda.hpp"

#include "bind/arrays.hpp"
#include "bind/binding.hpp"

namespace dbanon {
namespace {

using Codes = InputMatrix<std::int32_t>;

class SudaRun : public ResultRun<Suda> {
   public:
    SudaRun(Codes codes, std::int64_t max_size, double seconds)
        : ResultRun(Points(), make(codes, max_size, seconds)), codes_(std::move(codes)) {}

    int searched_size() { return finished_kernel().searched_size(); }
    std::int64_t n_unique() { return finished_kernel().n_unique(); }
    std::int64_t n_paired() { return finished_kernel().n_paired(); }
    auto msu_records() { return to_numpy(finished_kernel().msu_records()); }
    auto msu_keys() { return to_numpy(finished_kernel().msu_keys()); }

   private:
    static Suda* make(const Codes& codes, std::int64_t max_size, double seconds) {
        const std::size_t n = codes.shape(0), m = codes.shape(1);
        if (n > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 2)) {
            throw nb::value_error("more than 2**30 records");
        }
        if (m < 1 || m > static_cast<std::size_t>(Suda::kMaxKeys)) throw nb::value_error("1 to 27 keys");
        if (max_size < 1 || max_size > static_cast<std::int64_t>(m)) {
            throw nb::value_error("max_size must be from 1 to the number of keys");
        }
        if (!(seconds >= 0.0)) throw nb::value_error("seconds must be 0 or more");
        bool is_valid = true;
        {
            const nb::gil_scoped_release release;
            for (std::size_t i = 0; i < n * m; ++i) {
                is_valid &= codes.data()[i] >= -1 && codes.data()[i] < static_cast<std::int64_t>(n);
            }
        }
        if (!is_valid) throw nb::value_error("codes must be from -1 to below the number of records");
        return new Suda({codes.data(), static_cast<std::int32_t>(n), static_cast<int>(m)},
                        static_cast<int>(max_size), seconds);
    }

    Codes codes_;
};

}  // namespace

void bind_suda(nb::module_& m) {
    nb::class_<SudaRun, KernelRun>(m, "Suda")
        .def(nb::init<Codes, std::int64_t, double>(), nb::arg("codes").noconvert(),
             nb::arg("max_size"), nb::arg("seconds") = 0.0)
        .def_prop_ro("searched_size", &SudaRun::searched_size)
        .def_prop_ro("n_unique", &SudaRun::n_unique)
        .def_prop_ro("n_paired", &SudaRun::n_paired)
        .def("msu_records", &SudaRun::msu_records)
        .def("msu_keys", &SudaRun::msu_keys);
}

}  // namespace dbanon
