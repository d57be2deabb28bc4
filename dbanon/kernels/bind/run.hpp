// A kernel as a Python object.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>
#include <stdexcept>

#include "common/kernel.hpp"

namespace dbanon {

namespace nb = nanobind;

using Points = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>>;

// A kernel and the array that it reads, which must live as long. The array is empty if the kernel
// copies its input.
class KernelRun {
   public:
    KernelRun(Points points, std::unique_ptr<Kernel> kernel)
        : points_(std::move(points)), kernel_(std::move(kernel)) {}

    bool step(std::int64_t budget, int threads) {
        if (budget < 1) throw nb::value_error("budget must be at least 1");
        if (threads < 1) throw nb::value_error("threads must be at least 1");
        const nb::gil_scoped_release release;
        return kernel_->step(budget, threads);
    }
    double progress() {
        const nb::gil_scoped_release release;
        return kernel_->progress();
    }
    Labels labels() {
        bool done = false;
        {
            const nb::gil_scoped_release release;
            done = kernel_->done();
        }
        if (!done) throw std::runtime_error("labels() before step() has returned True");
        auto copy = std::make_unique<std::vector<std::int32_t>>(kernel_->labels());
        std::int32_t* data = copy->data();
        const std::size_t size = copy->size();
        const nb::capsule owner(copy.get(), [](void* pointer) noexcept {
            delete static_cast<std::vector<std::int32_t>*>(pointer);
        });
        copy.release();
        return Labels(data, {size}, owner);
    }

   private:
    Points points_;
    std::unique_ptr<Kernel> kernel_;
};

// Base of runs that give access to further results of a finished kernel.
template <class KernelType>
class ResultRun : public KernelRun {
   protected:
    ResultRun(const Points& points, KernelType* kernel)
        : KernelRun(points, std::unique_ptr<Kernel>(kernel)), kernel_(kernel) {}

    KernelType& finished_kernel() {
        bool done = false;
        {
            const nb::gil_scoped_release release;
            done = kernel_->done();
        }
        if (!done) throw std::runtime_error("results before step() has returned True");
        return *kernel_;
    }

   private:
    KernelType* kernel_;  // owned by KernelRun
};

}  // namespace dbanon
