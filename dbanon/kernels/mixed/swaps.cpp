#include "mixed/swaps.hpp"

namespace dbanon {

namespace {

constexpr std::size_t kPartners = 16;
// If many classes contain a tuple, only these are examined.
constexpr std::size_t kHolding = 8;

}  // namespace

Swaps::Swaps(const MixedTable& table, const Models& models, Shapes& shapes, std::size_t most,
             ClassTuples& class_tuples, std::int32_t k)
    : table_(table),
      models_(models),
      shapes_(shapes),
      max_tuples_(most),
      class_tuples_(class_tuples),
      k_(k),
      a_(0, most),
      b_(2 * most + 1, most),
      last_change_(class_tuples.classes.size(), 0),
      previous_comparisons_(class_tuples.classes.size()) {}

// The classes with most of the nearest tuples; in a tie the smaller number first.
void Swaps::start(std::int32_t c, const Grid<std::int32_t>& neighbours, Work& work) {
    partners_.clear();
    a_.c = -1;
    const auto& class_entries = class_tuples_.classes[c].tuples;
    if (class_entries.empty() || class_entries.size() > max_tuples_) return;
    near_classes_.clear();
    const auto hit = [&](std::int32_t tuple) {
        const auto& classes_with_tuple = class_tuples_.classes_of_tuple[tuple];
        for (std::size_t i = 0; i < std::min(classes_with_tuple.size(), kHolding); ++i) {
            const std::int32_t other = classes_with_tuple[i];
            if (other == c || class_tuples_.classes[other].tuples.size() > max_tuples_) continue;
            near_classes_.emplace_back(0, other);
        }
    };
    for (const auto& entry : class_entries) {
        hit(entry.first);
        const std::int32_t* near = neighbours.row(entry.first);
        for (std::size_t i = 0; i < neighbours.width(); ++i) hit(near[i]);
    }
    work.left -= static_cast<std::int64_t>(near_classes_.size());
    std::sort(near_classes_.begin(), near_classes_.end());
    std::size_t count = 0;
    for (std::size_t i = 0; i < near_classes_.size(); ++i) {
        if (count == 0 || near_classes_[count - 1].second != near_classes_[i].second) {
            near_classes_[count++] = {0, near_classes_[i].second};
        }
        --near_classes_[count - 1].first;
    }
    near_classes_.resize(count);
    std::sort(near_classes_.begin(), near_classes_.end());
    for (std::size_t i = 0; i < std::min(count, kPartners); ++i) partners_.push_back(near_classes_[i].second);
    // Classes not compared with now were last compared too long ago to matter.
    std::erase_if(previous_comparisons_[c], [&](const PreviousComparison& entry) {
        return std::find(partners_.begin(), partners_.end(), entry.with) == partners_.end();
    });
    a_.c = c;
    a_.tuples = 0;  // not loaded
}

// Whether neither has changed since they were compared.
bool Swaps::is_up_to_date(std::int32_t c, std::int32_t other) const {
    const std::int64_t last = std::max(last_change_[c], last_change_[other]);
    const auto seen = [&](std::int32_t of, std::int32_t with) {
        return std::any_of(previous_comparisons_[of].begin(), previous_comparisons_[of].end(), [&](const PreviousComparison& entry) {
            return entry.with == with && entry.at >= last;
        });
    };
    return seen(c, other) || seen(other, c);
}

bool Swaps::compare(Work& work) {
    const std::int32_t c = a_.c;
    for (const std::int32_t other : partners_) {
        --work.left;
        if (is_up_to_date(c, other)) continue;
        if (a_.tuples == 0) load(a_, c);
        load(b_, other);
        while (improve(work)) {
            load(a_, c);
            load(b_, other);
        }
        auto& list = previous_comparisons_[c];
        std::erase_if(list, [&](const PreviousComparison& entry) { return entry.with == other; });
        list.push_back({other, changes_});
        return true;
    }
    return false;
}

void Swaps::load(ComparedClass& side, std::int32_t c) {
    side.c = c;
    const auto& entries = tuples(side);
    const std::size_t count = side.tuples = entries.size();
    for (std::size_t i = 0; i < count; ++i) {
        shapes_.set(side.tuple_shape(i), entries[i].first, entries[i].second);
    }
    // Losses of the entries before each one, then of those after it.
    const std::size_t shape_index = side.class_shape();
    shapes_.copy(shape_index, side.tuple_shape(0));
    for (std::size_t i = 1; i < count; ++i) {
        shapes_.copy(side.without(i), shape_index);
        shapes_.merge(shape_index, side.tuple_shape(i));
    }
    if (count > 1) {
        const std::size_t after = side.without(0);
        shapes_.copy(after, side.tuple_shape(count - 1));
        for (std::size_t i = count - 2; i > 0; --i) {
            shapes_.merge(side.without(i), after);
            shapes_.merge(after, side.tuple_shape(i));
        }
    }
    class_tuples_.classes[c].loss = shapes_.loss(shape_index);
    side.loss_without.resize(count);
    side.each.resize(count);
    for (std::size_t i = 0; i < count && count > 1; ++i) {
        side.loss_without[i] = shapes_.loss(side.without(i));
        side.each[i] = shapes_.each(side.without(i));
    }
    side.counts.assign(models_.n_counts(), 0);
    if (models_.empty()) return;
    for (const auto& [tuple, copies] : entries) {
        models_.count(side.counts.data(), table_.extra_columns(tuple), copies);
    }
}

// The change with the least loss, if that improves on the current one.
bool Swaps::improve(Work& work) {
    work.left -= static_cast<std::int64_t>(a_.tuples * b_.tuples);
    Change best{shapes_.loss(a_.class_shape()) + shapes_.loss(b_.class_shape())};
    const Cost now = best.loss;
    if (a_.tuples > 1 && b_.tuples > 1) swap(best, work);
    for (const bool back : {false, true}) {
        const Change other = best_move(back ? b_ : a_, back ? a_ : b_, best.loss, work);
        if (other.loss < best.loss) {
            best = back ? Change{other.loss, 0, other.i, 0, other.from_a} : other;
        }
    }
    if (best.loss == now) return false;
    apply_change(best);
    return true;
}

void Swaps::swap(Change& best, Work& work) {
    const auto &tuples_a = tuples(a_), &others = tuples(b_);
    for (std::size_t i = 0; i < a_.tuples; ++i) {
        const Cost leaving = tuples_a[i].second;
        for (std::size_t j = 0; j < b_.tuples; ++j) {
            const Cost coming = others[j].second;
            const Cost more = coming - leaving;
            if (size(a_) + more < k_ || size(b_) - more < k_) continue;
            const Cost least = b_.loss_without[j] + leaving * b_.each[j];
            if (a_.loss_without[i] + coming * a_.each[i] + least >= best.loss) continue;
            Cost loss = shapes_.loss(a_.without(i), b_.tuple_shape(j));
            if (loss + least >= best.loss) continue;
            loss += shapes_.loss(b_.without(j), a_.tuple_shape(i));
            if (loss >= best.loss) continue;
            const Change change{loss, i, j, tuples_a[i].second, others[j].second};
            if (satisfies(change, work)) best = change;
        }
    }
}

// Moves take as many copies as possible; `from` becomes side a of the result.
Swaps::Change Swaps::best_move(const ComparedClass& from, const ComparedClass& to, Cost most, Work& work) {
    Change best{most};
    const Cost spare = size(from) - k_;
    if (spare <= 0 || to.tuples == to.most) return best;
    const auto& entries = tuples(from);
    for (std::size_t i = 0; i < from.tuples; ++i) {
        const auto [tuple, n_copies] = entries[i];
        const auto copies = static_cast<Count>(std::min<Cost>(spare, n_copies));
        Cost loss = copies == n_copies ? from.loss_without[i]
                                   : shapes_.loss_without(from.class_shape(), tuple, copies);
        if (loss >= best.loss) continue;
        loss += shapes_.loss_with(to.class_shape(), from.tuple_shape(i), copies);
        if (loss >= best.loss) continue;
        const bool back = from.c == b_.c;
        if (satisfies(back ? Change{loss, 0, i, 0, copies} : Change{loss, i, 0, copies, 0}, work)) {
            best = {loss, i, 0, copies, 0};
        }
    }
    return best;
}

bool Swaps::satisfies(const Change& change, Work& work) {
    if (models_.empty()) return true;
    work.left -= 2 * models_.work_per_check();
    const auto count = [&](Count sign) {
        const auto go = [&](ComparedClass& side, std::int32_t tuple, Count copies) {
            models_.count(side.counts.data(), table_.extra_columns(tuple), sign * copies);
        };
        const std::int32_t x = tuples(a_)[change.i].first, y = tuples(b_)[change.j].first;
        go(a_, x, -change.from_a);
        go(b_, x, change.from_a);
        go(b_, y, -change.from_b);
        go(a_, y, change.from_b);
    };
    count(1);
    const bool satisfies = models_.satisfies(a_.counts.data()) && models_.satisfies(b_.counts.data());
    count(-1);
    return satisfies;
}

void Swaps::apply_change(const Change& change) {
    const std::int32_t x = tuples(a_)[change.i].first, y = tuples(b_)[change.j].first;
    if (change.from_a) move_copies(a_, b_, x, change.from_a);
    if (change.from_b) move_copies(b_, a_, y, change.from_b);
    last_change_[a_.c] = last_change_[b_.c] = ++changes_;
}

void Swaps::move_copies(const ComparedClass& from, const ComparedClass& to, std::int32_t tuple, Count copies) {
    const auto find = [&](auto& entries) {
        return std::find_if(entries.begin(), entries.end(),
                            [&](const auto& entry) { return entry.first == tuple; });
    };
    auto& giving = class_tuples_.classes[from.c].tuples;
    const auto giving_entry = find(giving);
    giving_entry->second -= copies;
    if (giving_entry->second == 0) {
        giving.erase(giving_entry);
        class_tuples_.remove_class(from.c, tuple);
    }
    auto& taking = class_tuples_.classes[to.c].tuples;
    const auto taking_entry = find(taking);
    if (taking_entry == taking.end()) {
        taking.emplace_back(tuple, copies);
        class_tuples_.add_class(to.c, tuple);
    } else {
        taking_entry->second += copies;
    }
}

}  // namespace dbanon
