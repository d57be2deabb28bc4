#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "bind/arrays.hpp"
#include "bind/binding.hpp"
#include "common/row_hashes.hpp"

// Rows of a cursor of Python's module sqlite3. Each is taken and freed before the next, so that Python
// reuses the memory of its values; to fetch many first takes half as long again. A row is a tuple, which
// holds its values while they are read: their references are borrowed.

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

void add_value(RowHashes& hashes, PyObject* value) {
    if (value == Py_None) return hashes.add_null();
    if (PyFloat_CheckExact(value)) return hashes.add_real(PyFloat_AsDouble(value));
    if (PyByteArray_CheckExact(value)) {
        return hashes.add_text(PyByteArray_AsString(value), static_cast<std::size_t>(PyByteArray_Size(value)));
    }
    if (PyBytes_CheckExact(value)) {
        return hashes.add_blob(PyBytes_AsString(value), static_cast<std::size_t>(PyBytes_Size(value)));
    }
    if (PyLong_CheckExact(value)) {
        int overflow = 0;
        const std::int64_t integer = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (!overflow) return hashes.add_integer(integer);
    }
    // A converter of the connection can return objects of other types: marshal decides on them.
    const nb::object written = nb::module_::import_("marshal").attr("dumps")(nb::handle(value), 2);
    const nb::bytes bytes = nb::cast<nb::bytes>(written);
    hashes.add_written(bytes.c_str(), bytes.size());
}

std::tuple<std::uint64_t, std::uint64_t, std::uint64_t> hash_rows(const nb::object& rows,
                                                                  const nb::bytes& salt) {
    const nb::object iterator = nb::iter(rows);
    RowHashes hashes(salt.c_str(), salt.size());
    for (nb::object row = next_row(iterator); row.is_valid(); row = next_row(iterator)) {
        const std::size_t width = width_of(row);
        hashes.begin_row(width);
        for (std::size_t i = 0; i < width; ++i) add_value(hashes, value_at(row, i));
        hashes.end_row();
    }
    const auto sum = hashes.sum();
    return {hashes.rows(), sum[1], sum[0]};
}

std::int64_t to_key(PyObject* value) {
    const long long key = PyLong_AsLongLong(value);
    if (key == -1 && PyErr_Occurred()) throw nb::python_error();
    return key;
}

std::tuple<NumpyArray<std::int64_t>, NumpyArray<double>, NumpyArray<std::int64_t>, std::vector<nb::list>>
take_numbers(const nb::object& rows, std::size_t most, const std::vector<bool>& is_number) {
    const std::size_t n_columns = is_number.size();
    std::vector<std::int64_t> keys;
    std::vector<double> numbers;
    std::vector<std::int64_t> missing;
    std::vector<nb::list> others(n_columns);
    const nb::object iterator = nb::iter(rows);
    while (keys.size() < most) {
        const nb::object row = next_row(iterator);
        if (!row.is_valid()) break;
        if (width_of(row) != n_columns + 1) throw nb::value_error("a key and a value for each column");
        keys.push_back(to_key(value_at(row, 0)));
        for (std::size_t i = 0; i < n_columns; ++i) {
            const nb::handle value = value_at(row, i + 1);
            if (value.is_none()) missing.push_back(static_cast<std::int64_t>(numbers.size()));
            numbers.push_back(is_number[i] && !value.is_none() ? static_cast<double>(nb::float_(value)) : 0.0);
            if (!is_number[i]) others[i].append(value);
        }
    }
    return {to_numpy(keys), to_numpy(numbers), to_numpy(missing), others};
}

}  // namespace

void bind_sqlite_rows(nb::module_& m) {
    m.def("hash_rows", &hash_rows, nb::arg("rows"), nb::arg("salt"));
    m.def("take_numbers", &take_numbers, nb::arg("rows"), nb::arg("most"), nb::arg("is_number"));
}

}  // namespace dbanon
