// Arrays with random access: large ones are aligned to huge pages, which saves TLB misses. resize()
// leaves new elements uninitialized.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace dbanon {

template <class T>
struct HugePageAllocator {
    using value_type = T;
    static constexpr std::size_t kHugePage = std::size_t{1} << 21;
    static constexpr std::size_t kCacheLine = 64;  // vector loads then stay within a cache line

    HugePageAllocator() = default;
    template <class U>
    HugePageAllocator(const HugePageAllocator<U>&) {}  // NOLINT: as the standard asks of allocators

    T* allocate(std::size_t n) {
        if (n > static_cast<std::size_t>(-1) / sizeof(T) / 2) throw std::bad_alloc();
        const std::size_t bytes = n * sizeof(T);
        // For less than two huge pages, rounding up would cost more than it gains.
        const std::size_t align = bytes < 2 * kHugePage ? kCacheLine : kHugePage;
        void* address = std::aligned_alloc(align, (bytes + align - 1) / align * align);
        if (address == nullptr) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
        // Only a hint: without huge pages everything works, more slowly.
        if (align == kHugePage) madvise(address, bytes, MADV_HUGEPAGE);
#endif
        return static_cast<T*>(address);
    }
    void deallocate(T* address, std::size_t) { std::free(address); }
    template <class U>
    void construct(U* address) {
        ::new (static_cast<void*>(address)) U;
    }
    template <class U, class... Args>
    void construct(U* address, Args&&... args) {
        ::new (static_cast<void*>(address)) U(std::forward<Args>(args)...);
    }
    friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }
};

template <class T>
using HugePageVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace dbanon
