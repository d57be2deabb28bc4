#include "density.hpp"

#include <algorithm>

namespace dbanon {

Density::Density(const Table& table, std::int32_t k, bool lowest, Search search)
    : TakingKernel(table, k, search),
      lowest_(lowest),
      room_(k - 1 + std::clamp(k - 1, 4, 16)),
      lists_(static_cast<std::size_t>(table.n) * static_cast<std::size_t>(room_)),
      length_(static_cast<std::size_t>(table.n), 0),
      version_(static_cast<std::size_t>(table.n), 0),
      holders_(static_cast<std::size_t>(table.n)),
      marked_(static_cast<std::size_t>(table.n), false),
      mean_(static_cast<std::size_t>(table.p)) {}

// For a heap whose top is the next candidate: smaller indexes come first among equals.
bool Density::after(const Entry& a, const Entry& b) const {
    if (a.within != b.within) return lowest_ ? a.within < b.within : a.within > b.within;
    return a.id > b.id;
}

// Drops neighbours that are gone; false when too few are left.
bool Density::shorten(std::int32_t id) {
    std::int32_t* from = list(id);
    std::int32_t& length = length_[static_cast<std::size_t>(id)];
    length = static_cast<std::int32_t>(
        std::remove_if(from, from + length, [&](std::int32_t other) { return assigned(other); }) -
        from);
    return length >= k_ - 1;
}

void Density::look_up(std::int32_t id) {
    near_.sort();
    std::int32_t& length = length_[static_cast<std::size_t>(id)];
    length = near_.count;
    for (std::int32_t i = 0; i < length; ++i) list(id)[i] = near_.found[i].id;
}

void Density::rate(std::int32_t id) {
    const std::size_t p = mean_.size();
    const std::int32_t* others = list(id);
    mean_.assign(table_.row(id), table_.row(id) + p);
    for (std::int32_t i = 0; i + 1 < k_; ++i) {
        const double* row = table_.row(others[i]);
        for (std::size_t j = 0; j < p; ++j) mean_[j] += row[j];
    }
    for (double& value : mean_) value /= k_;
    double within = 0.0;
    for (std::int32_t i = -1; i + 1 < k_; ++i) {
        const double* row = table_.row(i < 0 ? id : others[i]);
        double squared = 0.0;
        for (std::size_t j = 0; j < p; ++j) {
            const double gap = mean_[j] - row[j];
            squared += gap * gap;
        }
        within += squared;
    }
    for (std::int32_t i = 0; i + 1 < k_; ++i) {
        std::vector<std::int32_t>& holders = holders_[static_cast<std::size_t>(others[i])];
        if (std::find(holders.begin(), holders.end(), id) == holders.end()) holders.push_back(id);
    }
    const std::int32_t version = ++version_[static_cast<std::size_t>(id)];
    heap_.push_back({within, id, version});
    std::push_heap(heap_.begin(), heap_.end(),
                   [&](const Entry& a, const Entry& b) { return after(a, b); });
}

// The holders of a record that has just been taken.
void Density::collect(std::int32_t gone) {
    for (const std::int32_t id : holders_[static_cast<std::size_t>(gone)]) {
        if (assigned(id) || marked_[static_cast<std::size_t>(id)]) continue;
        marked_[static_cast<std::size_t>(id)] = true;
        hit_.push_back(id);
    }
    holders_[static_cast<std::size_t>(gone)] = {};
}

Steps Density::run() {
    const auto order = [&](const Entry& a, const Entry& b) { return after(a, b); };
    const std::int64_t price = block_cost(table_.p) + k_;
    while (!records_->prepare(work_)) co_yield nullptr;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        near_.start(table_.row(id), room_, id);
        records_->begin(near_);
        while (!records_->nearest(near_, work_)) co_yield nullptr;
        look_up(id);
        rate(id);
        work_.left -= price;
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
        } while (assigned(top.id) || top.version != version_[static_cast<std::size_t>(top.id)]);
        members.assign(1, top.id);
        members.insert(members.end(), list(top.id), list(top.id) + k_ - 1);
        for (const std::int32_t id : members) take(id, label);
        if (records_->size() < k_) continue;
        hit_.clear();
        for (const std::int32_t id : members) collect(id);
        for (const std::int32_t id : hit_) {
            marked_[static_cast<std::size_t>(id)] = false;
            if (!shorten(id)) {
                near_.start(table_.row(id), room_, id);
                records_->begin(near_);
                while (!records_->nearest(near_, work_)) co_yield nullptr;
                look_up(id);
            }
            rate(id);
            work_.left -= price;
            if (work_.spent()) co_yield nullptr;
        }
    }
    begin_settling();
    while (!settle(work_)) co_yield nullptr;
}

}  // namespace dbanon
