#include "points/class_pools.hpp"

#include <algorithm>
#include <cmath>

#include "points/dispatch.hpp"
#include "points/distance.hpp"

namespace dbanon {

ClassPools::ClassPools(const Table& table, std::int32_t k, const std::int32_t* labels,
                       std::unique_ptr<PairDistances> pair_distances)
    : Kernel(table, k),
      max_class_size_(2 * k - 1),
      class_of_(labels, labels + table.n),
      pool_(pair_distances ? 0 : table.p, k, ops_for(pair_distances ? 1 : table.p)),
      pair_distances_(std::move(pair_distances)) {}

void ClassPools::add_classes() {
    const std::size_t max_classes = static_cast<std::size_t>(table_.n / k_);
    members_.resize(max_classes * static_cast<std::size_t>(max_class_size_));
    size_.assign(max_classes, 0);
    loss_.assign(max_classes, 0.0);
    for (std::size_t class_id = max_classes; class_id-- > 0;) free_class_ids_.push_back(static_cast<std::int32_t>(class_id));
    std::vector<Members> initial_classes(max_classes);
    for (std::int32_t id = 0; id < table_.n; ++id) {
        initial_classes[static_cast<std::size_t>(class_of(id))].push_back(id);
    }
    std::vector<Members> pending_classes;
    for (Members& ids : initial_classes) {
        if (!ids.empty()) pending_classes.push_back(std::move(ids));
        while (!pending_classes.empty()) {
            Members members_to_add = std::move(pending_classes.back());
            pending_classes.pop_back();
            if (static_cast<std::int32_t>(members_to_add.size()) <= max_class_size_) {
                add_class(members_to_add);
                continue;
            }
            Members split_off = pair_distances_ ? split_by_distances(members_to_add) : split(members_to_add);
            pending_classes.push_back(std::move(split_off));
            pending_classes.push_back(std::move(members_to_add));
        }
    }
}

void ClassPools::add_class(const Members& ids) {
    const std::int32_t class_id = free_class_ids_.back();
    free_class_ids_.pop_back();
    size(class_id) = static_cast<std::int32_t>(ids.size());
    std::copy(ids.begin(), ids.end(), members(class_id));
    for (const std::int32_t id : ids) class_of(id) = class_id;
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
        double largest = -1.0;
        const double* farthest = nullptr;
        for (const std::int32_t id : ids) {
            const double squared = distance(from, table_.row(id), p);
            if (squared > largest) largest = squared, farthest = table_.row(id);
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
    double largest_gain = -1.0;
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
        if (left >= k_ && gain > largest_gain) largest_gain = gain, cut = left;
    }
    ids.clear();
    Members split_off;
    for (std::int32_t i = 0; i < size; ++i) {
        (i < cut ? ids : split_off).push_back(order[static_cast<std::size_t>(i)].second);
    }
    return split_off;
}

// The same without coordinates: a record's position on the line between two records is half of the
// difference of its squared distances to both, divided by their distance.
ClassPools::Members ClassPools::split_by_distances(Members& ids) const {
    const std::int32_t size = static_cast<std::int32_t>(ids.size());
    std::vector<double> to_r(ids.size()), to_s(ids.size());
    const auto farthest = [&](std::int32_t from) {
        pair_distances_->fill_row(from, ids.data(), size, to_r.data());
        return ids[static_cast<std::size_t>(
            std::max_element(to_r.begin(), to_r.end()) - to_r.begin())];
    };
    const std::int32_t r = farthest(ids[0]), s = farthest(r);
    pair_distances_->fill_row(s, ids.data(), size, to_s.data());
    std::vector<std::pair<double, std::int32_t>> order;
    double mean = 0.0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        order.emplace_back(to_r[i] - to_s[i], ids[i]);
        mean += (to_r[i] - to_s[i]) / size;
    }
    std::sort(order.begin(), order.end());
    double sum = 0.0, largest_gain = -1.0;
    std::int32_t cut = k_;
    for (std::int32_t left = 1; left <= size - k_; ++left) {
        sum += order[static_cast<std::size_t>(left - 1)].first - mean;
        const double gain = sum * sum / left + sum * sum / (size - left);
        if (left >= k_ && gain > largest_gain) largest_gain = gain, cut = left;
    }
    ids.clear();
    Members split_off;
    for (std::int32_t i = 0; i < size; ++i) {
        (i < cut ? ids : split_off).push_back(order[static_cast<std::size_t>(i)].second);
    }
    return split_off;
}

void ClassPools::fill_pool() {
    pool_records_.clear();
    for (const std::int32_t class_id : pool_classes_) {
        pool_records_.insert(pool_records_.end(), members(class_id), members(class_id) + size(class_id));
    }
    pool_.start(static_cast<std::int32_t>(pool_records_.size()));
    for (std::size_t part = 0; part < pool_classes_.size(); ++part) {
        const std::int32_t class_id = pool_classes_[part];
        for (std::int32_t i = 0; i < size(class_id); ++i) {
            if (pair_distances_) {
                pool_.add(static_cast<std::int32_t>(part));
            } else {
                pool_.add(table_.row(members(class_id)[i]), static_cast<std::int32_t>(part));
            }
        }
    }
    if (!pair_distances_) return pool_.finish();
    pair_distances_->fill_pairwise(pool_records_.data(), pool_.n_records(), pool_.stride(), pool_.distance_rows());
    pool_.finish(pair_distances_->cost_per_distance());
}

void ClassPools::write_back() {
    const std::size_t parts = static_cast<std::size_t>(pool_.n_classes());
    for (const std::int32_t class_id : pool_classes_) size(class_id) = 0;
    for (; pool_classes_.size() > parts; pool_classes_.pop_back()) free_class_ids_.push_back(pool_classes_.back());
    for (; pool_classes_.size() < parts; free_class_ids_.pop_back()) pool_classes_.push_back(free_class_ids_.back());
    for (std::int32_t x = 0; x < pool_.n_records(); ++x) {
        const std::int32_t id = pool_records_[static_cast<std::size_t>(x)];
        const std::int32_t class_id = pool_classes_[static_cast<std::size_t>(pool_.class_of(x))];
        class_of(id) = class_id;
        members(class_id)[size(class_id)++] = id;
    }
    for (std::size_t part = 0; part < parts; ++part) {
        loss(pool_classes_[part]) = pool_.loss(static_cast<std::int32_t>(part));
    }
}

// Classes are numbered by their first records.
void ClassPools::number_classes() {
    std::vector<std::int32_t> number(size_.size(), -1);
    std::int32_t next_label = 0;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        std::int32_t& label = number[static_cast<std::size_t>(class_of(id))];
        if (label < 0) label = next_label++;
        assign(id, label);
    }
}

}  // namespace dbanon
