#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/binding.hpp"
#include "common/rows.hpp"

namespace dbanon {
namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr std::size_t kMaxFields = 1664;  // PostgreSQL's limit for a query
constexpr std::int32_t kMaxFieldBytes = 1 << 16;

std::tuple<NumpyArray<std::uint8_t>, NumpyArray<std::uint8_t>, NumpyArray<std::int64_t>> split(
    Bytes bytes, const std::vector<std::int32_t>& widths, std::size_t n_other_fields) {
    bool is_valid = widths.size() + n_other_fields <= kMaxFields;
    for (const std::int32_t width : widths) is_valid &= width >= 0 && width <= kMaxFieldBytes;
    if (!is_valid) throw nb::value_error("0 to 1664 fields, the first of 0 to 65536 bytes each");
    const RowLayout layout{widths.data(), widths.size(), n_other_fields};
    RowCount row_count{};
    {
        const nb::gil_scoped_release release;
        row_count = count_rows(bytes.data(), bytes.shape(0), layout);
    }
    if (row_count.rows < 0) throw nb::value_error("the bytes are no rows of such fields");
    const std::size_t count = static_cast<std::size_t>(row_count.rows);
    Buffer<std::uint8_t> heads(count * layout.head_size()), tails(row_count.other_bytes);
    Buffer<std::int64_t> ends(count);
    {
        const nb::gil_scoped_release release;
        split_rows(bytes.data(), count, layout, heads.data(), tails.data(), ends.data());
    }
    return {heads.to_python(), tails.to_python(), ends.to_python()};
}

// Ends must ascend and be within the bytes.
ByteStrings checked_strings(const Bytes& bytes, const InputArray<std::int64_t>& ends) {
    std::int64_t last = 0;
    bool is_valid = true;
    for (std::size_t i = 0; i < ends.shape(0); ++i) {
        is_valid &= ends.data()[i] >= last;
        last = ends.data()[i];
    }
    if (!is_valid || last > static_cast<std::int64_t>(bytes.shape(0))) {
        throw nb::value_error("ends must rise, up to the number of bytes");
    }
    return {bytes.data(), ends.data()};
}

void check_indices(const InputArray<std::int64_t>& indices, std::size_t start, std::size_t stop, std::size_t n) {
    bool is_valid = true;
    for (std::size_t i = start; i < stop; ++i) {
        is_valid &= indices.data()[i] >= 0 && indices.data()[i] < static_cast<std::int64_t>(n);
    }
    if (!is_valid) throw nb::value_error("a row has a head or a tail that is none");
}

// Joins rows from heads and tails, which are checked once.
class RowJoin {
   public:
    RowJoin(std::size_t fields, Bytes heads, InputArray<std::int64_t> head_ends, Bytes tails,
            InputArray<std::int64_t> tail_ends)
        : fields_(fields),
          heads_(heads),
          head_ends_(head_ends),
          tails_(tails),
          tail_ends_(tail_ends),
          head_strings_(checked_strings(heads_, head_ends_)),
          tail_strings_(checked_strings(tails_, tail_ends_)) {
        if (fields < 1 || fields > kMaxFields) throw nb::value_error("from 1 to 1664 fields");
    }

    NumpyArray<std::uint8_t> join(InputArray<std::int64_t> head_of, std::optional<InputArray<std::int64_t>> tail_of,
                            std::size_t start, std::size_t stop) const {
        if (start > stop || stop > head_of.shape(0) ||
            (tail_of && tail_of->shape(0) != head_of.shape(0))) {
            throw nb::value_error("a head for each row, and a tail for each or for none");
        }
        check_indices(head_of, start, stop, head_ends_.shape(0));
        if (tail_of) check_indices(*tail_of, start, stop, tail_ends_.shape(0));
        const std::int64_t* heads = head_of.data() + start;
        const std::int64_t* tails = tail_of ? tail_of->data() + start : nullptr;
        Buffer<std::uint8_t> rows(
            joined_size(head_strings_, heads, tail_strings_, tails, stop - start));
        {
            const nb::gil_scoped_release release;
            join_rows(static_cast<std::int16_t>(fields_), head_strings_, heads, tail_strings_, tails,
                      stop - start, rows.data());
        }
        return rows.to_python();
    }

   private:
    std::size_t fields_;
    Bytes heads_;
    InputArray<std::int64_t> head_ends_;
    Bytes tails_;
    InputArray<std::int64_t> tail_ends_;
    ByteStrings head_strings_, tail_strings_;
};

std::tuple<NumpyArray<std::int64_t>, NumpyArray<std::int64_t>> shuffled_classes(
    InputArray<std::int64_t> members, InputArray<std::int64_t> starts, InputArray<std::int64_t> classes,
    InputArray<std::uint64_t> words, std::int64_t first) {
    const ClassMembers all{members.data(), members.shape(0), starts.data(), starts.shape(0)};
    const std::int64_t most = static_cast<std::int64_t>(all.n);
    bool is_valid = all.n < kMaxRecords;
    std::int64_t previous_start = 0;
    for (std::size_t c = 0; c < all.n_classes; ++c) {
        is_valid &= all.starts[c] >= previous_start && all.starts[c] <= most;
        previous_start = all.starts[c];
    }
    const std::size_t count = classes.shape(0);
    std::size_t n = 0;
    for (std::size_t i = 0; is_valid && i < count; ++i) {
        const std::size_t c = static_cast<std::size_t>(classes.data()[i]);
        is_valid = c < all.n_classes;
        if (is_valid) n += all.size(c);
    }
    if (!is_valid || words.shape(0) != n) {
        throw nb::value_error("starts that rise, classes that are there, a word for each record");
    }
    Buffer<std::int64_t> class_positions(n), records(n);
    {
        const nb::gil_scoped_release release;
        shuffle_classes(all, classes.data(), count, words.data(), first, class_positions.data(),
                        records.data());
    }
    return {class_positions.to_python(), records.to_python()};
}

nb::bytes integers(InputArray<std::int64_t> values) {
    std::string text;
    {
        const nb::gil_scoped_release release;
        text = integers_text(values.data(), values.shape(0));
    }
    return nb::bytes(text.data(), text.size());
}

std::optional<nb::bytes> floats(InputArray<double> values) {
    std::string text;
    bool is_valid = false;
    {
        const nb::gil_scoped_release release;
        is_valid = floats_text(values.data(), values.shape(0), text);
    }
    if (!is_valid) return std::nullopt;
    return nb::bytes(text.data(), text.size());
}

template <class Function>
Function at_address(std::uintptr_t address) {
    if (!address) throw nb::value_error("no function lies at address 0");
    return reinterpret_cast<Function>(address);
}

// Reads rows from libpq through the addresses of its functions.
class CopyDrainBinding {
   public:
    CopyDrainBinding(std::uintptr_t connection, std::uintptr_t get_copy_data,
                std::uintptr_t consume_input, std::uintptr_t free, std::size_t head)
        : drain_({at_address<int (*)(void*, char**, int)>(get_copy_data),
                  at_address<int (*)(void*)>(consume_input), at_address<void (*)(void*)>(free)},
                 at_address<void*>(connection), head) {}

    int drain(std::size_t rows) {
        const nb::gil_scoped_release release;
        return static_cast<int>(drain_.drain(rows));
    }

    std::size_t rows() const { return drain_.rows(); }

    NumpyArray<std::uint8_t> take() {
        auto bytes = std::make_unique<std::vector<std::uint8_t>>(drain_.take());
        std::uint8_t* data = bytes->data();
        const std::size_t n = bytes->size();
        const nb::capsule owner(bytes.release(), [](void* pointer) noexcept {
            delete static_cast<std::vector<std::uint8_t>*>(pointer);
        });
        return {data, {n}, owner};
    }

   private:
    CopyDrain drain_;
};

}  // namespace

void bind_rows(nb::module_& m) {
    m.def("split_rows", &split, nb::arg("rows").noconvert(), nb::arg("widths"), nb::arg("others"));
    m.def("shuffled_classes", &shuffled_classes, nb::arg("members").noconvert(),
          nb::arg("starts").noconvert(), nb::arg("classes").noconvert(),
          nb::arg("words").noconvert(), nb::arg("first"));
    m.def("integers_text", &integers, nb::arg("values").noconvert());
    m.def("floats_text", &floats, nb::arg("values").noconvert());
    nb::class_<CopyDrainBinding>(m, "CopyDrain")
        .def(nb::init<std::uintptr_t, std::uintptr_t, std::uintptr_t, std::uintptr_t,
                      std::size_t>(),
             nb::arg("connection"), nb::arg("get_copy_data"), nb::arg("consume_input"),
             nb::arg("free"), nb::arg("head"))
        .def("drain", &CopyDrainBinding::drain, nb::arg("rows"))
        .def_prop_ro("rows", &CopyDrainBinding::rows)
        .def("take", &CopyDrainBinding::take);
    nb::class_<RowJoin>(m, "RowJoin")
        .def(nb::init<std::size_t, Bytes, InputArray<std::int64_t>, Bytes, InputArray<std::int64_t>>(),
             nb::arg("fields"), nb::arg("heads").noconvert(), nb::arg("head_ends").noconvert(),
             nb::arg("tails").noconvert(), nb::arg("tail_ends").noconvert())
        .def("join", &RowJoin::join, nb::arg("head_of").noconvert(),
             nb::arg("tail_of").noconvert().none(), nb::arg("start"), nb::arg("stop"));
}

}  // namespace dbanon
