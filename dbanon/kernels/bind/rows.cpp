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

constexpr std::size_t kMostFields = 1664;  // of a query of PostgreSQL
constexpr std::int32_t kWidest = 1 << 16;

std::tuple<Made<std::uint8_t>, Made<std::uint8_t>, Made<std::int64_t>> split(
    Bytes bytes, const std::vector<std::int32_t>& widths, std::size_t others) {
    bool fit = widths.size() + others <= kMostFields;
    for (const std::int32_t width : widths) fit &= width >= 0 && width <= kWidest;
    if (!fit) throw nb::value_error("0 to 1664 fields, the first of 0 to 65536 bytes each");
    const RowShape shape{widths.data(), widths.size(), others};
    RowCount found{};
    {
        const nb::gil_scoped_release release;
        found = count_rows(bytes.data(), bytes.shape(0), shape);
    }
    if (found.rows < 0) throw nb::value_error("the bytes are no rows of such fields");
    const std::size_t count = static_cast<std::size_t>(found.rows);
    Buffer<std::uint8_t> heads(count * shape.head()), tails(found.others);
    Buffer<std::int64_t> ends(count);
    {
        const nb::gil_scoped_release release;
        split_rows(bytes.data(), count, shape, heads.data(), tails.data(), ends.data());
    }
    return {heads.to_python(), tails.to_python(), ends.to_python()};
}

// Ends must ascend and be within the bytes.
Pieces checked_pieces(const Bytes& bytes, const Read<std::int64_t>& ends) {
    std::int64_t last = 0;
    bool fit = true;
    for (std::size_t i = 0; i < ends.shape(0); ++i) {
        fit &= ends.data()[i] >= last;
        last = ends.data()[i];
    }
    if (!fit || last > static_cast<std::int64_t>(bytes.shape(0))) {
        throw nb::value_error("ends must rise, up to the number of bytes");
    }
    return {bytes.data(), ends.data()};
}

void check_within(const Read<std::int64_t>& of, std::size_t from, std::size_t to, std::size_t n) {
    bool fit = true;
    for (std::size_t i = from; i < to; ++i) {
        fit &= of.data()[i] >= 0 && of.data()[i] < static_cast<std::int64_t>(n);
    }
    if (!fit) throw nb::value_error("a row has a head or a tail that is none");
}

// The parts from which rows are joined, checked once.
class RowJoin {
   public:
    RowJoin(std::size_t fields, Bytes heads, Read<std::int64_t> head_ends, Bytes tails,
            Read<std::int64_t> tail_ends)
        : fields_(fields),
          heads_(heads),
          head_ends_(head_ends),
          tails_(tails),
          tail_ends_(tail_ends),
          head_pieces_(checked_pieces(heads_, head_ends_)),
          tail_pieces_(checked_pieces(tails_, tail_ends_)) {
        if (fields < 1 || fields > kMostFields) throw nb::value_error("from 1 to 1664 fields");
    }

    Made<std::uint8_t> join(Read<std::int64_t> head_of, std::optional<Read<std::int64_t>> tail_of,
                            std::size_t from, std::size_t to) const {
        if (from > to || to > head_of.shape(0) ||
            (tail_of && tail_of->shape(0) != head_of.shape(0))) {
            throw nb::value_error("a head for each row, and a tail for each or for none");
        }
        check_within(head_of, from, to, head_ends_.shape(0));
        if (tail_of) check_within(*tail_of, from, to, tail_ends_.shape(0));
        const std::int64_t* heads = head_of.data() + from;
        const std::int64_t* tails = tail_of ? tail_of->data() + from : nullptr;
        Buffer<std::uint8_t> rows(
            joined_size(head_pieces_, heads, tail_pieces_, tails, to - from));
        {
            const nb::gil_scoped_release release;
            join_rows(static_cast<std::int16_t>(fields_), head_pieces_, heads, tail_pieces_, tails,
                      to - from, rows.data());
        }
        return rows.to_python();
    }

   private:
    std::size_t fields_;
    Bytes heads_;
    Read<std::int64_t> head_ends_;
    Bytes tails_;
    Read<std::int64_t> tail_ends_;
    Pieces head_pieces_, tail_pieces_;
};

std::tuple<Made<std::int64_t>, Made<std::int64_t>> shuffled_classes(
    Read<std::int64_t> members, Read<std::int64_t> starts, Read<std::int64_t> classes,
    Read<std::uint64_t> words, std::int64_t first) {
    const ClassMembers all{members.data(), members.shape(0), starts.data(), starts.shape(0)};
    const std::int64_t most = static_cast<std::int64_t>(all.n);
    bool fit = all.n < kMostRecords;
    std::int64_t begins = 0;
    for (std::size_t c = 0; c < all.n_classes; ++c) {
        fit &= all.starts[c] >= begins && all.starts[c] <= most;
        begins = all.starts[c];
    }
    const std::size_t count = classes.shape(0);
    std::size_t n = 0;
    for (std::size_t i = 0; fit && i < count; ++i) {
        const std::size_t c = static_cast<std::size_t>(classes.data()[i]);
        fit = c < all.n_classes;
        if (fit) n += all.size(c);
    }
    if (!fit || words.shape(0) != n) {
        throw nb::value_error("starts that rise, classes that are there, a word for each record");
    }
    Buffer<std::int64_t> places(n), records(n);
    {
        const nb::gil_scoped_release release;
        shuffle_classes(all, classes.data(), count, words.data(), first, places.data(),
                        records.data());
    }
    return {places.to_python(), records.to_python()};
}

nb::bytes integers(Read<std::int64_t> values) {
    std::string text;
    {
        const nb::gil_scoped_release release;
        text = integers_text(values.data(), values.shape(0));
    }
    return nb::bytes(text.data(), text.size());
}

std::optional<nb::bytes> floats(Read<double> values) {
    std::string text;
    bool fit = false;
    {
        const nb::gil_scoped_release release;
        fit = floats_text(values.data(), values.shape(0), text);
    }
    if (!fit) return std::nullopt;
    return nb::bytes(text.data(), text.size());
}

template <class Function>
Function at_address(std::uintptr_t address) {
    if (!address) throw nb::value_error("no function lies at address 0");
    return reinterpret_cast<Function>(address);
}

// Reads rows from libpq through the addresses of its functions.
class PyCopyDrain {
   public:
    PyCopyDrain(std::uintptr_t connection, std::uintptr_t get_copy_data,
                std::uintptr_t consume_input, std::uintptr_t free, std::size_t head)
        : drain_({at_address<int (*)(void*, char**, int)>(get_copy_data),
                  at_address<int (*)(void*)>(consume_input), at_address<void (*)(void*)>(free)},
                 at_address<void*>(connection), head) {}

    int drain(std::size_t rows) {
        const nb::gil_scoped_release release;
        return static_cast<int>(drain_.drain(rows));
    }

    std::size_t rows() const { return drain_.rows(); }

    Made<std::uint8_t> take() {
        auto bytes = std::make_unique<std::vector<std::uint8_t>>(drain_.take());
        std::uint8_t* data = bytes->data();
        const std::size_t n = bytes->size();
        const nb::capsule owner(bytes.release(), [](void* at) noexcept {
            delete static_cast<std::vector<std::uint8_t>*>(at);
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
    nb::class_<PyCopyDrain>(m, "CopyDrain")
        .def(nb::init<std::uintptr_t, std::uintptr_t, std::uintptr_t, std::uintptr_t,
                      std::size_t>(),
             nb::arg("connection"), nb::arg("get_copy_data"), nb::arg("consume_input"),
             nb::arg("free"), nb::arg("head"))
        .def("drain", &PyCopyDrain::drain, nb::arg("rows"))
        .def_prop_ro("rows", &PyCopyDrain::rows)
        .def("take", &PyCopyDrain::take);
    nb::class_<RowJoin>(m, "RowJoin")
        .def(nb::init<std::size_t, Bytes, Read<std::int64_t>, Bytes, Read<std::int64_t>>(),
             nb::arg("fields"), nb::arg("heads").noconvert(), nb::arg("head_ends").noconvert(),
             nb::arg("tails").noconvert(), nb::arg("tail_ends").noconvert())
        .def("join", &RowJoin::join, nb::arg("head_of").noconvert(),
             nb::arg("tail_of").noconvert().none(), nb::arg("start"), nb::arg("stop"));
}

}  // namespace dbanon
