// One round of the search: dissolve the classes of a pool, rebuild them, and accept improvements.
#include <limits>

#include "mixed/refine_loss.hpp"
#include "mixed/swaps.hpp"

namespace dbanon {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// A penalty for merging clusters without reducing what they lack; large, but not infinite.
constexpr double kLeastLack = 1.0 / 16;

}  // namespace

RefineLoss::Pool::Pool(const MixedTable& table, const std::vector<LabelCosts>& costs,
                       std::size_t largest, std::size_t cells)
    : most(largest),
      shapes(table, costs),
      without_shape(most),
      moved_shape(most + 1),
      counts_(most, cells) {
    shapes.resize(std::max(most + 2, Swaps::n_shapes(most / 2)));
}

void RefineLoss::Pool::join(std::int32_t i, std::int32_t j) {
    const std::size_t a = i, b = j;
    shapes.merge(a, b);
    std::transform(counts(a), counts(a) + counts_.width(), counts(b), counts(a), std::plus<>());
    for (Entry& entry : entries) {
        if (entry.owner == j) entry.owner = i;
    }
    alive_clusters.erase(std::find(alive_clusters.begin(), alive_clusters.end(), j));
}

void RefineLoss::Pool::leave_out(std::size_t e) {
    bool empty = true;
    for (std::size_t other = 0; other < entries.size(); ++other) {
        const Entry& entry = entries[other];
        if (other == e || entry.owner != entries[e].owner || entry.count == 0) continue;
        if (empty) {
            shapes.set(without_shape, entry.tuple, entry.count);
        } else {
            shapes.add(without_shape, entry.tuple, entry.count);
        }
        empty = false;
    }
}

void RefineLoss::gather() {
    pool_.entries.clear();
    for (const std::int32_t c : pool_.classes) {
        for (const auto& [tuple, copies] : class_tuples_.classes[c].tuples) {
            std::int32_t& slot = entry_of_tuple_[tuple];
            if (slot < 0) {
                slot = static_cast<std::int32_t>(pool_.entries.size());
                pool_.entries.push_back({tuple, 0, slot});
            }
            pool_.entries[slot].count += copies;
        }
    }
    pool_.clusters.clear();
    pool_.alive_clusters.clear();
    for (std::size_t e = 0; e < pool_.entries.size(); ++e) {
        const Entry& entry = pool_.entries[e];
        entry_of_tuple_[entry.tuple] = -1;
        pool_.shapes.set(e, entry.tuple, entry.count);
        std::fill_n(pool_.counts(e), models_.n_counts(), 0);
        count(e, entry.tuple, entry.count);
        pool_.clusters.push_back({0, lack(e), kNever, -1});
        pool_.alive_clusters.push_back(entry.owner);
    }
}

void RefineLoss::count(std::size_t cluster, std::int32_t tuple, Count copies) {
    if (!models_.empty()) models_.count(pool_.counts(cluster), mixed_->extra_columns(tuple), copies);
}

// Whether a cluster would satisfy the models with more or fewer copies of a tuple.
bool RefineLoss::keeps_with(std::size_t cluster, std::int32_t tuple, Count copies) {
    if (models_.empty()) return true;
    count(cluster, tuple, copies);
    work_.left -= models_.work_per_check();
    const bool satisfies = models_.satisfies(pool_.counts(cluster));
    count(cluster, tuple, -copies);
    return satisfies;
}

// The number of records that a cluster lacks to reach k and satisfy the models.
double RefineLoss::lack(std::size_t cluster) {
    const auto records = static_cast<double>(std::max<Cost>(k_ - pool_.shapes.size(cluster), 0));
    if (models_.empty()) return records;
    work_.left -= models_.work_per_check();
    return records + models_.lack(pool_.counts(cluster));
}

// The number of copies that cluster j gives to a small one: those above k if it has a single tuple.
// 0 if they merge instead. Loss 0 does not imply a single tuple, since attributes may have weight
// 0.
Cost RefineLoss::shared_loss(std::int32_t i, std::int32_t j) const {
    const Entry& entry = pool_.entries[j];
    const bool lends = models_.empty() && entry.owner == j && entry.count > k_ &&
                       entry.count == pool_.shapes.size(j);
    if (!lends) return 0;
    return std::min<Cost>(k_ - pool_.shapes.size(i), entry.count - k_);
}

// How much less two clusters lack after merging.
double RefineLoss::lack_reduction(std::size_t a, std::size_t b) {
    std::transform(pool_.counts(a), pool_.counts(a) + models_.n_counts(), pool_.counts(b),
                   merged_counts_.begin(), std::plus<>());
    work_.left -= models_.work_per_check();
    const Cost records = std::max<Cost>(k_ - pool_.shapes.size(a) - pool_.shapes.size(b), 0);
    const double apart = pool_.clusters[a].lack + pool_.clusters[b].lack;
    return std::max(apart - static_cast<double>(records) - models_.lack(merged_counts_.data()),
                    kLeastLack);
}

// The cost of merging a small cluster i with j, with noise so that rounds differ. With models it is
// relative to the reduction of what they lack; kNever if above `most`.
double RefineLoss::price(std::int32_t i, std::int32_t j, double most) {
    const std::size_t a = i, b = j;
    const Cluster &small = pool_.clusters[a], &other = pool_.clusters[b];
    const Cost copies = shared_loss(i, j);
    const Cost increase = copies ? pool_.shapes.loss_with(a, b, copies) - small.loss
                                 : pool_.shapes.loss(a, b) - small.loss - other.loss;
    const double noisy = static_cast<double>(increase) * (1.0 + pool_.noise * random_.uniform());
    if (!prices_consider_lack_) return noisy;
    if (noisy >= most * std::max(small.lack + other.lack, kLeastLack)) return kNever;
    return noisy / lack_reduction(a, b);
}

void RefineLoss::cheapest(std::int32_t i) {
    Cluster& small = pool_.clusters[i];
    small.partner = -1;
    small.price = kNever;
    for (const std::int32_t j : pool_.alive_clusters) {
        if (j == i) continue;
        const double value = price(i, j, small.price);
        if (value < small.price) {
            small.price = value;
            small.partner = j;
        }
    }
}

// Merges small clusters, cheapest first, until every cluster has k records.
void RefineLoss::agglomerate() {
    static constexpr double kNoise[] = {0.0, 0.8, 1.6, 3.2, 6.4};
    pool_.noise = kNoise[random_.below(5)];
    for (const std::int32_t i : pool_.alive_clusters) {
        if (pool_.clusters[i].lack > 0) cheapest(i);
    }
    while (pool_.alive_clusters.size() > 1) {
        std::int32_t chosen = -1;
        double least = kNever;
        for (const std::int32_t i : pool_.alive_clusters) {
            if (pool_.clusters[i].price < least) {
                least = pool_.clusters[i].price;
                chosen = i;
            }
        }
        if (chosen < 0) break;
        merge_clusters(chosen, pool_.clusters[chosen].partner);
    }
}

void RefineLoss::merge_clusters(std::int32_t i, std::int32_t j) {
    const std::size_t a = i;
    if (const Cost copies = shared_loss(i, j)) {
        Entry& lender = pool_.entries[j];
        const std::int32_t tuple = lender.tuple, count = static_cast<std::int32_t>(copies);
        pool_.shapes.add(a, tuple, copies);
        pool_.shapes.take_copies(j, tuple, copies);
        lender.count -= count;
        pool_.entries.push_back({tuple, count, i});
    } else {
        pool_.join(i, j);
        pool_.clusters[j].price = kNever;
    }
    Cluster& cluster = pool_.clusters[i];
    cluster.loss = pool_.shapes.loss(a);
    cluster.price = kNever;
    cluster.lack = lack(a);
    if (cluster.lack > 0) cheapest(i);
    for (const std::int32_t other : pool_.alive_clusters) {
        Cluster& small = pool_.clusters[other];
        if (other == i || small.lack == 0) continue;
        if (small.partner == i || small.partner == j) {
            cheapest(other);
        } else if (const double value = price(other, i, small.price); value < small.price) {
            small.price = value;
            small.partner = i;
        }
    }
}

// Moves records of clusters above k to where the loss decreases most.
void RefineLoss::move() {
    Shapes& shapes = pool_.shapes;
    bool moved_shape = true;
    for (int pass = 0; moved_shape && pass < 4; ++pass) {
        moved_shape = false;
        for (std::size_t e = 0; e < pool_.entries.size(); ++e) {
            const Entry entry = pool_.entries[e];
            const std::size_t a = entry.owner;
            Cluster& from = pool_.clusters[a];
            const Cost spare = shapes.size(a) - k_;
            if (spare <= 0 || from.loss == 0 || entry.count == 0) continue;
            const Cost copies = std::min<Cost>(spare, entry.count);
            const bool all = copies == entry.count;
            Cost remaining_loss;
            if (all) {
                pool_.leave_out(e);
                remaining_loss = shapes.loss(pool_.without_shape);
            } else {
                remaining_loss = shapes.loss_without(a, entry.tuple, copies);
            }
            const Cost gain = from.loss - remaining_loss;
            const auto moving = static_cast<Count>(copies);
            if (gain <= 0 || !keeps_with(a, entry.tuple, -moving)) continue;
            shapes.set(pool_.moved_shape, entry.tuple, copies);
            Cost least = gain;
            std::int32_t target = -1;
            for (const std::int32_t other : pool_.alive_clusters) {
                if (other == entry.owner) continue;
                const std::size_t b = other;
                const Cost increase = shapes.loss(b, pool_.moved_shape) - pool_.clusters[b].loss;
                if (increase < least && keeps_with(b, entry.tuple, moving)) {
                    least = increase;
                    target = other;
                }
            }
            if (target < 0) continue;
            const std::size_t b = target;
            if (all) {
                shapes.copy(a, pool_.without_shape);
                pool_.entries[e].owner = target;
            } else {
                shapes.take_copies(a, entry.tuple, copies);
                pool_.entries[e].count -= moving;
                pool_.entries.push_back({entry.tuple, moving, target});
            }
            shapes.merge(b, pool_.moved_shape);
            count(a, entry.tuple, -moving);
            count(b, entry.tuple, moving);
            from.loss = remaining_loss;
            pool_.clusters[b].loss += least;
            moved_shape = true;
        }
    }
}

// Classes with the same released values are one class, with more records to spare.
void RefineLoss::merge_equal_clusters() {
    std::vector<std::int32_t>& alive_clusters = pool_.alive_clusters;
    for (std::size_t x = 0; x < alive_clusters.size(); ++x) {
        for (std::size_t y = alive_clusters.size() - 1; y > x; --y) {
            const std::int32_t i = alive_clusters[x], j = alive_clusters[y];
            if (!pool_.shapes.same(i, j)) continue;
            pool_.join(i, j);
            pool_.clusters[i].loss += pool_.clusters[j].loss;
        }
    }
}

Cost RefineLoss::total() {
    Cost sum = 0;
    for (const std::int32_t i : pool_.alive_clusters) {
        if (!satisfies(i)) return std::numeric_limits<Cost>::max();
        sum += pool_.clusters[i].loss;
    }
    return sum;
}

void RefineLoss::accept_pool() {
    for (const std::int32_t c : pool_.classes) {
        for (const auto& tuple_count : class_tuples_.classes[c].tuples) class_tuples_.remove_class(c, tuple_count.first);
        class_tuples_.classes[c].tuples.clear();
        class_tuples_.classes[c].loss = 0;
        free_class_ids_.push_back(c);
    }
    for (const std::int32_t i : pool_.alive_clusters) {
        if (free_class_ids_.empty()) {
            free_class_ids_.push_back(static_cast<std::int32_t>(class_tuples_.classes.size()));
            class_tuples_.classes.emplace_back();
        }
        const std::int32_t c = free_class_ids_.back();
        free_class_ids_.pop_back();
        ClassTuples::Class& new_class = class_tuples_.classes[c];
        new_class.loss = pool_.clusters[i].loss;
        for (const Entry& entry : pool_.entries) {
            if (entry.owner != i || entry.count == 0) continue;
            const auto same = std::find_if(new_class.tuples.begin(), new_class.tuples.end(),
                                           [&](const auto& t) { return t.first == entry.tuple; });
            if (same != new_class.tuples.end()) {
                same->second += entry.count;
                continue;
            }
            new_class.tuples.emplace_back(entry.tuple, entry.count);
            class_tuples_.add_class(c, entry.tuple);
        }
    }
}

}  // namespace dbanon
