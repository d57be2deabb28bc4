#include "mixed/wide_tree.hpp"

#include <algorithm>
#include <limits>

#include "mixed/square.hpp"

namespace dbanon {

template <class Measure>
void WideTree::ask(const Measure& measure) {
    const std::size_t numbers = columns_.numbers();
    Cost base = 0;
    for (std::size_t c = 0; c < numbers; ++c) {
        const std::size_t a = columns_.attribute(c);
        low_[c] = measure.low(a);
        high_[c] = measure.high(a);
        base += measure.each_width() * (high_[c] - low_[c]);
    }
    in_tree_.clear();
    levels_.clear();
    for (std::size_t c = numbers; c < columns_.paths_end(); ++c) {
        const std::size_t a = columns_.attribute(c);
        const Tree& tree = *table_.tree(a);
        const std::int32_t ancestor = tree.common(measure.low(a), measure.high(a));
        const Code path = columns_.value(c, measure.low(a));
        const auto first = static_cast<std::int32_t>(levels_.size());
        auto mask = static_cast<std::int32_t>(columns_.fields_before(c));
        for (const Field& field : columns_.fields(c)) {
            // From the depth of the class's node on, all tuples below cost the same.
            if (field.depth >= ancestor) break;
            levels_.push_back({measure.parted(a, field.depth),
                               prefix_bit(path, field.shift), field.shift, mask++});
        }
        const auto last = static_cast<std::int32_t>(levels_.size());
        in_tree_.push_back({static_cast<std::int32_t>(c), path, first, last});
        // Each level's cost is the sum of its step and the steps below it.
        const Cost within = measure.parted(a, ancestor);
        for (std::int32_t l = first; l < last; ++l) {
            levels_[l].step -= l + 1 < last ? levels_[l + 1].step : within;
        }
        base += within;
    }
    question_ = {base,
                 static_cast<std::uint32_t>(measure.each_width()),
                 static_cast<std::int32_t>(numbers),
                 static_cast<std::int32_t>(in_tree_.size()),
                 low_.data(),
                 high_.data(),
                 in_tree_.data(),
                 levels_.data()};
}

// The differences between both kinds of queries. Other columns are evaluated one by one.
struct WideTree::Nearest {
    static constexpr Cost kWorst = std::numeric_limits<Cost>::max();
    static bool better(Cost a, Cost b) { return a < b; }
    // Whether a partial cost already exceeds the best one, since columns only add to it.
    static bool hopeless(Cost cost, Cost best) { return cost > best; }
    static void bounds(const WideTree& tree, std::int32_t node, Cost* bounds_out) {
        tree.ops_.at_least(tree.question_, tree.boxes_.row(node),
                           tree.masked_ ? tree.masks_.row(node) : nullptr, bounds_out);
    }
    template <class Measure>
    static Cost bound(const Measure& measure, std::size_t a, Code low, Code high) {
        return measure.at_least(a, low, high);
    }
};

struct WideTree::Farthest {
    static constexpr Cost kWorst = -1;
    static bool better(Cost a, Cost b) { return a > b; }
    static bool hopeless(Cost, Cost) { return false; }
    static void bounds(const WideTree& tree, std::int32_t node, Cost* bounds_out) {
        tree.ops_.at_most(tree.question_, tree.boxes_.row(node), bounds_out);
    }
    template <class Measure>
    static Cost bound(const Measure& measure, std::size_t a, Code low, Code high) {
        return measure.at_most(a, low, high);
    }
};

// Keeps the nearest candidates, with the worst on top.
struct WideTree::Several {
    std::vector<Best>& nearest;
    const std::size_t limit;
    Cost cost = Nearest::kWorst;
    std::int32_t record = kNone;

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
struct WideTree::Others : Several {
    const std::int32_t skip;

    void offer(Cost by, std::int32_t smallest, std::int32_t tuple) {
        if (tuple != skip) keep({by, smallest, tuple});
    }
};

// Records, each copy of a tuple separately.
struct WideTree::Copies : Several {
    const WideTree& tree;
    const std::vector<std::int32_t>& next;

    void offer(Cost by, std::int32_t, std::int32_t tuple) {
        for (std::int32_t at = next[tuple]; at < tree.table_.end(tuple); ++at) {
            if (!keep({by, tree.table_.copy(at), tuple})) return;
        }
    }
};

template <class Way, class Measure, class Found>
void WideTree::look(std::int32_t leaf, const Measure& measure, Found& best, Work& work) const {
    const std::int32_t filled = filled_[leaf];
    work.left -= filled;
    Cost costs[kLanes];
    const Code* const record = records(leaf);
    const Code* const values = record + kLanes;
    ops_.costs(question_, values, costs);
    for (std::int32_t i = 0; i < filled; ++i) {
        Cost cost = costs[i];
        for (std::size_t c = columns_.paths_end(); c < columns_.count(); ++c) {
            if (Way::hopeless(cost, best.cost)) break;
            cost += measure.distance(columns_.attribute(c), values[c * kLanes + i]);
        }
        if (Way::better(cost, best.cost) || (cost == best.cost && record[i] < best.record)) {
            best.offer(cost, record[i], tuples(leaf)[i]);
        }
    }
}

template <class Way, class Measure, class Found>
void WideTree::walk(const Measure& measure, Found& best, Work& work, std::int32_t looked_at) {
    // The best bound on top, the smallest record among equal ones.
    const auto after = [](const Open& a, const Open& b) {
        return a.bound != b.bound ? Way::better(b.bound, a.bound) : a.least > b.least;
    };
    const auto may_improve = [&](Cost bound, std::int32_t least) {
        return bound == best.cost ? least < best.record : Way::better(bound, best.cost);
    };
    open_.clear();
    for (std::int32_t link = root_;;) {
        if (link >= 0) {
            work.left -= kBranches / 2;
            Cost bounds[kBranches];
            Way::bounds(*this, link, bounds);
            const Code* const boxes = boxes_.row(link);
            for (std::int32_t i = 0; i < kBranches; ++i) {
                const std::int32_t slot = link * kBranches + i;
                if (least_[slot] == kNone) continue;
                for (std::size_t c = columns_.paths_end(); c < columns_.count(); ++c) {
                    if (Way::hopeless(bounds[i], best.cost)) break;
                    const Code* const box = boxes + 2 * c * kBranches + i;
                    bounds[i] += Way::bound(measure, columns_.attribute(c), box[0], box[kBranches]);
                }
                if (!may_improve(bounds[i], least_[slot])) continue;
                open_.push_back({bounds[i], least_[slot], links_[slot]});
                std::push_heap(open_.begin(), open_.end(), after);
            }
        } else if (~link != looked_at) {
            look<Way>(~link, measure, best, work);
        }
        if (open_.empty()) return;
        std::pop_heap(open_.begin(), open_.end(), after);
        const Open top = open_.back();
        open_.pop_back();
        // Later entries are worse, or equal with larger records.
        if (!may_improve(top.bound, top.least)) return;
        link = top.link;
    }
}

template <class Measure>
std::int32_t WideTree::nearest(const Measure& measure, std::int32_t hint, Work& work) {
    ask(measure);
    Best best{Nearest::kWorst};
    const std::int32_t around = hint < 0 ? kNone : leaf_[hint];
    if (hint >= 0) look<Nearest>(around, measure, best, work);
    walk<Nearest>(measure, best, work, around);
    return best.tuple;
}

template std::int32_t WideTree::nearest(const Reach&, std::int32_t, Work&);
template std::int32_t WideTree::nearest(const Growth&, std::int32_t, Work&);

template <class Measure, class Found>
void WideTree::collect(const Measure& measure, std::int32_t hint, Found& collector, Work& work) {
    ask(measure);
    const std::int32_t around = leaf_[hint];
    look<Nearest>(around, measure, collector, work);
    walk<Nearest>(measure, collector, work, around);
    std::sort_heap(collector.nearest.begin(), collector.nearest.end(), Several::before);
}

void WideTree::nearest(const Reach& reach, std::int32_t tuple, std::int32_t count,
                       std::int32_t* tuples_out, Work& work) {
    several_.clear();
    Others others{{several_, static_cast<std::size_t>(count)}, tuple};
    collect(reach, tuple, others, work);
    several_.resize(count, {Nearest::kWorst});
    for (const Best& candidate : several_) *tuples_out++ = candidate.tuple;
}

template <class Measure>
void WideTree::around(const Measure& measure, std::int32_t hint, std::int32_t k,
                      const std::vector<std::int32_t>& next, std::vector<std::int32_t>& records_out,
                      Work& work) {
    records_out.clear();
    if (k == 0) return;
    several_.clear();
    Copies copies{{several_, static_cast<std::size_t>(k)}, *this, next};
    collect(measure, hint, copies, work);
    for (const Best& candidate : several_) records_out.push_back(candidate.record);
}

template void WideTree::around(const Square&, std::int32_t, std::int32_t,
                               const std::vector<std::int32_t>&, std::vector<std::int32_t>&, Work&);

template <class Measure>
std::int32_t WideTree::farthest(const Measure& measure, Work& work) {
    ask(measure);
    Best best{Farthest::kWorst};
    walk<Farthest>(measure, best, work, -1);
    return best.tuple;
}

template std::int32_t WideTree::farthest(const Reach&, Work&);
template std::int32_t WideTree::farthest(const Square&, Work&);

}  // namespace dbanon
