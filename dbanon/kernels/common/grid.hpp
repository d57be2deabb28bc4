// A flat matrix with access by row.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <vector>

namespace dbanon {

template <class T>
class Grid {
   public:
    explicit Grid(std::size_t width = 0) : width_(width) {}
    Grid(std::size_t rows, std::size_t width, T value = T())
        : width_(width), values_(rows * width, value) {}

    std::size_t width() const { return width_; }
    template <std::integral Index>
    T* row(Index i) {
        return values_.data() + static_cast<std::size_t>(i) * width_;
    }
    template <std::integral Index>
    const T* row(Index i) const {
        return values_.data() + static_cast<std::size_t>(i) * width_;
    }
    // All values, row by row.
    const std::vector<T>& values() const { return values_; }

    // New rows hold T().
    void resize(std::size_t rows) { values_.resize(rows * width_); }
    // Replaces the matrix.
    void assign(std::size_t rows, std::size_t width, T value = T()) {
        width_ = width;
        values_.assign(rows * width, value);
    }
    // `row` must not point into this matrix.
    void add(const T* row) { values_.insert(values_.end(), row, row + width_); }
    // Copies row `from` over row `to`.
    void copy(std::size_t from, std::size_t to) { std::copy_n(row(from), width_, row(to)); }

   private:
    std::size_t width_;
    std::vector<T> values_;
};

}  // namespace dbanon
