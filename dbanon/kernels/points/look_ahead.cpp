#include "points/look_ahead.hpp"

#include <algorithm>

#include "common/threads.hpp"

namespace dbanon {

namespace {

// Nodes and leaves that a search visits on its own, best first, to get a limit near the final one.
constexpr std::int64_t kVisitsAlone = 16;
// Searches that a thread runs together, at least: with fewer, threads read the same nodes for little.
constexpr std::size_t kMinShare = 8;

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

Coroutine LookAhead::search_farthest(const KdTree& tree, Share& share) const {
    const std::int64_t visits = kVisitsAlone * block_cost(table_.p);
    if (share.far.size() < share.ids.size()) share.far.resize(share.ids.size());
    share.far_batch.clear();
    for (std::size_t i = 0; i < share.ids.size(); ++i) {
        FarQuery& q = share.far[i];
        Work alone{visits};
        q.start(table_.row(share.ids[i]));
        tree.begin(q);
        if (!tree.farthest(q, alone)) {
            tree.begin(q);
            share.far_batch.add(q);
        }
        share.work.left -= visits;
        if (share.work.is_spent()) co_yield nullptr;
    }
    tree.begin(share.far_batch);
    while (!tree.farthest(share.far_batch, share.work)) co_yield nullptr;
}

Coroutine LookAhead::search_nearest(const KdTree& tree, Share& share) const {
    const std::int64_t visits = kVisitsAlone * block_cost(table_.p);
    if (share.near.size() < share.ids.size()) share.near.resize(share.ids.size());
    share.near_batch.clear();
    for (std::size_t i = 0; i < share.ids.size(); ++i) {
        const std::int32_t id = share.ids[i];
        NearQuery& q = share.near[i];
        Work alone{visits};
        q.start(table_.row(id), n_nearest_, id);
        tree.begin(q);
        if (!tree.nearest(q, alone)) {
            // Keeps the limit and searches anew, so that no record is counted twice.
            const double limit = q.limit;
            const std::int32_t limit_id = q.limit_id;
            q.start(table_.row(id), n_nearest_, id);
            q.limit = limit;
            q.limit_id = limit_id;
            tree.begin(q);
            share.near_batch.add(q);
        }
        share.work.left -= visits;
        if (share.work.is_spent()) co_yield nullptr;
    }
    tree.begin(share.near_batch);
    while (!tree.nearest(share.near_batch, share.work)) co_yield nullptr;
}

void LookAhead::share_out(const std::vector<std::int32_t>& ids, int n_threads,
                          Coroutine (LookAhead::*search)(const KdTree&, Share&) const, const KdTree& tree) {
    const std::size_t n_shares =
        std::clamp<std::size_t>(ids.size() / kMinShare, 1, static_cast<std::size_t>(n_threads));
    shares_.resize(n_shares);
    for (std::size_t i = 0; i < n_shares; ++i) {
        Share& share = shares_[i];
        share.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(ids.size() * i / n_shares),
                         ids.begin() + static_cast<std::ptrdiff_t>(ids.size() * (i + 1) / n_shares));
        share.searches = (this->*search)(tree, share);
        share.is_complete = false;
    }
}

bool LookAhead::resume(Records& records, Work& work) {
    for (Share& share : shares_) share.work = {work.left};
    run_at_once(static_cast<int>(shares_.size()), [this](int i) {
        Share& share = shares_[static_cast<std::size_t>(i)];
        if (!share.is_complete) share.is_complete = share.searches.resume();
    });
    std::int64_t least = work.left, used = 0;
    std::int32_t n_searches = 0;
    bool is_complete = true;
    for (const Share& share : shares_) {
        used += work.left - share.work.left;
        least = std::min(least, share.work.left);
        n_searches += static_cast<std::int32_t>(share.ids.size());
        is_complete &= share.is_complete;
    }
    work.left = least;
    records.count_batch(used, is_complete ? n_searches : 0);
    return is_complete;
}

Coroutine LookAhead::run(Records& records, Work& work) {
    while (!records.prepare_batch(work)) co_yield nullptr;
    const KdTree& tree = *records.tree();
    std::erase_if(candidates_, [this](std::int32_t id) { return !remains(id); });
    std::erase_if(results_, [this](const auto& entry) { return !remains(entry.first); });

    ids_.clear();
    for (const std::int32_t id : candidates_) {
        if (farthest_of(id) < 0) ids_.push_back(id);
    }
    share_out(ids_, work.n_threads, &LookAhead::search_farthest, tree);
    while (!resume(records, work)) co_yield nullptr;
    for (const Share& share : shares_) {
        for (std::size_t i = 0; i < share.ids.size(); ++i) results_[share.ids[i]].farthest = share.far[i].best.id;
    }

    ids_.clear();
    for (const std::int32_t id : candidates_) {
        ids_.push_back(id);
        ids_.push_back(farthest_of(id));
    }
    std::sort(ids_.begin(), ids_.end());
    ids_.erase(std::unique(ids_.begin(), ids_.end()), ids_.end());
    std::erase_if(ids_, [this](std::int32_t id) { return nearest_to(id) != nullptr; });
    share_out(ids_, work.n_threads, &LookAhead::search_nearest, tree);
    while (!resume(records, work)) co_yield nullptr;
    for (const Share& share : shares_) {
        for (std::size_t i = 0; i < share.ids.size(); ++i) {
            const NearQuery& q = share.near[i];
            results_[share.ids[i]].nearest.assign(q.results, q.results + q.count);
        }
    }
}

}  // namespace dbanon
