#include "mixed/wide_tree.hpp"

#include <algorithm>
#include <limits>

#include "mixed/square.hpp"

namespace dbanon {

template <class Measure>
void WideTree::set_query(const Measure& measure) {
    const std::size_t numbers = columns_.numbers();
    Cost base = 0;
    for (std::size_t c = 0; c < numbers; ++c) {
        const std::size_t a = columns_.attribute(c);
        low_[c] = measure.low(a);
        high_[c] = measure.high(a);
        base += measure.cost_per_unit() * (high_[c] - low_[c]);
    }
    query_paths_.clear();
    levels_.clear();
    for (std::size_t c = numbers; c < columns_.paths_end(); ++c) {
        const std::size_t a = columns_.attribute(c);
        const Tree& tree = *table_.tree(a);
        const std::int32_t ancestor = tree.common_depth(measure.low(a), measure.high(a));
        const Code path = columns_.value(c, measure.low(a));
        const auto first = static_cast<std::int32_t>(levels_.size());
        auto mask = static_cast<std::int32_t>(columns_.fields_before(c));
        for (const Field& field : columns_.fields(c)) {
            // From the depth of the class's node on, all tuples below cost the same.
            if (field.depth >= ancestor) break;
            levels_.push_back({measure.cost_at_depth(a, field.depth),
                               prefix_bit(path, field.shift), field.shift, mask++});
        }
        const auto last = static_cast<std::int32_t>(levels_.size());
        query_paths_.push_back({static_cast<std::int32_t>(c), path, first, last});
        // Each level's cost is the sum of its step and the steps below it.
        const Cost within = measure.cost_at_depth(a, ancestor);
        for (std::int32_t l = first; l < last; ++l) {
            levels_[l].step -= l + 1 < last ? levels_[l + 1].step : within;
        }
        base += within;
    }
    query_ = {base,
                 static_cast<std::uint32_t>(measure.cost_per_unit()),
                 static_cast<std::int32_t>(numbers),
                 static_cast<std::int32_t>(query_paths_.size()),
                 low_.data(),
                 high_.data(),
                 query_paths_.data(),
                 levels_.data()};
}

// The differences between both kinds of queries. Other columns are evaluated one by one.
struct WideTree::Nearest {
    static constexpr Cost kWorst = std::numeric_limits<Cost>::max();
    static bool better(Cost a, Cost b) { return a < b; }
    // Whether a partial cost already exceeds the best one, since columns only add to it.
    static bool hopeless(Cost cost, Cost best) { return cost > best; }
    static void bounds(const WideTree& tree, std::int32_t node, Cost* bounds_out) {
        tree.ops_.lower_bounds(tree.query_, tree.boxes_.row(node),
                           tree.has_masks_ ? tree.masks_.row(node) : nullptr, bounds_out);
    }
    template <class Measure>
    static Cost bound(const Measure& measure, std::size_t a, Code low, Code high) {
        return measure.lower_bound(a, low, high);
    }
};

struct WideTree::Farthest {
    static constexpr Cost kWorst = -1;
    static bool better(Cost a, Cost b) { return a > b; }
    static bool hopeless(Cost, Cost) { return false; }
    static void bounds(const WideTree& tree, std::int32_t node, Cost* bounds_out) {
        tree.ops_.upper_bounds(tree.query_, tree.boxes_.row(node), bounds_out);
    }
    template <class Measure>
    static Cost bound(const Measure& measure, std::size_t a, Code low, Code high) {
        return measure.upper_bound(a, low, high);
    }
};

// Keeps the nearest candidates, with the worst on top.
struct WideTree::NearestRecords {
    std::vector<Best>& nearest;
    const std::size_t limit;
    Cost cost = Nearest::kWorst;
    std::int32_t record = kNoRecord;

    static bool before(const Best& a, const Best& b) {
        return a.cost != b.cost ? a.cost < b.cost : a.record < b.record;
    }
    // Whether a candidate is among the nearest so far.
    bool keep(const Best& candidate) {
        if (nearest.size() == limit) {
            if (!before(candidate, nearest.front())) return false;
            std::pop_heap(nearest.begin(), nearest.end(), before);
            nearest.back() = candidate;
        } else {
            nearest.push_back(candidate);
        }
        std::push_heap(nearest.begin(), nearest.end(), before);
        if (nearest.size() == limit) cost = nearest.front().cost, record = nearest.front().record;
        return true;
    }
};

// All tuples except one.
struct WideTree::NearestTuples : NearestRecords {
    const std::int32_t skip;

    void offer(Cost by, std::int32_t smallest, std::int32_t tuple) {
        if (tuple != skip) keep({by, smallest, tuple});
    }
};

// Records, each copy of a tuple separately.
struct WideTree::NearestCopies : NearestRecords {
    const WideTree& tree;
    const std::vector<std::int32_t>& next;

    void offer(Cost by, std::int32_t, std::int32_t tuple) {
        for (std::int32_t at = next[tuple]; at < tree.table_.end(tuple); ++at) {
            if (!keep({by, tree.table_.copy(at), tuple})) return;
        }
    }
};

template <class Direction, class Measure, class Results>
void WideTree::look(std::int32_t leaf, const Measure& measure, Results& best, Work& work) const {
    const std::int32_t n_filled = n_filled_[leaf];
    work.left -= n_filled;
    Cost costs[kLanes];
    const Code* const record = records(leaf);
    const Code* const values = record + kLanes;
    ops_.costs(query_, values, costs);
    for (std::int32_t i = 0; i < n_filled; ++i) {
        Cost cost = costs[i];
        for (std::size_t c = columns_.paths_end(); c < columns_.count(); ++c) {
            if (Direction::hopeless(cost, best.cost)) break;
            cost += measure.distance(columns_.attribute(c), values[c * kLanes + i]);
        }
        if (Direction::better(cost, best.cost) || (cost == best.cost && record[i] < best.record)) {
            best.offer(cost, record[i], tuples(leaf)[i]);
        }
    }
}

template <class Direction, class Measure, class Results>
void WideTree::walk(const Measure& measure, Results& best, Work& work, std::int32_t visited_leaf) {
    // The best bound on top, the smallest record among equal ones.
    const auto after = [](const OpenNode& a, const OpenNode& b) {
        return a.bound != b.bound ? Direction::better(b.bound, a.bound) : a.least > b.least;
    };
    const auto may_improve = [&](Cost bound, std::int32_t least) {
        return bound == best.cost ? least < best.record : Direction::better(bound, best.cost);
    };
    open_nodes_.clear();
    for (std::int32_t link = root_;;) {
        if (link >= 0) {
            work.left -= kBranches / 2;
            Cost bounds[kBranches];
            Direction::bounds(*this, link, bounds);
            const Code* const boxes = boxes_.row(link);
            for (std::int32_t i = 0; i < kBranches; ++i) {
                const std::int32_t slot = link * kBranches + i;
                if (least_[slot] == kNoRecord) continue;
                for (std::size_t c = columns_.paths_end(); c < columns_.count(); ++c) {
                    if (Direction::hopeless(bounds[i], best.cost)) break;
                    const Code* const box = boxes + 2 * c * kBranches + i;
                    bounds[i] += Direction::bound(measure, columns_.attribute(c), box[0], box[kBranches]);
                }
                if (!may_improve(bounds[i], least_[slot])) continue;
                open_nodes_.push_back({bounds[i], least_[slot], links_[slot]});
                std::push_heap(open_nodes_.begin(), open_nodes_.end(), after);
            }
        } else if (~link != visited_leaf) {
            look<Direction>(~link, measure, best, work);
        }
        if (open_nodes_.empty()) return;
        std::pop_heap(open_nodes_.begin(), open_nodes_.end(), after);
        const OpenNode top = open_nodes_.back();
        open_nodes_.pop_back();
        // Later entries are worse, or equal with larger records.
        if (!may_improve(top.bound, top.least)) return;
        link = top.link;
    }
}

template <class Measure>
std::int32_t WideTree::nearest(const Measure& measure, std::int32_t hint, Work& work) {
    set_query(measure);
    Best best{Nearest::kWorst};
    const std::int32_t around = hint < 0 ? kNoRecord : leaf_[hint];
    if (hint >= 0) look<Nearest>(around, measure, best, work);
    walk<Nearest>(measure, best, work, around);
    return best.tuple;
}

template std::int32_t WideTree::nearest(const Reach&, std::int32_t, Work&);
template std::int32_t WideTree::nearest(const Growth&, std::int32_t, Work&);

template <class Measure, class Results>
void WideTree::collect(const Measure& measure, std::int32_t hint, Results& collector, Work& work) {
    set_query(measure);
    const std::int32_t around = leaf_[hint];
    look<Nearest>(around, measure, collector, work);
    walk<Nearest>(measure, collector, work, around);
    std::sort_heap(collector.nearest.begin(), collector.nearest.end(), NearestRecords::before);
}

void WideTree::nearest(const Reach& reach, std::int32_t tuple, std::int32_t count,
                       std::int32_t* tuples_out, Work& work) {
    best_records_.clear();
    NearestTuples others{{best_records_, static_cast<std::size_t>(count)}, tuple};
    collect(reach, tuple, others, work);
    best_records_.resize(count, {Nearest::kWorst});
    for (const Best& candidate : best_records_) *tuples_out++ = candidate.tuple;
}

template <class Measure>
void WideTree::around(const Measure& measure, std::int32_t hint, std::int32_t k,
                      const std::vector<std::int32_t>& next, std::vector<std::int32_t>& records_out,
                      Work& work) {
    records_out.clear();
    if (k == 0) return;
    best_records_.clear();
    NearestCopies copies{{best_records_, static_cast<std::size_t>(k)}, *this, next};
    collect(measure, hint, copies, work);
    for (const Best& candidate : best_records_) records_out.push_back(candidate.record);
}

template void WideTree::around(const Square&, std::int32_t, std::int32_t,
                               const std::vector<std::int32_t>&, std::vector<std::int32_t>&, Work&);

template <class Measure>
std::int32_t WideTree::farthest(const Measure& measure, Work& work) {
    set_query(measure);
    Best best{Farthest::kWorst};
    walk<Farthest>(measure, best, work, -1);
    return best.tuple;
}

template std::int32_t WideTree::farthest(const Reach&, Work&);
template std::int32_t WideTree::farthest(const Square&, Work&);

}  // namespace dbanon
