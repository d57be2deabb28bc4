#include "points/records.hpp"

#include <algorithm>
#include <numeric>

#include "points/dispatch.hpp"

namespace dbanon {

namespace {

// Below this number of records scanning beats the tree.
constexpr std::int32_t kMinTreeRecords = 512;
// Per attribute (effective_attributes); for fewer queries scanning takes less time than building and
// querying the tree (measured with MDAV: 20,000 and 100,000 records of 2 to 13 attributes, k = 3 to
// 100). The second applies with integer steps, which make scanning faster than walking.
constexpr double kTreeQueriesPerAttribute = 250.0;
constexpr double kTreeQueriesPerCoarseAttribute = 750.0;
// Sample size for estimating how many attributes matter.
constexpr std::int32_t kSpreadSample = 255;
// Queries between two checks whether the tree pays. Where searches can run in batches, the first check comes
// after TreeRecords has decided on them: 100,000 normal records of 13 took a quarter less time.
constexpr std::int32_t kTrialQueries = 64;
constexpr std::int32_t kTrialQueriesWithBatches = 320;

// Searches that are run together: more of them read each node less often, but more of their results are
// out of date when they are needed (measured).
constexpr std::int32_t kRecordsPerSearch = 2048;
constexpr std::int32_t kMinBatch = 8, kMaxBatch = 1024;
// The time of a node in a batch, of that in a search on its own.
constexpr double kShareOfBatch = 0.3;

std::vector<std::int32_t> all_ids(const Table& table) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(table.n));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
}

// The effective number of attributes, estimated from a sample: p if all have equal variance, less
// if most attributes rarely vary, which helps a tree.
double effective_attributes(const Table& table) {
    const std::int32_t count = std::min(table.n, kSpreadSample);
    double sum = 0.0;
    double squares = 0.0;
    for (int j = 0; j < table.p; ++j) {
        const auto at = [&](std::int32_t i) {
            return table.row(static_cast<std::int32_t>(std::int64_t{i} * table.n / count))[j];
        };
        double mean = 0.0;
        for (std::int32_t i = 0; i < count; ++i) mean += at(i) / count;
        double variance = 0.0;
        for (std::int32_t i = 0; i < count; ++i) variance += (at(i) - mean) * (at(i) - mean) / count;
        sum += variance;
        squares += variance * variance;
    }
    const double effective = sum / squares * sum;
    // Overflow or underflow: assume that all attributes count.
    return effective >= 1.0 && effective <= table.p ? effective : table.p;
}

}  // namespace

std::unique_ptr<Records> make_records(const Table& table, Search search, std::int64_t n_queries) {
    const Ops& ops = ops_for(table.p);
    if (search == Search::index) return std::make_unique<TreeRecords>(table, ops);
    if (search == Search::brute || table.n < kMinTreeRecords ||
        static_cast<double>(n_queries) <
            (Coarse::is_worthwhile(table.p) ? kTreeQueriesPerCoarseAttribute : kTreeQueriesPerAttribute) * effective_attributes(table)) {
        return std::make_unique<BlockRecords>(table, ops);
    }
    return std::make_unique<AdaptiveRecords>(table, ops);
}

TreeRecords::TreeRecords(const Table& table, const Ops& ops)
    : tree_(table.points, table.n, table.p, ops), moving_{MovingFarthest(tree_), MovingFarthest(tree_)} {}

std::int32_t TreeRecords::batch_size() const {
    if (!tree_.has_batches() || !uses_batches_) return 0;
    const std::int32_t size = std::min(tree_.size() / kRecordsPerSearch, kMaxBatch);
    return size < kMinBatch ? 0 : size;
}

void TreeRecords::count(std::int64_t work, std::int32_t n_searches) {
    n_visits_ += work / block_cost(tree_.attributes());
    n_searches_ += n_searches;
    if (n_searches_ < (uses_batches_ ? kSearchesToDecideInBatch : kSearchesToDecide)) return;
    const std::int64_t min_visits = uses_batches_ ? kMinVisitsInBatch : kMinVisitsAlone;
    uses_batches_ = n_visits_ >= n_searches_ * (min_visits + tree_.size() / kRecordsPerVisit);
    n_visits_ = 0;
    n_searches_ = 0;
}

bool TreeRecords::nearest_and_farthest(NearQuery& near, FarQuery& far, Work& work) {
    return farthest(far, work) && nearest(near, work);
}

BlockRecords::BlockRecords(const Table& table, const Ops& ops)
    : BlockRecords(table, ops, all_ids(table)) {}

BlockRecords::BlockRecords(const Table& table, const Ops& ops, std::vector<std::int32_t> ids)
    : table_(table),
      block_(block_records(table.p)),
      ops_(ops),
      size_(static_cast<std::int32_t>(ids.size())), ids_(std::move(ids)) {
    const std::size_t capacity = static_cast<std::size_t>(blocks()) * block_;
    points_.resize(capacity * static_cast<std::size_t>(table.p));
    ids_.resize(capacity, -1);
    position_.resize(static_cast<std::size_t>(table.n));
    count_.assign(static_cast<std::size_t>(blocks()), block_);
    if (size_ % block_ != 0) count_.back() = size_ % block_;
    coarse_ = Coarse(table.points, table.n, table.p, sample_medians(table.points, table.n, table.p));
    if (coarse_.is_enabled()) steps_.resize(count_.size() * static_cast<std::size_t>(coarse_.block()));
    has_clipped_.assign(count_.size(), 0);
    view_ = {table.p, points_.data(), ids_.data(), count_.data(), table.points,
             coarse_.is_enabled() ? steps_.data() : nullptr, has_clipped_.data(), coarse_.step()};
}

bool BlockRecords::prepare(Work& work) {
    for (; n_filled_blocks_ < static_cast<std::int32_t>(count_.size()); ++n_filled_blocks_) {
        if (work.is_spent()) return false;
        double* block = points_.data() + std::int64_t{n_filled_blocks_} * block_ * table_.p;
        for (std::int32_t lane = 0; lane < block_; ++lane) {
            const std::int32_t slot = n_filled_blocks_ * block_ + lane;
            const std::int32_t id = ids_[static_cast<std::size_t>(std::min(slot, size_ - 1))];
            const double* row = table_.row(id);
            for (int j = 0; j < table_.p; ++j) block[j * block_ + lane] = row[j];
            if (coarse_.is_enabled()) {
                has_clipped_[static_cast<std::size_t>(n_filled_blocks_)] |=
                    coarse_.store_record(row, steps_.data() + n_filled_blocks_ * coarse_.block(), lane);
            }
            if (slot < size_) position_[static_cast<std::size_t>(id)] = slot;
        }
        work.left -= 2 * block_cost(table_.p);
    }
    return true;
}

void BlockRecords::erase(std::int32_t id) {
    const std::int32_t to = position_[static_cast<std::size_t>(id)];
    const std::int32_t from = --size_;
    --count_[static_cast<std::size_t>(from / block_)];
    if (to == from) return;
    double* target = points_.data() + std::int64_t{to / block_} * block_ * table_.p + to % block_;
    const double* source =
        points_.data() + std::int64_t{from / block_} * block_ * table_.p + from % block_;
    for (int j = 0; j < table_.p; ++j) target[j * block_] = source[j * block_];
    if (coarse_.is_enabled()) {
        const std::int16_t* steps = steps_.data() + from / block_ * coarse_.block();
        Coarse::move(steps_.data() + to / block_ * coarse_.block(), to % block_, steps,
                     from % block_, coarse_.pairs());
        has_clipped_[static_cast<std::size_t>(to / block_)] |=
            has_clipped_[static_cast<std::size_t>(from / block_)];
    }
    ids_[static_cast<std::size_t>(to)] = ids_[static_cast<std::size_t>(from)];
    position_[static_cast<std::size_t>(ids_[static_cast<std::size_t>(to)])] = to;
}

void BlockRecords::update(std::int32_t id) {
    const std::int32_t at = position_[static_cast<std::size_t>(id)];
    double* target = points_.data() + std::int64_t{at / block_} * block_ * table_.p + at % block_;
    for (int j = 0; j < table_.p; ++j) target[j * block_] = table_.row(id)[j];
    if (coarse_.is_enabled()) {
        has_clipped_[static_cast<std::size_t>(at / block_)] |=
            coarse_.store_record(table_.row(id), steps_.data() + at / block_ * coarse_.block(), at % block_);
    }
}

std::int32_t BlockRecords::reserve_blocks(std::int32_t from, Work& work) const {
    const std::int64_t cost = block_cost(table_.p);
    const std::int64_t n_rows = std::max<std::int64_t>(1, work.left / cost);
    const std::int32_t stop =
        static_cast<std::int32_t>(std::min<std::int64_t>(blocks(), from + n_rows));
    work.left -= (stop - from) * cost;
    return stop;
}

bool BlockRecords::nearest(NearQuery& q, Work& work) {
    if (q.k == 0) return true;
    while (q.pending < blocks()) {
        if (work.is_spent()) return false;
        const std::int32_t from = q.pending;
        q.pending = reserve_blocks(from, work);
        ops_.scan_near(view_, from, q.pending, q);
    }
    return true;
}

bool BlockRecords::farthest(FarQuery& q, Work& work) {
    while (q.pending < blocks()) {
        if (work.is_spent()) return false;
        const std::int32_t from = q.pending;
        q.pending = reserve_blocks(from, work);
        ops_.scan_far(view_, from, q.pending, q);
    }
    return true;
}

bool BlockRecords::nearest_and_farthest(NearQuery& near, FarQuery& far, Work& work) {
    if (near.k == 0) return farthest(far, work);
    while (far.pending < blocks()) {
        if (work.is_spent()) return false;
        const std::int32_t from = far.pending;
        far.pending = reserve_blocks(from, work);
        ops_.scan_both(view_, from, far.pending, near, far);
    }
    return true;
}

AdaptiveRecords::AdaptiveRecords(const Table& table, const Ops& ops)
    : table_(table),
      ops_(ops),
      tree_(std::make_unique<TreeRecords>(table, ops)),
      active_(tree_.get()) {}

bool AdaptiveRecords::prepare(Work& work) {
    if (tree_ && n_queries_ >= (tree_->has_batches() ? kTrialQueriesWithBatches : kTrialQueries)) {
        if (tree_cost_ > scan_cost_) {
            std::vector<std::int32_t> ids;
            for (std::int32_t id = 0; id < table_.n; ++id) {
                if (tree_->is_alive(id)) ids.push_back(id);
            }
            blocks_ = std::make_unique<BlockRecords>(table_, ops_, std::move(ids));
            active_ = blocks_.get();
            tree_.reset();
        }
        n_queries_ = 0;
        tree_cost_ = 0.0;
        scan_cost_ = 0.0;
    }
    return active_->prepare(work);
}

void AdaptiveRecords::count(double work, std::int32_t n_searches) {
    // Relative cost of a block visited by the tree compared to a sequential scan (measured).
    const double relative_cost = 1.0 + (Coarse::is_worthwhile(table_.p) ? 60.0 : 24.0) / table_.p;
    tree_cost_ += relative_cost * work / static_cast<double>(block_cost(table_.p));
    scan_cost_ += n_searches * static_cast<double>(active_->size()) / block_records(table_.p);
    n_queries_ += n_searches;
}

void AdaptiveRecords::count_batch(std::int64_t work, std::int32_t n_searches) {
    active_->count_batch(work, n_searches);
    count(kShareOfBatch * static_cast<double>(work), n_searches);
}

bool AdaptiveRecords::track_cost(std::int64_t before, const Work& work, bool done) {
    count(static_cast<double>(before - work.left), done ? 1 : 0);
    return done;
}

bool AdaptiveRecords::nearest(NearQuery& q, Work& work) {
    const std::int64_t before = work.left;
    return track_cost(before, work, active_->nearest(q, work));
}

bool AdaptiveRecords::farthest(FarQuery& q, Work& work) {
    const std::int64_t before = work.left;
    return track_cost(before, work, active_->farthest(q, work));
}

bool AdaptiveRecords::nearest_and_farthest(NearQuery& near, FarQuery& far, Work& work) {
    const std::int64_t before = work.left;
    return track_cost(before, work, active_->nearest_and_farthest(near, far, work));
}

bool AdaptiveRecords::farthest_moving(FarQuery& q, int path, Work& work) {
    const std::int64_t before = work.left;
    return track_cost(before, work, active_->farthest_moving(q, path, work));
}

}  // namespace dbanon
