#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "bind/arrays.hpp"
#include "bind/binding.hpp"
#include "common/labels.hpp"

namespace dbanon {
namespace {

template <class Value>
using Spaced = nb::ndarray<const Value, nb::ndim<1>, nb::device::cpu>;

template <class Value>
Strided<Value> spaced(const Spaced<Value>& values) {
    return {values.data(), static_cast<std::ptrdiff_t>(values.stride(0)), values.shape(0)};
}

void check_labels(const Read<std::int32_t>& labels, std::size_t n_classes) {
    if (labels.shape(0) >= kMostRecords) throw nb::value_error("2**31 labels or more");
    bool fit = true;
    const std::int64_t most = static_cast<std::int64_t>(n_classes);
    for (std::size_t i = 0; i < labels.shape(0); ++i) {
        fit &= labels.data()[i] >= -1 && labels.data()[i] < most;
    }
    if (!fit) throw nb::value_error("labels must be from -1 to below the number of classes");
}

std::tuple<Made<std::int64_t>, Made<std::int64_t>> group(Read<std::int32_t> labels,
                                                         std::int64_t n_classes) {
    if (n_classes < 0 || n_classes > static_cast<std::int64_t>(kMostRecords)) {
        throw nb::value_error("from 0 to 2**31 classes");
    }
    const std::size_t classes = n_classes, n = labels.shape(0);
    check_labels(labels, classes);
    Buffer<std::int64_t> members(n), starts(classes + 1);
    {
        const nb::gil_scoped_release release;
        group_labels(labels.data(), n, classes, members.data(), starts.data());
    }
    const std::size_t grouped = starts.data()[classes];
    return {members.to_python(grouped), starts.to_python(classes)};
}

Made<std::int64_t> class_sizes(Read<std::int32_t> labels) {
    const std::size_t n = labels.shape(0);
    std::int32_t least = 0, most = -1;
    std::vector<std::int64_t> sizes;
    {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < n; ++i) {
            least = std::min(least, labels.data()[i]);
            most = std::max(most, labels.data()[i]);
        }
        if (least >= -1) {
            sizes.assign(most + 1, 0);
            for (std::size_t i = 0; i < n; ++i) {
                if (labels.data()[i] >= 0) ++sizes[labels.data()[i]];
            }
        }
    }
    if (least < -1) throw nb::value_error("labels must be -1 or more");
    return copied(sizes);
}

// Requires non-empty classes, and members that are record indices.
GroupedMembers checked_classes(const Read<std::int64_t>& members, const Read<std::int64_t>& starts,
                        std::size_t n) {
    const GroupedMembers classes{members.data(), members.shape(0), starts.data(), starts.shape(0)};
    bool fit = classes.n_classes ? classes.starts[0] == 0 : true;
    for (std::size_t c = 0; c < classes.n_classes; ++c) {
        const std::int64_t end = c + 1 < classes.n_classes ? classes.starts[c + 1]
                                                           : static_cast<std::int64_t>(classes.n);
        fit &= classes.starts[c] >= 0 && classes.starts[c] < end &&
               end <= static_cast<std::int64_t>(classes.n);
    }
    for (std::size_t i = 0; i < classes.n; ++i) {
        fit &= classes.members[i] >= 0 && classes.members[i] < static_cast<std::int64_t>(n);
    }
    if (!fit) throw nb::value_error("members and starts must be those of classes of the values");
    return classes;
}

std::optional<Made<double>> means(Spaced<double> values, Read<std::int64_t> members,
                                  Read<std::int64_t> starts) {
    const GroupedMembers classes = checked_classes(members, starts, values.shape(0));
    Buffer<double> means(classes.n_classes);
    bool finite = false;
    {
        const nb::gil_scoped_release release;
        finite = class_means(spaced(values), classes, means.data());
    }
    if (!finite) return std::nullopt;
    return means.to_python();
}

Made<std::int64_t> integer_means(Read<std::int64_t> values, Read<std::int64_t> members,
                                 Read<std::int64_t> starts) {
    const GroupedMembers classes = checked_classes(members, starts, values.shape(0));
    Buffer<std::int64_t> means(classes.n_classes);
    {
        const nb::gil_scoped_release release;
        integer_class_means(values.data(), classes, means.data());
    }
    return means.to_python();
}

std::tuple<double, double, double> squares(Spaced<double> values, Read<std::int32_t> labels,
                                           Read<double> released,
                                           std::optional<Read<double>> other,
                                           std::optional<Spaced<bool>> valid, int exponent,
                                           double shift, double scale, bool part) {
    const std::size_t n = values.shape(0), classes = released.shape(0);
    check_labels(labels, classes);
    if (labels.shape(0) != n || (valid && valid->shape(0) != n) ||
        (other && other->shape(0) != classes)) {
        throw nb::value_error("one label for each value, one value of each kind for each class");
    }
    const Strided<bool> validity = valid ? spaced(*valid) : Strided<bool>{nullptr, 0, 0};
    const nb::gil_scoped_release release;
    const Squares found =
        column_squares(spaced(values), labels.data(), validity, released.data(),
                       other ? other->data() : nullptr, classes, {exponent, shift, scale}, part);
    return {found.error, found.other_error, found.total};
}

Made<std::int64_t> shuffled(Read<std::uint64_t> words) {
    const std::size_t n = words.shape(0);
    if (n >= kMostRecords) throw nb::value_error("2**31 words or more");
    Buffer<std::int64_t> order(n);
    {
        const nb::gil_scoped_release release;
        shuffle(words.data(), n, order.data());
    }
    return order.to_python();
}

}  // namespace

void bind_labels(nb::module_& m) {
    m.def("grouped", &group, nb::arg("labels").noconvert(), nb::arg("n_classes"));
    m.def("class_sizes", &class_sizes, nb::arg("labels").noconvert());
    m.def("class_means", &means, nb::arg("values").noconvert(), nb::arg("members").noconvert(),
          nb::arg("starts").noconvert());
    m.def("integer_class_means", &integer_means, nb::arg("values").noconvert(),
          nb::arg("members").noconvert(), nb::arg("starts").noconvert());
    m.def("column_squares", &squares, nb::arg("values").noconvert(),
          nb::arg("labels").noconvert(), nb::arg("released").noconvert(),
          nb::arg("other").noconvert().none(), nb::arg("valid").noconvert().none(),
          nb::arg("exponent"), nb::arg("shift"), nb::arg("scale"), nb::arg("part"));
    m.def("shuffled", &shuffled, nb::arg("words").noconvert());
}

}  // namespace dbanon
