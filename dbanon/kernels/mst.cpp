#include "mst.hpp"

#include <algorithm>
#include <limits>

#include "ward.hpp"

namespace dbanon {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double distance(const double* a, const double* b, int p) {
    double total = 0.0;
    for (int j = 0; j < p; ++j) total += (a[j] - b[j]) * (a[j] - b[j]);
    return total;
}

}  // namespace

// Prim from record 0: the free record nearest to the tree, the smallest index among equals.
Steps Mst::run() {
    const std::int32_t n = table_.n;
    const std::size_t count = static_cast<std::size_t>(n);
    parent_.assign(count, 0);
    parent_[0] = -1;
    length_.assign(count, kInf);
    std::vector<std::int32_t> free;  // in ascending order
    for (std::int32_t id = 1; id < n; ++id) free.push_back(id);
    std::int32_t last = 0;
    grown_.push_back(0);
    while (!free.empty()) {
        std::size_t next = 0;
        for (std::size_t i = 0; i < free.size(); ++i) {
            const std::size_t id = static_cast<std::size_t>(free[i]);
            const double at = distance(table_.row(last), table_.row(free[i]), table_.p);
            if (at < length_[id]) length_[id] = at, parent_[id] = last;
            if (length_[id] < length_[static_cast<std::size_t>(free[next])]) next = i;
        }
        last = free[next];
        free.erase(free.begin() + static_cast<std::ptrdiff_t>(next));
        grown_.push_back(last);
        ++done_;
        work_.left -= static_cast<std::int64_t>(free.size()) * std::max(1, table_.p / 4);
        if (work_.spent()) co_yield nullptr;
    }
    cut();
    std::vector<std::vector<std::int32_t>> found;
    for (auto& ids : trees()) {
        if (diametric_) {
            split(std::move(ids), found);
        } else {
            found.push_back(std::move(ids));
        }
        if (work_.spent()) co_yield nullptr;
    }
    for (std::size_t label = 0; label < found.size(); ++label) {
        for (const std::int32_t id : found[label]) assign(id, static_cast<std::int32_t>(label));
    }
}

// Removes edges, the longest first, where at least k records stay on both sides.
void Mst::cut() {
    std::vector<std::int32_t> below(grown_.size(), 1);  // [record]: with its descendants
    for (std::size_t i = grown_.size(); i-- > 1;) {
        const std::size_t id = static_cast<std::size_t>(grown_[i]);
        below[static_cast<std::size_t>(parent_[id])] += below[id];
    }
    std::vector<std::int32_t> edges(grown_.begin() + 1, grown_.end());
    std::sort(edges.begin(), edges.end(), [this](std::int32_t a, std::int32_t b) {
        const double at_a = length_[static_cast<std::size_t>(a)];
        const double at_b = length_[static_cast<std::size_t>(b)];
        return at_a > at_b || (at_a == at_b && a < b);
    });
    for (const std::int32_t child : edges) {
        const std::int32_t lost = below[static_cast<std::size_t>(child)];
        if (lost < k_) continue;
        std::size_t root = static_cast<std::size_t>(child);
        while (parent_[root] >= 0) root = static_cast<std::size_t>(parent_[root]);
        if (below[root] - lost < k_) continue;
        for (std::int32_t up = parent_[static_cast<std::size_t>(child)]; up >= 0;
             up = parent_[static_cast<std::size_t>(up)]) {
            below[static_cast<std::size_t>(up)] -= lost;
        }
        parent_[static_cast<std::size_t>(child)] = -1;
    }
}

// By their first records; the records of each in ascending order.
std::vector<std::vector<std::int32_t>> Mst::trees() const {
    std::vector<std::int32_t> root(grown_.size()), number(grown_.size(), -1);
    for (const std::int32_t id : grown_) {
        const std::int32_t up = parent_[static_cast<std::size_t>(id)];
        root[static_cast<std::size_t>(id)] = up < 0 ? id : root[static_cast<std::size_t>(up)];
    }
    std::vector<std::vector<std::int32_t>> found;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        std::int32_t& tree = number[static_cast<std::size_t>(root[static_cast<std::size_t>(id)])];
        if (tree < 0) {
            tree = static_cast<std::int32_t>(found.size());
            found.emplace_back();
        }
        found[static_cast<std::size_t>(tree)].push_back(id);
    }
    return found;
}

// MD: classes around the two most distant records while 2k remain; k or more left over are a class,
// fewer join the class with the nearest centroid, as centroids then are.
void Mst::split(std::vector<std::int32_t> ids, std::vector<std::vector<std::int32_t>>& found) {
    const std::size_t begin = found.size();
    const std::size_t k = static_cast<std::size_t>(k_);
    while (ids.size() >= 2 * k) {
        const Diameter ends = diameter(table_, ids);
        work_.left -= ends.cost + 2 * static_cast<std::int64_t>(ids.size());
        found.push_back(take_around(table_, ids, ends.r, k_));
        const bool gone = std::find(found.back().begin(), found.back().end(), ends.s) !=
                          found.back().end();
        found.push_back(take_around(table_, ids, gone ? ids.front() : ends.s, k_));
    }
    if (ids.size() >= k) {
        found.push_back(std::move(ids));
        return;
    }
    const std::size_t p = static_cast<std::size_t>(table_.p);
    std::vector<double> centroids((found.size() - begin) * p, 0.0);
    for (std::size_t at = begin; at < found.size(); ++at) {
        double* centroid = centroids.data() + (at - begin) * p;
        for (const std::int32_t id : found[at]) {
            for (std::size_t j = 0; j < p; ++j) centroid[j] += table_.row(id)[j];
        }
        for (std::size_t j = 0; j < p; ++j) centroid[j] /= static_cast<double>(found[at].size());
    }
    for (const std::int32_t id : ids) {
        std::size_t best = begin;
        double least = kInf;
        for (std::size_t at = begin; at < found.size(); ++at) {
            const double gap =
                distance(centroids.data() + (at - begin) * p, table_.row(id), table_.p);
            if (gap < least) least = gap, best = at;
        }
        found[best].push_back(id);
    }
}

}  // namespace dbanon
