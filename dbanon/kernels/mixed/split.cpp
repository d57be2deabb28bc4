#include "mixed/split.hpp"

namespace dbanon {

Split::Split(Mixed mixed, const std::int32_t* labels, std::int32_t k,
             const std::int32_t* values, Models models)
    : Kernel({nullptr, mixed->records(), mixed->n_attributes()}, k),
      mixed_(std::move(mixed)),
      models_(std::move(models)),
      values_(values, values + labels_.size() * models_.attributes()),
      before_counts_(models_.n_counts()),
      after_counts_(models_.n_counts()) {
    for (std::int32_t i = 0; i < mixed_->records(); ++i) {
        if (labels[i] < 0) continue;
        const std::size_t c = labels[i];
        if (c >= classes_.size()) classes_.resize(c + 1);
        classes_[c].push_back(i);
    }
}

// The cuts between two values of an attribute.
void Split::find_cut(const Members& members, int attribute) {
    const auto code = [&](std::int32_t record) { return row(record)[attribute]; };
    order_ = members;
    std::stable_sort(order_.begin(), order_.end(), [&](std::int32_t i, std::int32_t j) {
        return code(i) < code(j);
    });
    work_.left -= static_cast<std::int64_t>(members.size() * static_cast<std::size_t>(mixed_->n_attributes()));
    if (code(order_.front()) == code(order_.back())) return;
    const std::size_t size = order_.size();
    const std::size_t k = k_;
    suffix_loss_.resize(size);
    Extent extent;
    for (std::size_t i = size; i-- > 0;) {
        if (i == size - 1) extent.start(*mixed_, mixed_->tuple_of(order_[i]), 0);
        extent.add(*mixed_, mixed_->tuple_of(order_[i]));
        if (i > 0 && code(order_[i - 1]) != code(order_[i])) suffix_loss_[i] = extent.loss(*mixed_);
    }
    std::fill(before_counts_.begin(), before_counts_.end(), 0);
    std::fill(after_counts_.begin(), after_counts_.end(), 0);
    for (const std::int32_t record : order_) count(after_counts_, record, 1);
    extent.start(*mixed_, mixed_->tuple_of(order_[0]), 0);
    for (std::size_t i = 0; i + k <= size; ++i) {
        if (i >= k && code(order_[i - 1]) != code(order_[i])) {
            const Cost loss = extent.loss(*mixed_) + suffix_loss_[i];
            if (loss < least_loss_) {
                work_.left -= 2 * models_.work_per_check();
                if (models_.satisfies(before_counts_.data()) && models_.satisfies(after_counts_.data())) {
                    cut_attribute_ = attribute;
                    cut_value_ = code(order_[i]);
                    least_loss_ = loss;
                }
            }
        }
        extent.add(*mixed_, mixed_->tuple_of(order_[i]));
        count(before_counts_, order_[i], 1);
        count(after_counts_, order_[i], -1);
    }
}

void Split::apply_cut(Members& members, Members& second) const {
    const auto from = std::stable_partition(members.begin(), members.end(), [&](std::int32_t i) {
        return row(i)[cut_attribute_] < cut_value_;
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
            cut_attribute_ = -1;
            if (static_cast<std::int64_t>(piece.size()) >= 2 * std::int64_t{k_}) {
                Extent extent;
                extent.start(*mixed_, mixed_->tuple_of(piece[0]), 0);
                for (const std::int32_t i : piece) extent.add(*mixed_, mixed_->tuple_of(i));
                least_loss_ = extent.loss(*mixed_);
                for (int a = 0; a < mixed_->n_attributes(); ++a) {
                    find_cut(piece, a);
                    if (work_.is_spent()) co_yield nullptr;
                }
            }
            if (cut_attribute_ >= 0) {
                open.emplace_back();
                apply_cut(piece, open.back());
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
