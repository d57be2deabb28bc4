#include "points/tfrp.hpp"

#include <algorithm>

#include "points/dispatch.hpp"

namespace dbanon {

// Leftover records come last in their class, in index order.
void Tfrp::add_leftover(std::int32_t id) {
    members_[labels_[id]].push_back(id);
}

void Tfrp::sum_members(std::int32_t label) {
    const std::size_t p = table_.p;
    double* sum = sums_.row(label);
    for (const std::int32_t id : members_[label]) {
        for (std::size_t j = 0; j < p; ++j) sum[j] += table_.row(id)[j];
    }
    set_mean(label);
}

void Tfrp::set_mean(std::int32_t label) {
    const std::size_t p = table_.p;
    const double* sum = sums_.row(label);
    double* mean = means_of_.row(label);
    const double count = static_cast<double>(members_[label].size());
    for (std::size_t j = 0; j < p; ++j) mean[j] = sum[j] / count;
    if (centres_) centres_->update(label);
}

double Tfrp::sum_of_squares(std::int32_t label) const {
    const std::size_t p = table_.p;
    const double* mean = means_of_.row(label);
    double total = 0.0;
    for (const std::int32_t id : members_[label]) {
        double squared = 0.0;
        for (std::size_t j = 0; j < p; ++j) {
            const double gap = mean[j] - table_.row(id)[j];
            squared += gap * gap;
        }
        total += squared;
    }
    return total;
}

// Returns the increase of the class's sum of squares.
double Tfrp::join_class(std::int32_t id, std::int32_t label, double squared) {
    const std::size_t p = table_.p;
    std::vector<std::int32_t>& members = members_[label];
    const double count = static_cast<double>(members.size());
    double* sum = sums_.row(label);
    saved_sums_.insert(saved_sums_.end(), sum, sum + p);
    moves_.push_back({id, label});
    members.push_back(id);
    for (std::size_t j = 0; j < p; ++j) sum[j] += table_.row(id)[j];
    set_mean(label);
    return count / (count + 1.0) * squared;
}

void Tfrp::undo_moves() {
    const std::size_t p = table_.p;
    for (; !moves_.empty(); moves_.pop_back()) {
        const std::int32_t label = moves_.back().to;
        members_[label].pop_back();
        std::copy_n(saved_sums_.end() - table_.p, p, sums_.row(label));
        saved_sums_.resize(saved_sums_.size() - p);
        set_mean(label);
    }
}

// The remaining classes keep their order.
void Tfrp::renumber() {
    std::int32_t next_label = 0;
    for (const std::vector<std::int32_t>& members : members_) {
        if (members.empty()) continue;
        for (const std::int32_t id : members) labels_[id] = next_label;
        ++next_label;
    }
}

Coroutine Tfrp::run() {
    low_.assign(table_.row(0), table_.row(0) + table_.p);
    high_ = low_;
    for (std::int32_t id = 0; id < table_.n; ++id) {
        if (work_.is_spent()) co_yield nullptr;
        --work_.left;
        for (std::size_t j = 0; j < low_.size(); ++j) {
            low_[j] = std::min(low_[j], table_.row(id)[j]);
            high_[j] = std::max(high_[j], table_.row(id)[j]);
        }
    }
    std::int32_t label = 0;
    for (; records_->size() >= k_; ++label) {
        while (!records_->prepare(work_)) co_yield nullptr;
        const int corner = label % 2;
        far_.start(corner == 0 ? low_.data() : high_.data());
        records_->begin_moving(far_, corner);
        while (!records_->farthest_moving(far_, corner, work_)) co_yield nullptr;
        const std::int32_t r = far_.best.id;
        near_.start(table_.row(r), k_ - 1, r);
        records_->begin(near_);
        while (!records_->nearest(near_, work_)) co_yield nullptr;
        take(r, label);
        take(near_, label);
        if (second_stage_) {
            members_.emplace_back(1, r);
            for (std::int32_t i = 0; i < near_.count; ++i) {
                members_.back().push_back(near_.results[i].id);
            }
        }
    }
    std::vector<std::int32_t> leftover;
    for (std::int32_t id = 0; second_stage_ && records_->size() > 0 && id < table_.n; ++id) {
        if (!is_assigned(id)) leftover.push_back(id);
    }
    begin_leftovers();
    while (!assign_leftovers(work_)) co_yield nullptr;
    if (!second_stage_ || label < 2) co_return;

    for (const std::int32_t id : leftover) add_leftover(id);
    sums_.assign(members_.size(), low_.size());
    means_of_.assign(members_.size(), low_.size());
    for (std::int32_t i = 0; i < label; ++i) {
        if (work_.is_spent()) co_yield nullptr;
        work_.left -= 2 * k_;
        sum_members(i);
    }
    const Table table{means_of_.row(0), label, table_.p};
    centres_ = std::make_unique<BlockRecords>(table, ops_for(table_.p));
    while (!centres_->prepare(work_)) co_yield nullptr;
    std::vector<RecordDistance> order;
    for (std::int32_t i = 0; i < label; ++i) {
        if (work_.is_spent()) co_yield nullptr;
        work_.left -= 2 * k_;
        order.push_back({-sum_of_squares(i), i});
    }
    std::sort(order.begin(), order.end(), is_nearer);
    for (const RecordDistance& dissolved : order) {
        if (centres_->size() < 2) break;
        const double current_loss = sum_of_squares(dissolved.id);
        double cost = 0.0;
        moves_.clear();
        saved_sums_.clear();
        const std::vector<std::int32_t> dissolved_members = members_[dissolved.id];
        for (const std::int32_t id : dissolved_members) {
            near_.start(table_.row(id), 1, dissolved.id);
            centres_->begin(near_);
            while (!centres_->nearest(near_, work_)) co_yield nullptr;
            cost += join_class(id, near_.results[0].id, near_.results[0].distance);
            if (!(cost < current_loss)) break;
        }
        if (cost < current_loss) {
            members_[dissolved.id].clear();
            centres_->erase(dissolved.id);
        } else {
            undo_moves();
        }
    }
    renumber();
}

}  // namespace dbanon
