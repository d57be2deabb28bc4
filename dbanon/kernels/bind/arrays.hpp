// Types of the arrays that functions accept from Python and return to it.
#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <memory>

namespace dbanon {

namespace nb = nanobind;

template <class Value>
using InputArray = nb::ndarray<const Value, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class Value>
using InputMatrix = nb::ndarray<const Value, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class Value>
using NumpyArray = nb::ndarray<nb::numpy, Value, nb::ndim<1>>;

// Record indices have 32 bits.
constexpr std::size_t kMaxRecords = std::size_t{1} << 31;

// A buffer that Python takes ownership of once it is filled.
template <class Value>
class Buffer {
   public:
    explicit Buffer(std::size_t n) : data_(new Value[n ? n : 1]), n_(n) {}
    Value* data() { return data_.get(); }
    NumpyArray<Value> to_python(std::size_t n) {
        Value* data = data_.release();
        const nb::capsule owner(data, [](void* pointer) noexcept { delete[] static_cast<Value*>(pointer); });
        return {data, {n}, owner};
    }
    NumpyArray<Value> to_python() { return to_python(n_); }

   private:
    std::unique_ptr<Value[]> data_;
    std::size_t n_;
};

}  // namespace dbanon
