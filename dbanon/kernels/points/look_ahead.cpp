#include "points/look_ahead.hpp"

#include <algorithm>

namespace dbanon {

namespace {

// Nodes and leaves that a search visits on its own, best first, to get a limit near the final one.
constexpr std::int64_t kVisitsAlone = 16;

}  // namespace

const std::vector<RecordDistance>* LookAhead::nearest_to(std::int32_t id) const {
    const auto at = results_.find(id);
    if (at == results_.end() || at->second.nearest.empty()) return nullptr;
    for (const RecordDistance& record : at->second.nearest) {
        if (!remains(record.id)) return nullptr;
    }
    return &at->second.nearest;
}

std::int32_t LookAhead::farthest_of(std::int32_t id) const {
    const auto at = results_.find(id);
    return at != results_.end() && at->second.farthest >= 0 && remains(at->second.farthest) ? at->second.farthest
                                                                                              : -1;
}

bool LookAhead::recall(NearQuery& q) const {
    const std::vector<RecordDistance>* nearest = q.excluded_id < 0 ? nullptr : nearest_to(q.excluded_id);
    if (nearest == nullptr) return false;
    q.count = static_cast<std::int32_t>(nearest->size());
    std::copy(nearest->begin(), nearest->end(), q.results);
    return true;
}

bool LookAhead::recall(FarQuery& q, std::int32_t id) const {
    q.best.id = farthest_of(id);
    return q.best.id >= 0;
}

void LookAhead::set_candidates(const std::vector<RecordDistance>& records) {
    candidates_.clear();
    for (const RecordDistance& record : records) candidates_.push_back(record.id);
    std::sort(candidates_.begin(), candidates_.end());
}

Coroutine LookAhead::run(Records& records, Work& work) {
    while (!records.prepare_batch(work)) co_yield nullptr;
    std::erase_if(candidates_, [this](std::int32_t id) { return !remains(id); });
    std::erase_if(results_, [this](const auto& entry) { return !remains(entry.first); });
    const std::int64_t visits = kVisitsAlone * block_cost(table_.p);

    ids_.clear();
    for (const std::int32_t id : candidates_) {
        if (farthest_of(id) < 0) ids_.push_back(id);
    }
    if (far_.size() < ids_.size()) far_.resize(ids_.size());
    far_batch_.clear();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
        Work alone{visits};
        far_[i].start(table_.row(ids_[i]));
        records.begin(far_[i]);
        if (!records.farthest(far_[i], alone)) {
            records.begin(far_[i]);
            far_batch_.add(far_[i]);
        }
        work.left -= visits;
        if (work.is_spent()) co_yield nullptr;
    }
    records.begin(far_batch_);
    while (!records.farthest(far_batch_, work)) co_yield nullptr;
    for (std::size_t i = 0; i < ids_.size(); ++i) results_[ids_[i]].farthest = far_[i].best.id;

    ids_.clear();
    for (const std::int32_t id : candidates_) {
        ids_.push_back(id);
        ids_.push_back(farthest_of(id));
    }
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    std::erase_if(ids_, [this](std::int32_t id) { return nearest_to(id) != nullptr; });
    if (near_.size() < ids_.size()) near_.resize(ids_.size());
    near_batch_.clear();
    for (std::size_t i = 0; i < ids_.size(); ++i) {
        NearQuery& q = near_[i];
        Work alone{visits};
        q.start(table_.row(ids_[i]), n_nearest_, ids_[i]);
        records.begin(q);
        if (!records.nearest(q, alone)) {
            // Keeps the limit and searches anew, so that no record is counted twice.
            const double limit = q.limit;
            const std::int32_t limit_id = q.limit_id;
            q.start(table_.row(ids_[i]), n_nearest_, ids_[i]);
            q.limit = limit;
            q.limit_id = limit_id;
            records.begin(q);
            near_batch_.add(q);
        }
        work.left -= visits;
        if (work.is_spent()) co_yield nullptr;
    }
    records.begin(near_batch_);
    while (!records.nearest(near_batch_, work)) co_yield nullptr;
    for (std::size_t i = 0; i < ids_.size(); ++i) {
        results_[ids_[i]].nearest.assign(near_[i].results, near_[i].results + near_[i].count);
    }
}

}  // namespace dbanon
