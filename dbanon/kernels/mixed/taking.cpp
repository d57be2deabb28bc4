#include "mixed/taking.hpp"

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

}  // namespace dbanon
