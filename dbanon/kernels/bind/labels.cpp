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
using StridedArray = nb::ndarray<const Value, nb::ndim<1>, nb::device::cpu>;

template <class Value>
Strided<Value> to_strided(const StridedArray<Value>& values) {
    return {values.data(), static_cast<std::ptrdiff_t>(values.stride(0)), values.shape(0)};
}

void check_labels(const InputArray<std::int32_t>& labels, std::size_t n_classes) {
    if (labels.shape(0) >= kMaxRecords) throw nb::value_error("2**31 labels or more");
    bool is_valid = true;
    const std::int64_t max = static_cast<std::int64_t>(n_classes);
    for (std::size_t i = 0; i < labels.shape(0); ++i) {
        is_valid &= labels.data()[i] >= -1 && labels.data()[i] < max;
    }
    if (!is_valid) throw nb::value_error("labels must be from -1 to below the number of classes");
}

std::tuple<NumpyArray<std::int64_t>, NumpyArray<std::int64_t>> group(InputArray<std::int32_t> labels,
                                                         std::int64_t n_classes) {
    if (n_classes < 0 || n_classes > static_cast<std::int64_t>(kMaxRecords)) {
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

NumpyArray<std::int64_t> class_sizes(InputArray<std::int32_t> labels) {
    const std::size_t n = labels.shape(0);
    std::int32_t min = 0, max = -1;
    std::vector<std::int64_t> sizes;
    {
        const nb::gil_scoped_release release;
        for (std::size_t i = 0; i < n; ++i) {
            min = std::min(min, labels.data()[i]);
            max = std::max(max, labels.data()[i]);
        }
        if (min >= -1) {
            sizes.assign(max + 1, 0);
            for (std::size_t i = 0; i < n; ++i) {
                if (labels.data()[i] >= 0) ++sizes[labels.data()[i]];
            }
        }
    }
    if (min < -1) throw nb::value_error("labels must be -1 or more");
    return to_numpy(sizes);
}

// Requires non-empty classes, and members that are record indices.
GroupedMembers checked_classes(const InputArray<std::int64_t>& members, const InputArray<std::int64_t>& starts,
                        std::size_t n) {
    const GroupedMembers classes{members.data(), members.shape(0), starts.data(), starts.shape(0)};
    bool is_valid = classes.n_classes ? classes.starts[0] == 0 : true;
    for (std::size_t c = 0; c < classes.n_classes; ++c) {
        const std::int64_t end = c + 1 < classes.n_classes ? classes.starts[c + 1]
                                                           : static_cast<std::int64_t>(classes.n);
        is_valid &= classes.starts[c] >= 0 && classes.starts[c] < end &&
               end <= static_cast<std::int64_t>(classes.n);
    }
    for (std::size_t i = 0; i < classes.n; ++i) {
        is_valid &= classes.members[i] >= 0 && classes.members[i] < static_cast<std::int64_t>(n);
    }
    if (!is_valid) throw nb::value_error("members and starts must be those of classes of the values");
    return classes;
}

std::optional<NumpyArray<double>> means(StridedArray<double> values, InputArray<std::int64_t> members,
                                  InputArray<std::int64_t> starts) {
    const GroupedMembers classes = checked_classes(members, starts, values.shape(0));
    Buffer<double> means(classes.n_classes);
    bool finite = false;
    {
        const nb::gil_scoped_release release;
        finite = class_means(to_strided(values), classes, means.data());
    }
    if (!finite) return std::nullopt;
    return means.to_python();
}

NumpyArray<std::int64_t> integer_means(InputArray<std::int64_t> values, InputArray<std::int64_t> members,
                                 InputArray<std::int64_t> starts) {
    const GroupedMembers classes = checked_classes(members, starts, values.shape(0));
    Buffer<std::int64_t> means(classes.n_classes);
    {
        const nb::gil_scoped_release release;
        integer_class_means(values.data(), classes, means.data());
    }
    return means.to_python();
}

std::tuple<double, double, double> squares(StridedArray<double> values, InputArray<std::int32_t> labels,
                                           InputArray<double> released,
                                           std::optional<InputArray<double>> other,
                                           std::optional<StridedArray<bool>> valid, int exponent,
                                           double shift, double scale, bool total_about_zero) {
    const std::size_t n = values.shape(0), classes = released.shape(0);
    check_labels(labels, classes);
    if (labels.shape(0) != n || (valid && valid->shape(0) != n) ||
        (other && other->shape(0) != classes)) {
        throw nb::value_error("one label for each value, one value of each kind for each class");
    }
    const Strided<bool> validity = valid ? to_strided(*valid) : Strided<bool>{nullptr, 0, 0};
    const nb::gil_scoped_release release;
    const Squares sums =
        column_squares(to_strided(values), labels.data(), validity, released.data(),
                       other ? other->data() : nullptr, classes, {exponent, shift, scale}, total_about_zero);
    return {sums.error, sums.other_error, sums.total};
}

NumpyArray<std::int64_t> shuffled(InputArray<std::uint64_t> words) {
    const std::size_t n = words.shape(0);
    if (n >= kMaxRecords) throw nb::value_error("2**31 words or more");
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
