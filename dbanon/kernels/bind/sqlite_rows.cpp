#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/binding.hpp"
#include "common/blake2.hpp"
#include "common/row_groups.hpp"
#include "common/row_hashes.hpp"

// Rows of a cursor of Python's module sqlite3. Each is taken and freed before the next, so that Python
// reuses the memory of its values; to fetch many first takes half as long again.

namespace dbanon {
namespace {

// The next row of an iterator, which must be a tuple; none at the end.
nb::object next_row(const nb::object& rows) {
    nb::object row = nb::steal(PyIter_Next(rows.ptr()));
    if (!row.is_valid() && PyErr_Occurred()) throw nb::python_error();
    if (row.is_valid() && !PyTuple_Check(row.ptr())) throw nb::type_error("rows must be tuples");
    return row;
}

std::size_t width_of(const nb::object& row) { return static_cast<std::size_t>(PyTuple_Size(row.ptr())); }

PyObject* value_at(const nb::object& row, std::size_t position) {
    return PyTuple_GetItem(row.ptr(), static_cast<Py_ssize_t>(position));
}

// A converter of the connection can return objects of other types: marshal decides on them.
void add_object(RowHashes& hashes, PyObject* value) {
    const nb::object written = nb::module_::import_("marshal").attr("dumps")(nb::handle(value), 2);
    const nb::bytes bytes = nb::cast<nb::bytes>(written);
    hashes.add_written(bytes.c_str(), bytes.size());
}

void add_value(RowHashes& hashes, PyObject* value) {
    if (value == Py_None) {
        hashes.add_null();
    } else if (PyFloat_CheckExact(value)) {
        hashes.add_real(PyFloat_AsDouble(value));
    } else if (PyByteArray_CheckExact(value)) {
        hashes.add_text(PyByteArray_AsString(value), static_cast<std::size_t>(PyByteArray_Size(value)));
    } else if (PyBytes_CheckExact(value)) {
        hashes.add_blob(PyBytes_AsString(value), static_cast<std::size_t>(PyBytes_Size(value)));
    } else {
        int overflow = 1;
        const std::int64_t integer =
            PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
        if (overflow) {
            add_object(hashes, value);
        } else {
            hashes.add_integer(integer);
        }
    }
}

std::tuple<std::uint64_t, std::uint64_t, std::uint64_t> hash_rows(const nb::object& rows,
                                                                  const nb::bytes& salt) {
    const nb::object iterator = nb::iter(rows);
    RowHashes hashes(reinterpret_cast<const std::uint8_t*>(salt.c_str()), salt.size());
    for (nb::object row = next_row(iterator); row.is_valid(); row = next_row(iterator)) {
        const std::size_t width = width_of(row);
        hashes.begin_row(width);
        for (std::size_t i = 0; i < width; ++i) add_value(hashes, value_at(row, i));
        hashes.end_row();
    }
    const auto sum = hashes.sum();
    return {hashes.rows(), sum[1], sum[0]};
}

// Bytes as a salted digest; `buffer` begins with the salt, of `salt_size` bytes.
ComparedValue compared_bytes(ComparedValue::Type type, const char* bytes, Py_ssize_t size,
                             std::size_t salt_size, std::vector<std::uint8_t>& buffer) {
    buffer.resize(salt_size);
    buffer.insert(buffer.end(), bytes, bytes + size);
    return ComparedValue::of_bytes(type, blake2b_128(buffer.data(), buffer.size()));
}

// None if it is no value of SQLite's: a converter of the connection can return objects of any type.
std::optional<ComparedValue> compared_value(PyObject* value, std::size_t salt_size, std::vector<std::uint8_t>& buffer) {
    using Type = ComparedValue::Type;
    if (value == Py_None) return ComparedValue{};
    if (PyFloat_CheckExact(value)) return ComparedValue::of_real(PyFloat_AsDouble(value));
    if (PyByteArray_CheckExact(value)) {
        return compared_bytes(Type::text, PyByteArray_AsString(value), PyByteArray_Size(value), salt_size, buffer);
    }
    if (PyBytes_CheckExact(value)) {
        return compared_bytes(Type::blob, PyBytes_AsString(value), PyBytes_Size(value), salt_size, buffer);
    }
    int overflow = 1;
    const std::int64_t integer =
        PyLong_CheckExact(value) ? PyLong_AsLongLongAndOverflow(value, &overflow) : 0;
    if (overflow) return std::nullopt;
    return ComparedValue::of_integer(integer);
}

using GroupCounts = std::vector<std::tuple<bool, std::int64_t, std::int64_t, std::vector<std::int64_t>>>;

std::optional<GroupCounts> group_rows(const nb::object& rows, std::size_t others, const nb::bytes& salt,
                                      std::size_t most) {
    const nb::object iterator = nb::iter(rows);
    RowGroups groups(others);
    std::vector<ComparedValue> values(others + 1);
    const std::uint8_t* salt_bytes = reinterpret_cast<const std::uint8_t*>(salt.c_str());
    std::vector<std::uint8_t> buffer(salt_bytes, salt_bytes + salt.size());
    if (most >= kMaxRecords) throw nb::value_error("up to 2**31 - 1 groups");
    for (nb::object row = next_row(iterator); row.is_valid(); row = next_row(iterator)) {
        if (width_of(row) != values.size()) throw nb::value_error("a value for each column");
        for (std::size_t i = 0; i < values.size(); ++i) {
            const auto value = compared_value(value_at(row, i), salt.size(), buffer);
            if (!value) return std::nullopt;
            values[i] = *value;
        }
        groups.add(values.data());
        if (groups.groups() > most) return std::nullopt;
    }
    GroupCounts counts;
    for (const GroupCount& count : groups.counts()) {
        counts.emplace_back(count.is_null, count.size, count.groups, count.single);
    }
    return counts;
}

// The value as a float: by Python's rules if it is no number of SQLite's.
double to_double(PyObject* value) {
    if (PyFloat_CheckExact(value)) return PyFloat_AsDouble(value);
    if (PyLong_CheckExact(value)) {
        const double number = PyLong_AsDouble(value);
        if (number == -1.0 && PyErr_Occurred()) throw nb::python_error();
        return number;
    }
    const nb::object number = nb::steal(PyNumber_Float(value));
    if (!number.is_valid()) throw nb::python_error();
    return PyFloat_AsDouble(number.ptr());
}

std::int64_t to_key(PyObject* value) {
    const nb::object integer = nb::steal(PyNumber_Long(value));
    if (!integer.is_valid()) throw nb::python_error();
    const long long key = PyLong_AsLongLong(integer.ptr());
    if (key == -1 && PyErr_Occurred()) throw nb::python_error();
    return key;
}

std::tuple<NumpyArray<std::int64_t>, NumpyArray<double>, std::optional<NumpyArray<bool>>, nb::list>
take_numbers(const nb::object& rows, std::size_t most, const std::vector<bool>& is_number) {
    const std::size_t n_columns = is_number.size();
    if (most < 1 || most >= kMaxRecords) throw nb::value_error("1 to 2**31 - 1 rows");
    Buffer<std::int64_t> keys(most);
    Buffer<double> numbers(most * n_columns);
    Buffer<bool> valid(most * n_columns);
    nb::list others;
    std::vector<nb::list> lists(n_columns);
    for (std::size_t i = 0; i < n_columns; ++i) {
        if (!is_number[i]) others.append(lists[i]);
    }
    const nb::object iterator = nb::iter(rows);
    bool has_nulls = false;
    std::size_t n = 0;
    while (n < most) {
        const nb::object row = next_row(iterator);
        if (!row.is_valid()) break;
        if (width_of(row) != n_columns + 1) throw nb::value_error("a key and a value for each column");
        keys.data()[n] = to_key(value_at(row, 0));
        double* row_numbers = numbers.data() + n * n_columns;
        bool* row_valid = valid.data() + n * n_columns;
        for (std::size_t i = 0; i < n_columns; ++i) {
            PyObject* value = value_at(row, i + 1);
            row_valid[i] = value != Py_None;
            has_nulls |= !row_valid[i];
            row_numbers[i] = row_valid[i] && is_number[i] ? to_double(value) : 0.0;
            if (!is_number[i]) lists[i].append(nb::handle(value));
        }
        ++n;
    }
    std::optional<NumpyArray<bool>> known;
    if (has_nulls) known = valid.to_python(n * n_columns);
    return {keys.to_python(n), numbers.to_python(n * n_columns), known, others};
}

}  // namespace

void bind_sqlite_rows(nb::module_& m) {
    m.def("hash_rows", &hash_rows, nb::arg("rows"), nb::arg("salt"));
    m.def("group_rows", &group_rows, nb::arg("rows"), nb::arg("others"), nb::arg("salt"), nb::arg("most"));
    m.def("take_numbers", &take_numbers, nb::arg("rows"), nb::arg("most"), nb::arg("is_number"));
}

}  // namespace dbanon
