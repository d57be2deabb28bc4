#include "points/class_pools.hpp"

#include <algorithm>
#include <cmath>

#include "points/dispatch.hpp"
#include "points/distance.hpp"

namespace dbanon {

ClassPools::ClassPools(const Table& table, std::int32_t k, const std::int32_t* labels,
                       std::unique_ptr<Apart> apart)
    : Kernel(table, k),
      room_(2 * k - 1),
      class_of_(labels, labels + table.n),
      pool_(apart ? 0 : table.p, k, ops_for(apart ? 1 : table.p)),
      apart_(std::move(apart)) {}

void ClassPools::add_classes() {
    const std::size_t most = static_cast<std::size_t>(table_.n / k_);
    members_.resize(most * static_cast<std::size_t>(room_));
    size_.assign(most, 0);
    loss_.assign(most, 0.0);
    for (std::size_t at = most; at-- > 0;) unused_.push_back(static_cast<std::int32_t>(at));
    std::vector<Members> pools(most);
    for (std::int32_t id = 0; id < table_.n; ++id) {
        pools[static_cast<std::size_t>(class_of(id))].push_back(id);
    }
    std::vector<Members> waiting;
    for (Members& ids : pools) {
        if (!ids.empty()) waiting.push_back(std::move(ids));
        while (!waiting.empty()) {
            Members next = std::move(waiting.back());
            waiting.pop_back();
            if (static_cast<std::int32_t>(next.size()) <= room_) {
                add_class(next);
                continue;
            }
            Members second = apart_ ? split_apart(next) : split(next);
            waiting.push_back(std::move(second));
            waiting.push_back(std::move(next));
        }
    }
}

void ClassPools::add_class(const Members& ids) {
    const std::int32_t at = unused_.back();
    unused_.pop_back();
    size(at) = static_cast<std::int32_t>(ids.size());
    std::copy(ids.begin(), ids.end(), members(at));
    for (const std::int32_t id : ids) class_of(id) = at;
}

// Splits 2k or more records where the sum of squares decreases most, along the line between two
// distant records; returns the part split off.
ClassPools::Members ClassPools::split(Members& ids) const {
    const int p = table_.p;
    const double n = static_cast<double>(ids.size());
    std::vector<double> mean(static_cast<std::size_t>(p), 0.0);
    for (const std::int32_t id : ids) {
        for (int j = 0; j < p; ++j) mean[static_cast<std::size_t>(j)] += table_.row(id)[j] / n;
    }
    const auto farthest = [&](const double* from) {
        double most = -1.0;
        const double* farthest = nullptr;
        for (const std::int32_t id : ids) {
            const double at = distance(from, table_.row(id), p);
            if (at > most) most = at, farthest = table_.row(id);
        }
        return farthest;
    };
    const double* r = farthest(mean.data());
    const double* s = farthest(r);
    std::vector<std::pair<double, std::int32_t>> order;
    for (const std::int32_t id : ids) {
        const double key = distance(table_.row(id), r, p) - distance(table_.row(id), s, p);
        order.emplace_back(std::isnan(key) ? 0.0 : key, id);
    }
    std::sort(order.begin(), order.end());
    const std::int32_t size = static_cast<std::int32_t>(order.size());
    std::vector<double> sum(static_cast<std::size_t>(p), 0.0);
    double most = -1.0;
    std::int32_t cut = k_;
    for (std::int32_t left = 1; left <= size - k_; ++left) {
        const double* row = table_.row(order[static_cast<std::size_t>(left - 1)].second);
        double square = 0.0;
        for (int j = 0; j < p; ++j) {
            double& total = sum[static_cast<std::size_t>(j)];
            total += row[j] - mean[static_cast<std::size_t>(j)];
            square += total * total;
        }
        const double gain = square / left + square / (size - left);
        if (left >= k_ && gain > most) most = gain, cut = left;
    }
    ids.clear();
    Members second;
    for (std::int32_t i = 0; i < size; ++i) {
        (i < cut ? ids : second).push_back(order[static_cast<std::size_t>(i)].second);
    }
    return second;
}

// The same without coordinates: a record's position on the line between two records is half of the
// difference of its squared distances to both, divided by their distance.
ClassPools::Members ClassPools::split_apart(Members& ids) const {
    const std::int32_t size = static_cast<std::int32_t>(ids.size());
    std::vector<double> to_r(ids.size()), to_s(ids.size());
    const auto farthest = [&](std::int32_t from) {
        apart_->from(from, ids.data(), size, to_r.data());
        return ids[static_cast<std::size_t>(
            std::max_element(to_r.begin(), to_r.end()) - to_r.begin())];
    };
    const std::int32_t r = farthest(ids[0]), s = farthest(r);
    apart_->from(s, ids.data(), size, to_s.data());
    std::vector<std::pair<double, std::int32_t>> order;
    double mean = 0.0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        order.emplace_back(to_r[i] - to_s[i], ids[i]);
        mean += (to_r[i] - to_s[i]) / size;
    }
    std::sort(order.begin(), order.end());
    double sum = 0.0, most = -1.0;
    std::int32_t cut = k_;
    for (std::int32_t left = 1; left <= size - k_; ++left) {
        sum += order[static_cast<std::size_t>(left - 1)].first - mean;
        const double gain = sum * sum / left + sum * sum / (size - left);
        if (left >= k_ && gain > most) most = gain, cut = left;
    }
    ids.clear();
    Members second;
    for (std::int32_t i = 0; i < size; ++i) {
        (i < cut ? ids : second).push_back(order[static_cast<std::size_t>(i)].second);
    }
    return second;
}

void ClassPools::fill_pool() {
    pooled_.clear();
    for (const std::int32_t at : chosen_) {
        pooled_.insert(pooled_.end(), members(at), members(at) + size(at));
    }
    pool_.start(static_cast<std::int32_t>(pooled_.size()));
    for (std::size_t part = 0; part < chosen_.size(); ++part) {
        const std::int32_t at = chosen_[part];
        for (std::int32_t i = 0; i < size(at); ++i) {
            if (apart_) {
                pool_.add(static_cast<std::int32_t>(part));
            } else {
                pool_.add(table_.row(members(at)[i]), static_cast<std::int32_t>(part));
            }
        }
    }
    if (!apart_) return pool_.finish();
    apart_->pairs(pooled_.data(), pool_.records(), pool_.stride(), pool_.written());
    pool_.finish(apart_->price());
}

void ClassPools::write_back() {
    const std::size_t parts = static_cast<std::size_t>(pool_.parts());
    for (const std::int32_t at : chosen_) size(at) = 0;
    for (; chosen_.size() > parts; chosen_.pop_back()) unused_.push_back(chosen_.back());
    for (; chosen_.size() < parts; unused_.pop_back()) chosen_.push_back(unused_.back());
    for (std::int32_t x = 0; x < pool_.records(); ++x) {
        const std::int32_t id = pooled_[static_cast<std::size_t>(x)];
        const std::int32_t at = chosen_[static_cast<std::size_t>(pool_.part(x))];
        class_of(id) = at;
        members(at)[size(at)++] = id;
    }
    for (std::size_t part = 0; part < parts; ++part) {
        loss(chosen_[part]) = pool_.loss(static_cast<std::int32_t>(part));
    }
}

// Classes are numbered by their first records.
void ClassPools::number_classes() {
    std::vector<std::int32_t> number(size_.size(), -1);
    std::int32_t next = 0;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        std::int32_t& label = number[static_cast<std::size_t>(class_of(id))];
        if (label < 0) label = next++;
        assign(id, label);
    }
}

}  // namespace dbanon
