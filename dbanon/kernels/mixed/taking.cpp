#include "mixed/taking.hpp"

#include <cmath>
#include <limits>

namespace dbanon {

namespace {

// Of a tree's paths: counts of all prefixes have room.
constexpr int kCountedBits = 22;

}  // namespace

Taking::Taking(Mixed mixed, std::span<const Cost> each, std::int32_t k)
    : Kernel({nullptr, mixed->records(), mixed->d()}, k),
      mixed_(std::move(mixed)),
      rest_(*mixed_, Outside::kSquare, kCountedBits),
      square_(*mixed_, each),
      centre_(*mixed_, rest_.columns(), square_),
      far_(rest_.apart(), centre_) {
    far_.restart();
}

void Taking::take_class(std::int32_t tuple, std::int32_t label) {
    take(tuple, label);
    square_.start(tuple);
    rest_.around(square_, tuple, k_ - 1, found_, work_);
    for (const std::int32_t t : found_) take(t, label);
}

Steps MixedMdav::run() {
    std::int32_t label = 0;
    while (rest_.count() >= 2 * std::int64_t{k_}) {
        tidy();
        const bool last = rest_.count() < 3 * std::int64_t{k_};
        const std::int32_t r = far_.find(work_);
        if (last) {
            take_class(r, label++);
            break;
        }
        square_.start(r);
        const std::int32_t s = rest_.farthest(square_, work_), record = rest_.record(s);
        take_class(r, label++);
        if (work_.spent()) co_yield nullptr;
        if (!assigned(record)) {
            take_class(s, label++);
        } else {
            // A record of the first class: the second one is of others.
            square_.start(s);
            rest_.around(square_, s, k_, found_, work_);
            for (const std::int32_t t : found_) take(t, label);
            ++label;
        }
        move_centre();
        if (work_.spent()) co_yield nullptr;
    }
    if (rest_.count() > 0) assign_rest(label);
}

// A record's squared distance from the mean of m others is
//   sum over them d^2 / m - sum over each two of them d^2 / m^2,
// of which m^2 times is a whole number.
Steps Settling::settle(std::int32_t classes) {
    using Sum = __int128;
    std::vector<std::vector<std::int32_t>> members(classes);
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (assigned(id)) members[labels_[id]].push_back(mixed_->tuple_of(id));
    }
    std::vector<Sum> within(rest_.count() > 0 ? classes : 0, 0);
    for (std::size_t c = 0; c < within.size(); ++c) {
        const std::vector<std::int32_t>& own = members[c];
        for (std::size_t i = 1; i < own.size(); ++i) {
            square_.start(own[i]);
            for (std::size_t j = 0; j < i; ++j) within[c] += square_.distance(own[j]);
            work_.left -= static_cast<std::int64_t>(i);
            if (work_.spent()) co_yield nullptr;
        }
    }
    for (std::int32_t id = 0; rest_.count() > 0; ++id) {
        if (assigned(id)) continue;
        const std::int32_t tuple = mixed_->tuple_of(id);
        square_.start(tuple);
        std::int32_t best = 0;
        Sum least = 0, rest = 0, over = 1;
        for (std::int32_t c = 0; c < classes; ++c) {
            const auto m = static_cast<Sum>(members[c].size());
            Sum sum = 0;
            for (const std::int32_t t : members[c]) sum += square_.distance(t);
            sum = sum * m - within[c];
            // As a whole number and a fraction: products of both would be too long.
            const Sum whole = sum / (m * m), part = sum % (m * m);
            if (c == 0 || whole < least || (whole == least && part * over < rest * (m * m))) {
                best = c, least = whole, rest = part, over = m * m;
            }
            work_.left -= static_cast<std::int64_t>(m);
            if (work_.spent()) co_yield nullptr;
        }
        take(tuple, best);
    }
}

Steps MixedCbfs::run() {
    std::int32_t label = 0;
    for (; rest_.count() >= k_; ++label) {
        tidy();
        take_class(far_.find(work_), label);
        move_centre();
        if (work_.spent()) co_yield nullptr;
    }
    Steps last = settle(label);
    while (!last.resume()) co_yield nullptr;
}

MixedVmdav::Next MixedVmdav::nearest() {
    Next best;
    for (Member& member : members_) {
        if (member.next.record < 0 || assigned(member.next.record)) {
            square_.start(member.tuple);
            rest_.around(square_, member.tuple, 1, found_, work_);
            member.next = next(found_[0]);
        }
        const Next& one = member.next;
        if (best.record < 0 || one.distance < best.distance ||
            (one.distance == best.distance && one.record < best.record)) {
            best = one;
        }
    }
    return best;
}

std::int32_t MixedVmdav::beside(std::int32_t tuple) {
    square_.start(tuple);
    rest_.around(square_, tuple, 2, found_, work_);
    // The record itself is the smallest of its tuple.
    if (found_[0] != tuple) return found_[0];
    return found_.size() > 1 ? found_[1] : -1;
}

Steps MixedVmdav::run() {
    constexpr double none = std::numeric_limits<double>::infinity();
    std::int32_t label = 0;
    for (; rest_.count() >= k_; ++label) {
        tidy();
        take_class(far_.find(work_), label);
        members_.clear();
        for (const std::int32_t t : taken_) members_.push_back({t, {}});
        while (static_cast<std::int64_t>(members_.size()) < 2 * std::int64_t{k_} - 1 &&
               rest_.count() > 0) {
            const Next inside = nearest();
            const std::int32_t other = beside(inside.tuple);
            const double outside =
                other < 0 ? none : static_cast<double>(square_.distance(other));
            if (!(std::sqrt(static_cast<double>(inside.distance)) < lambda_ * std::sqrt(outside))) break;
            take(inside.tuple, label);
            members_.push_back({inside.tuple, other < 0 ? Next{} : next(other)});
            if (work_.spent()) co_yield nullptr;
        }
        taken_.clear();
        if (work_.spent()) co_yield nullptr;
    }
    Steps last = settle(label);
    while (!last.resume()) co_yield nullptr;
}

}  // namespace dbanon
