#include "common/labels.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

namespace dbanon {

void group_labels(const std::int32_t* labels, std::size_t n, std::size_t n_classes,
                  std::int64_t* members, std::int64_t* starts) {
    std::fill(starts, starts + n_classes + 1, 0);
    for (std::size_t i = 0; i < n; ++i) {
        if (labels[i] >= 0) ++starts[labels[i] + 1];
    }
    for (std::size_t c = 0; c < n_classes; ++c) starts[c + 1] += starts[c];
    std::vector<std::int64_t> next(starts, starts + n_classes);
    for (std::size_t i = 0; i < n; ++i) {
        if (labels[i] >= 0) members[next[labels[i]]++] = static_cast<std::int64_t>(i);
    }
}

bool class_means(const Strided<double>& values, const GroupedMembers& classes, double* means) {
    // Members are scattered in memory: prefetch the values needed next.
    constexpr std::size_t kAhead = 24;
    std::vector<double> class_values;
    for (std::size_t c = 0; c < classes.n_classes; ++c) {
        const std::size_t first = classes.starts[c];
        const std::size_t size = classes.end(c) - first;
        class_values.resize(size);
        for (std::size_t i = first; i < first + size; ++i) {
            if (i + kAhead < classes.n) {
                __builtin_prefetch(values.data + classes.members[i + kAhead] * values.step);
            }
            class_values[i - first] = values[classes.members[i]];
        }
        const double tail_sum = pairwise_sum([&](std::size_t i) { return class_values[i]; }, 1, size - 1);
        const double mean = (class_values[0] + tail_sum) / static_cast<double>(size);
        if (!std::isfinite(mean)) return false;
        const auto [low, high] = std::minmax_element(class_values.begin(), class_values.end());
        means[c] = std::min(std::max(mean, *low), *high);
    }
    return true;
}

void integer_class_means(const std::int64_t* values, const GroupedMembers& classes, std::int64_t* means) {
    for (std::size_t c = 0; c < classes.n_classes; ++c) {
        const std::size_t first = classes.starts[c];
        const std::int64_t size = static_cast<std::int64_t>(classes.end(c) - first);
        // Separate quotients and remainders, so that no sum overflows. Intermediate results may
        // wrap around; the final one does not.
        std::uint64_t quotients = 0;
        std::int64_t remainders = 0;
        for (std::size_t i = first; i < classes.end(c); ++i) {
            const std::int64_t value = values[classes.members[i]];
            std::int64_t quotient = value / size, remainder = value % size;
            if (remainder < 0) {
                remainder += size;
                --quotient;
            }
            quotients += static_cast<std::uint64_t>(quotient);
            remainders += remainder;
        }
        quotients += static_cast<std::uint64_t>(remainders / size);
        remainders %= size;
        const bool up = 2 * remainders > size || (2 * remainders == size && quotients % 2 != 0);
        means[c] = static_cast<std::int64_t>(quotients + (up ? 1 : 0));
    }
}

Affine::Affine(int exponent, double shift, double scale)
    : exponent_(exponent),
      power_(exponent > -1000 && exponent < 1000 ? std::ldexp(1.0, -exponent) : 0.0),
      shift_(shift),
      scale_(scale) {}

Squares column_squares(const Strided<double>& values, const std::int32_t* labels,
                       const Strided<bool>& valid, const double* released, const double* other_released,
                       std::size_t n_classes, const Affine& standardize, bool total_about_zero) {
    std::vector<double> released_values(n_classes), other_values(other_released ? n_classes : 0);
    for (std::size_t c = 0; c < n_classes; ++c) {
        released_values[c] = standardize(released[c]);
        if (other_released) other_values[c] = standardize(other_released[c]);
    }
    const std::unique_ptr<double[]> points(new double[values.n]);
    const std::unique_ptr<std::int32_t[]> classes(new std::int32_t[values.n]);
    std::size_t n = 0;
    double low = 0.0, high = 0.0;
    for (std::size_t i = 0; i < values.n; ++i) {
        if (labels[i] < 0 || (valid.n && !valid[i])) continue;
        const double point = standardize(values[i]);
        low = n ? std::min(low, point) : point;
        high = n ? std::max(high, point) : point;
        points[n] = point;
        classes[n++] = labels[i];
    }
    const auto square = [](double x) { return x * x; };
    const auto sum_of_squares_about = [&](const std::vector<double>& centres) {
        const auto error = [&](std::size_t i) {
            return square(points[i] - centres[classes[i]]);
        };
        return n ? pairwise_sum(error, 0, n) : 0.0;
    };
    Squares squares{sum_of_squares_about(released_values), 0.0, 0.0};
    squares.other_error = other_released ? sum_of_squares_about(other_values) : squares.error;
    if (n && (total_about_zero || low != high)) {
        double mean = 0.0;
        if (!total_about_zero) {
            mean = pairwise_sum([&](std::size_t i) { return points[i]; }, 0, n);
            mean /= static_cast<double>(n);
        }
        squares.total =
            pairwise_sum([&](std::size_t i) { return square(points[i] - mean); }, 0, n);
    }
    return squares;
}

void shuffle(const std::uint64_t* words, std::size_t n, std::int64_t* order) {
    for (std::size_t i = 0; i < n; ++i) order[i] = static_cast<std::int64_t>(i);
    for (std::size_t i = n; i > 1; --i) {
        // A number below i from the upper and lower 32 bits of a word; i is below 2**32.
        const std::uint64_t upper = words[i - 1] >> 32, lower = words[i - 1] & 0xFFFFFFFF;
        const std::uint64_t chosen = (upper * i + ((lower * i) >> 32)) >> 32;
        std::swap(order[i - 1], order[chosen]);
    }
}

}  // namespace dbanon
