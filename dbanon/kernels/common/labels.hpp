// Results computed column by column from the labels of all records.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dbanon {

// Values with a stride, such as a column of a table.
template <class Value>
struct Strided {
    const Value* data;
    std::ptrdiff_t step;
    std::size_t n;
    Value operator[](std::size_t i) const { return data[static_cast<std::ptrdiff_t>(i) * step]; }
};

// The sum of f(from) ... f(from + n - 1) by recursive halving, in the order in which numpy adds
// contiguous values, and so bit-identical.
template <class Function>
double pairwise_sum(const Function& f, std::size_t from, std::size_t n) {
    if (n < 8) {
        double sum = -0.0;
        for (std::size_t i = 0; i < n; ++i) sum += f(from + i);
        return sum;
    }
    if (n <= 128) {
        double partial[8];
        for (std::size_t j = 0; j < 8; ++j) partial[j] = f(from + j);
        std::size_t i = 8;
        for (; i < n - n % 8; i += 8) {
            for (std::size_t j = 0; j < 8; ++j) partial[j] += f(from + i + j);
        }
        double sum = ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
                     ((partial[4] + partial[5]) + (partial[6] + partial[7]));
        for (; i < n; ++i) sum += f(from + i);
        return sum;
    }
    std::size_t half = n / 2;
    half -= half % 8;
    return pairwise_sum(f, from, half) + pairwise_sum(f, from + half, n - half);
}

// Classes with contiguous members: in record order within a class, and the start of each class.
struct GroupedMembers {
    const std::int64_t* members;
    std::size_t n;
    const std::int64_t* starts;
    std::size_t n_classes;
    std::size_t end(std::size_t c) const {
        return c + 1 < n_classes ? static_cast<std::size_t>(starts[c + 1]) : n;
    }
};

// members must have room for all labels of at least 0; starts has one more element than there are
// classes.
void group_labels(const std::int32_t* labels, std::size_t n, std::size_t n_classes,
                  std::int64_t* members, std::int64_t* starts);

// Computes the mean of each class, clamped to its range. False if a sum overflows.
bool class_means(const Strided<double>& values, const GroupedMembers& classes, double* means);

// The same for integers, rounded half to even, in exact arithmetic.
void integer_class_means(const std::int64_t* values, const GroupedMembers& classes, std::int64_t* means);

// Standardizes values: x -> (x * 2**-exponent - shift) / scale; 0 if scale is 0.
class Affine {
   public:
    Affine(int exponent, double shift, double scale);
    double operator()(double value) const {
        if (scale_ == 0.0) return 0.0;
        const double small = power_ > 0.0 ? value * power_ : std::ldexp(value, -exponent_);
        return (small - shift_) / scale_;
    }

   private:
    int exponent_;
    double power_;  // 2**-exponent, or 0 if that is not a normal number
    double shift_, scale_;
};

// Sums of squares of standardized values: about the released values, and about their mean.
struct Squares {
    double error, other_error, total;
};

// valid: empty if all values count. other_released: null, or other released values by class.
// total_about_zero: compute the total about 0 instead of the mean.
Squares column_squares(const Strided<double>& values, const std::int32_t* labels,
                       const Strided<bool>& valid, const double* released, const double* other_released,
                       std::size_t n_classes, const Affine& standardize, bool total_about_zero);

// 0 ... n - 1 in random order, from n random words of 64 bits.
void shuffle(const std::uint64_t* words, std::size_t n, std::int64_t* order);

}  // namespace dbanon
