#include "points/density.hpp"

#include <algorithm>
#include <bit>

namespace dbanon {

Density::Density(const Table& table, std::int32_t k, bool lowest_first, Search search)
    : SequentialKernel(table, k, search),
      lowest_first_(lowest_first),
      max_neighbours_(k - 1 + std::clamp(k - 1, 4, 16)),
      neighbour_lists_(table.n, max_neighbours_),
      list_length_(table.n, 0),
      version_(table.n, -1),
      next_equal_row_(table.n, -1),
      last_equal_row_(table.n, -1),
      slots_(std::bit_ceil(2 * static_cast<std::size_t>(table.n)), -1),
      holders_(table.n),
      is_marked_(table.n, false),
      mean_(table.p) {}

// For a heap whose top is the next candidate: smaller indexes come first among equals.
bool Density::comes_after(const Entry& a, const Entry& b) const {
    if (a.sum_of_squares != b.sum_of_squares) return lowest_first_ ? a.sum_of_squares < b.sum_of_squares : a.sum_of_squares > b.sum_of_squares;
    return a.id > b.id;
}

bool Density::same_row(std::int32_t a, std::int32_t b) const {
    return std::equal(table_.row(a), table_.row(a) + table_.p, table_.row(b));
}

// Whether the last query found different rows at distance 0: their squares underflow, and
// candidates of equal rows may differ.
bool Density::has_underflow(std::int32_t id) const {
    for (std::int32_t i = 0; i < near_.count && near_.results[i].distance == 0.0; ++i) {
        if (!same_row(near_.results[i].id, id)) return true;
    }
    return false;
}

// Records are linked in index order, so a chain ascends and its head comes first.
void Density::add_to_equal_rows(std::int32_t id) {
    const std::size_t p = mean_.size();
    std::uint64_t hash = 0;
    for (std::size_t j = 0; j < p; ++j) {
        // Adding zero turns -0.0, which equals 0.0, into it.
        const double value = table_.row(id)[j] + 0.0;
        hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at] >= 0 && !same_row(slots_[at], id)) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at] < 0) {
        slots_[at] = id;
        version_[id] = 0;
    } else {
        next_equal_row_[last_equal_row_[slots_[at]]] = id;
    }
    last_equal_row_[slots_[at]] = id;
}

// Drops removed neighbours; returns how many of the candidate remain.
std::int32_t Density::drop_assigned(std::int32_t id) {
    std::int32_t* from = neighbours(id);
    const auto is_removed = [&](std::int32_t other) { return is_assigned(other); };
    std::int32_t& length = list_length_[id];
    const std::int32_t size = std::min(length, k_ - 1);
    const std::int32_t n_remaining = size - static_cast<std::int32_t>(std::count_if(from, from + size, is_removed));
    length = static_cast<std::int32_t>(std::remove_if(from, from + length, is_removed) - from);
    return n_remaining;
}

void Density::store_neighbours(std::int32_t id) {
    near_.sort();
    std::int32_t& length = list_length_[id];
    length = near_.count;
    for (std::int32_t i = 0; i < length; ++i) neighbours(id)[i] = near_.results[i].id;
}

// Computes the density of a record's candidate. The first `n_remaining` neighbours were already in
// the previous candidate: removals keep their order.
void Density::rate_candidate(std::int32_t id, std::int32_t n_remaining) {
    const std::size_t p = mean_.size();
    const std::int32_t* neighbour_ids = neighbours(id);
    mean_.assign(table_.row(id), table_.row(id) + p);
    for (std::int32_t i = 0; i + 1 < k_; ++i) {
        const double* row = table_.row(neighbour_ids[i]);
        for (std::size_t j = 0; j < p; ++j) mean_[j] += row[j];
    }
    for (double& value : mean_) value /= k_;
    double sum_of_squares = 0.0;
    for (std::int32_t i = -1; i + 1 < k_; ++i) {
        const double* row = table_.row(i < 0 ? id : neighbour_ids[i]);
        double squared = 0.0;
        for (std::size_t j = 0; j < p; ++j) {
            const double gap = mean_[j] - row[j];
            squared += gap * gap;
        }
        sum_of_squares += squared;
    }
    for (std::int32_t i = n_remaining; i + 1 < k_; ++i) {
        holders_[neighbour_ids[i]].push_back(id);
    }
    const std::int32_t version = ++version_[id];
    heap_.push_back({sum_of_squares, id, version});
    std::push_heap(heap_.begin(), heap_.end(),
                   [&](const Entry& a, const Entry& b) { return comes_after(a, b); });
}

// The records whose candidates contain a record that was just taken, and the next record with the
// same row if it was the first.
void Density::mark_affected_candidates(std::int32_t removed) {
    if (is_first_of_row(removed)) {
        std::int32_t next = next_equal_row_[removed];
        while (next >= 0 && is_assigned(next)) next = next_equal_row_[next];
        if (next >= 0 && !is_first_of_row(next)) {
            version_[next] = 0;
            is_marked_[next] = true;
            candidates_to_rate_.push_back(next);
        }
    }
    for (const std::int32_t id : holders_[removed]) {
        if (is_assigned(id) || is_marked_[id]) continue;
        is_marked_[id] = true;
        candidates_to_rate_.push_back(id);
    }
    holders_[removed] = {};
}

Coroutine Density::run() {
    const auto order = [&](const Entry& a, const Entry& b) { return comes_after(a, b); };
    const std::int64_t work_per_rating = block_cost(table_.p) + k_;
    while (!records_->prepare(work_)) co_yield nullptr;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (work_.is_spent()) co_yield nullptr;
        work_.left -= 4;
        add_to_equal_rows(id);
    }
    // A second pass over the records that are not the first with their row, only if rows are
    // blurred.
    bool rate_each_record = false;
    for (int pass = 0; pass == 0 || (pass == 1 && rate_each_record); ++pass) {
        for (std::int32_t id = 0; id < table_.n; ++id) {
            if (is_first_of_row(id) != (pass == 0)) continue;
            near_.start(table_.row(id), max_neighbours_, id);
            records_->begin(near_);
            while (!records_->nearest(near_, work_)) co_yield nullptr;
            version_[id] = 0;
            store_neighbours(id);
            rate_each_record = rate_each_record || has_underflow(id);
            rate_candidate(id, 0);
            work_.left -= work_per_rating;
        }
    }
    std::int32_t label = 0;
    std::vector<std::int32_t> members;
    for (; records_->size() >= k_; ++label) {
        while (!records_->prepare(work_)) co_yield nullptr;
        Entry top;
        do {
            top = heap_.front();
            std::pop_heap(heap_.begin(), heap_.end(), order);
            heap_.pop_back();
        } while (is_assigned(top.id) || top.version != version_[top.id]);
        members.assign(1, top.id);
        members.insert(members.end(), neighbours(top.id), neighbours(top.id) + k_ - 1);
        for (const std::int32_t id : members) take(id, label);
        if (records_->size() < k_) continue;
        candidates_to_rate_.clear();
        for (const std::int32_t id : members) mark_affected_candidates(id);
        for (const std::int32_t id : candidates_to_rate_) {
            is_marked_[id] = false;
            const std::int32_t n_remaining = drop_assigned(id);
            if (list_length_[id] < k_ - 1) {
                near_.start(table_.row(id), max_neighbours_, id);
                records_->begin(near_);
                while (!records_->nearest(near_, work_)) co_yield nullptr;
                store_neighbours(id);
            }
            rate_candidate(id, n_remaining);
            work_.left -= work_per_rating;
            if (work_.is_spent()) co_yield nullptr;
        }
    }
    begin_leftovers();
    while (!assign_leftovers(work_)) co_yield nullptr;
}

}  // namespace dbanon
