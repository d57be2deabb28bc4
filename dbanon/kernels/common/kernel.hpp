// Base of all kernels: they run in slices of work, report progress and produce labels.
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "common/table.hpp"

namespace dbanon {

// The coroutine of a method: it yields when its slice of work is spent.
class Coroutine {
   public:
    struct promise_type {
        std::exception_ptr error;
        Coroutine get_return_object() {
            return Coroutine(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(std::nullptr_t) noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { error = std::current_exception(); }
    };

    Coroutine() = default;
    Coroutine(Coroutine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Coroutine& operator=(Coroutine&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Coroutine() {
        if (handle_) handle_.destroy();
    }
    bool is_started() const { return static_cast<bool>(handle_); }
    // Runs the next slice; true if the method is finished.
    bool resume() {
        if (!handle_.done()) handle_.resume();
        if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
        return handle_.done();
    }

   private:
    explicit Coroutine(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
    std::coroutine_handle<promise_type> handle_;
};

class Kernel {
   public:
    Kernel(const Table& table, std::int32_t k)
        : table_(table), k_(k), labels_(table.n, -1) {}
    virtual ~Kernel() = default;
    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

    // Runs one slice with this budget of work; true if the labels are complete. Thread-safe:
    // concurrent calls are serialized. Kernels that can use `n_threads` threads spend the budget in each.
    bool step(std::int64_t budget, int n_threads = 1) {
        const std::lock_guard lock(mutex_);
        if (!coroutine_.is_started()) coroutine_ = run();
        work_ = {budget, n_threads};
        done_ = coroutine_.resume();
        return done_;
    }
    double progress() {
        const std::lock_guard lock(mutex_);
        return done_ ? 1.0 : fraction_done();
    }
    bool done() {
        const std::lock_guard lock(mutex_);
        return done_;
    }
    const std::vector<std::int32_t>& labels() const { return labels_; }

   protected:
    virtual Coroutine run() = 0;
    // The value of progress() before the end, below 1.
    virtual double fraction_done() const { return static_cast<double>(n_assigned_) / (table_.n + 1.0); }

    void assign(std::int32_t id, std::int32_t label) {
        labels_[id] = label;
        ++n_assigned_;
    }
    bool is_assigned(std::int32_t id) const { return labels_[id] >= 0; }
    // Assigns all remaining records to one class.
    void assign_remaining(std::int32_t label) {
        for (std::int32_t id = 0; id < table_.n; ++id) {
            if (!is_assigned(id)) assign(id, label);
        }
    }

    const Table table_;
    const std::int32_t k_;
    std::vector<std::int32_t> labels_;
    Work work_{0};

   private:
    std::mutex mutex_;
    Coroutine coroutine_;
    std::int32_t n_assigned_ = 0;
    bool done_ = false;
};

}  // namespace dbanon
