#include "mixed/split.hpp"

namespace dbanon {

Split::Split(Mixed mixed, const std::int32_t* labels, std::int32_t k,
             const std::int32_t* values, Models models)
    : Kernel({nullptr, mixed->records(), mixed->d()}, k),
      mixed_(std::move(mixed)),
      models_(std::move(models)),
      values_(values, values + labels_.size() * models_.attributes()),
      before_counts_(models_.cells()),
      after_counts_(models_.cells()) {
    for (std::int32_t i = 0; i < mixed_->records(); ++i) {
        if (labels[i] < 0) continue;
        const std::size_t c = labels[i];
        if (c >= classes_.size()) classes_.resize(c + 1);
        classes_[c].push_back(i);
    }
}

// The cuts between two values of an attribute.
void Split::look(const Members& members, int attribute) {
    const auto code = [&](std::int32_t record) { return row(record)[attribute]; };
    order_ = members;
    std::stable_sort(order_.begin(), order_.end(), [&](std::int32_t i, std::int32_t j) {
        return code(i) < code(j);
    });
    work_.left -= static_cast<std::int64_t>(members.size() * static_cast<std::size_t>(mixed_->d()));
    if (code(order_.front()) == code(order_.back())) return;
    const std::size_t size = order_.size();
    const std::size_t k = k_;
    after_.resize(size);
    Extent extent;
    for (std::size_t i = size; i-- > 0;) {
        if (i == size - 1) extent.start(*mixed_, mixed_->tuple_of(order_[i]), 0);
        extent.add(*mixed_, mixed_->tuple_of(order_[i]));
        if (i > 0 && code(order_[i - 1]) != code(order_[i])) after_[i] = extent.loss(*mixed_);
    }
    std::fill(before_counts_.begin(), before_counts_.end(), 0);
    std::fill(after_counts_.begin(), after_counts_.end(), 0);
    for (const std::int32_t record : order_) count(after_counts_, record, 1);
    extent.start(*mixed_, mixed_->tuple_of(order_[0]), 0);
    for (std::size_t i = 0; i + k <= size; ++i) {
        if (i >= k && code(order_[i - 1]) != code(order_[i])) {
            const Cost loss = extent.loss(*mixed_) + after_[i];
            if (loss < least_) {
                work_.left -= 2 * models_.effort();
                if (models_.keeps(before_counts_.data()) && models_.keeps(after_counts_.data())) {
                    attribute_ = attribute;
                    below_ = code(order_[i]);
                    least_ = loss;
                }
            }
        }
        extent.add(*mixed_, mixed_->tuple_of(order_[i]));
        count(before_counts_, order_[i], 1);
        count(after_counts_, order_[i], -1);
    }
}

void Split::cut(Members& members, Members& second) const {
    const auto from = std::stable_partition(members.begin(), members.end(), [&](std::int32_t i) {
        return row(i)[attribute_] < below_;
    });
    second.assign(from, members.end());
    members.erase(from, members.end());
}

Coroutine Split::run() {
    std::int32_t label = 0;
    std::vector<Members> open;
    for (Members& members : classes_) {
        open.push_back(std::move(members));
        while (!open.empty()) {
            Members piece = std::move(open.back());
            open.pop_back();
            if (piece.empty()) continue;
            attribute_ = -1;
            if (static_cast<std::int64_t>(piece.size()) >= 2 * std::int64_t{k_}) {
                Extent extent;
                extent.start(*mixed_, mixed_->tuple_of(piece[0]), 0);
                for (const std::int32_t i : piece) extent.add(*mixed_, mixed_->tuple_of(i));
                least_ = extent.loss(*mixed_);
                for (int a = 0; a < mixed_->d(); ++a) {
                    look(piece, a);
                    if (work_.is_spent()) co_yield nullptr;
                }
            }
            if (attribute_ >= 0) {
                open.emplace_back();
                cut(piece, open.back());
                open.push_back(std::move(piece));
                continue;
            }
            for (const std::int32_t record : piece) assign(record, label);
            ++label;
            if (work_.is_spent()) co_yield nullptr;
        }
    }
}

}  // namespace dbanon
