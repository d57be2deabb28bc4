#include "common/suda.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace dbanon {

namespace {

double binomial(int n, int k) {
    double result = 1.0;
    for (int i = 1; i <= k; ++i) result = result * (n - k + i) / i;
    return result;
}

}  // namespace

Suda::Suda(const CodeTable& table, int max_size, double max_seconds)
    : Kernel({nullptr, table.n, 0}, 1),
      codes_(table),
      max_size_(max_size),
      max_seconds_(max_seconds) {
    for (int size = 1; size <= max_size; ++size) n_sets_ += binomial(table.m, size);
}

double Suda::fraction_done() const { return std::min(n_visited_ / (n_sets_ + 1.0), 0.999); }

bool Suda::is_out_of_time() const {
    if (max_seconds_ <= 0.0) return false;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_time_;
    return elapsed.count() >= max_seconds_;
}

Coroutine Suda::run() {
    start_time_ = std::chrono::steady_clock::now();
    order_.resize(codes_.n);
    std::iota(order_.begin(), order_.end(), 0);
    for (int key = 0; key < codes_.m; ++key) {
        count_values(key);
        if (work_.is_spent()) co_yield nullptr;
    }
    std::stable_sort(ranked_keys_.begin(), ranked_keys_.end(),
                     [&](int a, int b) { return n_values_[a] < n_values_[b]; });
    for (const int key : ranked_keys_) {
        sort_by(key);
        if (work_.is_spent()) co_yield nullptr;
    }
    collect_combinations();
    if (work_.is_spent()) co_yield nullptr;
    bool is_stopped = is_out_of_time();
    has_candidates_left_ = true;
    double n_searched = 0.0;
    for (int size = 1; size <= max_size_ && !is_stopped; ++size) {
        // If each record was unique on all sets of the last size, no larger one is minimal.
        if (has_candidates_left_) start_size(size);
        while (!is_stopped && visit_next_set()) {
            is_stopped = is_out_of_time();
            if (work_.is_spent()) co_yield nullptr;
        }
        if (is_stopped) break;
        append_new_msus();
        searched_size_ = size;
        n_searched += binomial(codes_.m, size);
        n_visited_ = n_searched;
        if (work_.is_spent()) co_yield nullptr;
    }
    std::fill(labels_.begin(), labels_.end(), 0);
    msu_records_.reserve(msu_ranks_.size());
    msu_keys_.reserve(msu_ranks_.size());
    for (const std::int32_t candidate : candidates_by_record()) {
        write_msus(candidate);
        if (work_.is_spent()) co_yield nullptr;
    }
}

void Suda::count_values(int key) {
    const std::size_t n = codes_.n, m = codes_.m;
    std::int32_t max_code = -1;
    for (std::size_t i = 0; i < n; ++i) max_code = std::max(max_code, codes_.codes[i * m + key]);
    if (static_cast<std::size_t>(max_code) + 1 > counts_.size()) counts_.resize(max_code + 1, {0, 0});
    std::vector<bool> is_present(static_cast<std::size_t>(max_code) + 2);
    for (std::size_t i = 0; i < n; ++i) is_present[codes_.codes[i * m + key] + 1] = true;
    n_values_.push_back(static_cast<std::int32_t>(std::count(is_present.begin(), is_present.end(), true)));
    ranked_keys_.push_back(key);
    work_.left -= codes_.n;
}

// Sorts the records by a key, stable: after all keys, equal records are next to each other, and
// records of equal values in the key of the largest rank are close in memory.
void Suda::sort_by(int key) {
    const std::size_t m = codes_.m;
    const std::int32_t* codes = codes_.codes + key;
    // Where the next record of code c is written, at c + 1.
    std::vector<std::int32_t> ends(counts_.size() + 2, 0);
    for (const std::int32_t id : order_) ++ends[codes[id * m] + 2];
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    sorted_.resize(order_.size());
    for (const std::int32_t id : order_) sorted_[ends[codes[id * m] + 1]++] = id;
    order_.swap(sorted_);
    work_.left -= codes_.n;
}

void Suda::collect_combinations() {
    const std::size_t n = codes_.n, m = codes_.m;
    const auto row = [&](std::size_t position) { return codes_.codes + order_[position] * m; };
    std::vector<std::int32_t> others;
    for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
        for (end = begin + 1; end < n && std::equal(row(begin), row(begin) + m, row(end));) ++end;
        (end - begin == 1 ? record_of_ : others).push_back(order_[begin]);
        if (end - begin == 2) n_paired_ += 2;
    }
    std::vector<std::int32_t>().swap(order_);
    std::vector<std::int32_t>().swap(sorted_);
    msu_starts_.assign(record_of_.size() + 1, 0);
    n_combinations_ = record_of_.size() + others.size();
    values_.resize(n_combinations_ * m);
    for (std::size_t rank = 0; rank < m; ++rank) {
        std::int32_t* values = values_.data() + n_combinations_ * rank;
        for (const std::int32_t id : record_of_) *values++ = codes_.codes[id * m + ranked_keys_[rank]];
        for (const std::int32_t id : others) *values++ = codes_.codes[id * m + ranked_keys_[rank]];
    }
    levels_.resize(m);
    Level& root = levels_[0];
    root.keys = 0;
    if (!record_of_.empty()) {
        root.members.resize(n_combinations_);
        std::iota(root.members.begin(), root.members.end(), 0);
        root.classes.push_back({0, static_cast<std::int32_t>(record_of_.size()),
                                static_cast<std::int32_t>(n_combinations_)});
    }
    work_.left -= codes_.n;
}

void Suda::start_size(int size) {
    size_ = size;
    depth_ = 0;
    levels_[0].next_key = size - 1;
    levels_[0].end_key = codes_.m;
    has_candidates_left_ = false;
}

// Visits the next set of keys on the way to sets of this size; false if there is none.
bool Suda::visit_next_set() {
    while (levels_[depth_].next_key >= levels_[depth_].end_key || levels_[depth_].classes.empty()) {
        if (depth_ == 0) return false;
        --depth_;
    }
    Level& level = levels_[depth_];
    const int key = level.next_key++;
    work_.left -= static_cast<std::int64_t>(level.members.size()) + 1;
    if (depth_ + 1 == size_) {
        find_uniques(level, key);
        n_visited_ += 1.0;
        return true;
    }
    Level& child = levels_[++depth_];
    child.keys = level.keys | KeySet{1} << key;
    // Below the next key there must be enough keys for this size.
    child.next_key = size_ - depth_ - 1;
    child.end_key = key;
    split_classes(level, key, child);
    return true;
}

void Suda::split_classes(const Level& parent, int key, Level& child) {
    const std::int32_t* values = values_of(key);
    child.members.clear();
    child.classes.clear();
    for (const RecordClass& record_class : parent.classes) {
        const std::int32_t* members = parent.members.data() + record_class.begin;
        if (record_class.n_members > 2) {
            split_class(members, record_class, values, child);
        } else if (values[members[0]] >= 0 && values[members[0]] == values[members[1]]) {
            child.classes.push_back({child.members.size(), record_class.n_candidates, 2});
            child.members.insert(child.members.end(), members, members + 2);
        }
    }
}

// Adds the classes of two records and more with a candidate.
void Suda::split_class(const std::int32_t* members, const RecordClass& parent,
                       const std::int32_t* values, Level& child) {
    present_values_.clear();
    for (std::int32_t i = 0; i < parent.n_candidates; ++i) {
        const std::int32_t value = values[members[i]];
        if (value >= 0 && counts_[value].candidates++ == 0) present_values_.push_back(value);
    }
    for (std::int32_t i = parent.n_candidates; i < parent.n_members; ++i) {
        const std::int32_t value = values[members[i]];
        if (value >= 0 && counts_[value].candidates > 0) ++counts_[value].others;
    }
    std::size_t end = child.members.size();
    constexpr std::int32_t kUnique = -1;
    const std::size_t first = end;
    for (const std::int32_t value : present_values_) {
        ValueCount& count = counts_[value];
        const std::int32_t size = count.candidates + count.others;
        if (size == 1) {
            count.candidates = kUnique;
            continue;
        }
        child.classes.push_back({end, count.candidates, size});
        const std::int32_t start = static_cast<std::int32_t>(end - first);
        count = {start, start + count.candidates};
        end += size;
    }
    child.members.resize(end);
    std::int32_t* written = child.members.data() + first;
    for (std::int32_t i = 0; i < parent.n_candidates; ++i) {
        const std::int32_t value = values[members[i]];
        if (value >= 0 && counts_[value].candidates != kUnique) {
            written[counts_[value].candidates++] = members[i];
        }
    }
    for (std::int32_t i = parent.n_candidates; i < parent.n_members; ++i) {
        const std::int32_t value = values[members[i]];
        // Of values without a candidate, both are 0; of others, candidates were written.
        if (value >= 0 && counts_[value].candidates > 0) {
            written[counts_[value].others++] = members[i];
        }
    }
    for (const std::int32_t value : present_values_) counts_[value] = {0, 0};
}

void Suda::find_uniques(const Level& parent, int key) {
    const std::int32_t* values = values_of(key);
    const KeySet keys = parent.keys | KeySet{1} << key;
    for (const RecordClass& record_class : parent.classes) {
        const std::int32_t* members = parent.members.data() + record_class.begin;
        const std::int32_t n_candidates = record_class.n_candidates;
        for (std::int32_t i = 0; i < n_candidates; ++i) {
            const std::int32_t value = values[members[i]];
            if (value >= 0) ++counts_[value].candidates;
        }
        for (std::int32_t i = n_candidates; i < record_class.n_members; ++i) {
            const std::int32_t value = values[members[i]];
            if (value >= 0 && counts_[value].candidates > 0) counts_[value].others = 1;
        }
        for (std::int32_t i = 0; i < n_candidates; ++i) {
            const std::int32_t value = values[members[i]];
            if (value < 0) continue;
            if (counts_[value].candidates + counts_[value].others == 1) {
                add_if_minimal(members[i], keys);
            } else {
                has_candidates_left_ = true;
            }
        }
        for (std::int32_t i = 0; i < n_candidates; ++i) {
            const std::int32_t value = values[members[i]];
            if (value >= 0) counts_[value] = {0, 0};
        }
    }
}

// The record is unique on these keys. All MSUs of fewer keys are listed already.
void Suda::add_if_minimal(std::int32_t candidate, KeySet keys) {
    const KeySet* msus = msu_ranks_.data() + msu_starts_[candidate];
    const std::size_t n_msus = msu_starts_[candidate + 1] - msu_starts_[candidate];
    for (std::size_t i = 0; i < n_msus; ++i) {
        if ((msus[i] & ~keys) == 0) return;
    }
    new_msus_.emplace_back(candidate, keys);
}

void Suda::append_new_msus() {
    if (new_msus_.empty()) return;
    std::vector<std::size_t> starts(msu_starts_.size(), 0);
    for (const auto& [candidate, keys] : new_msus_) ++starts[candidate + 1];
    for (std::size_t c = 1; c < starts.size(); ++c) {
        starts[c] += starts[c - 1] + msu_starts_[c] - msu_starts_[c - 1];
    }
    std::vector<KeySet> ranks(starts.back());
    std::vector<std::size_t> ends(starts.begin(), starts.end() - 1);
    for (std::size_t c = 0; c + 1 < starts.size(); ++c) {
        for (std::size_t i = msu_starts_[c]; i < msu_starts_[c + 1]; ++i) ranks[ends[c]++] = msu_ranks_[i];
    }
    for (const auto& [candidate, keys] : new_msus_) ranks[ends[candidate]++] = keys;
    work_.left -= static_cast<std::int64_t>(ranks.size() + starts.size());
    msu_starts_.swap(starts);
    msu_ranks_.swap(ranks);
    std::vector<std::pair<std::int32_t, KeySet>>().swap(new_msus_);
}

std::vector<std::int32_t> Suda::candidates_by_record() {
    std::vector<std::int32_t> candidates(record_of_.size());
    std::iota(candidates.begin(), candidates.end(), 0);
    std::sort(candidates.begin(), candidates.end(),
              [&](std::int32_t a, std::int32_t b) { return record_of_[a] < record_of_[b]; });
    return candidates;
}

void Suda::write_msus(std::int32_t candidate) {
    const std::size_t begin = msu_starts_[candidate], end = msu_starts_[candidate + 1];
    work_.left -= 1 + 4 * static_cast<std::int64_t>(end - begin);
    if (begin == end) return;
    const std::int32_t record = record_of_[candidate];
    const auto first = static_cast<std::ptrdiff_t>(msu_keys_.size());
    for (std::size_t i = begin; i < end; ++i) {
        KeySet keys = 0;
        for (KeySet ranks = msu_ranks_[i]; ranks != 0; ranks &= ranks - 1) {
            keys |= KeySet{1} << ranked_keys_[std::countr_zero(ranks)];
        }
        msu_keys_.push_back(keys);
    }
    std::sort(msu_keys_.begin() + first, msu_keys_.end(), [](KeySet a, KeySet b) {
        const int size_a = std::popcount(a), size_b = std::popcount(b);
        return size_a != size_b ? size_a < size_b : a < b;
    });
    msu_records_.resize(msu_keys_.size(), record);
    labels_[record] = std::popcount(msu_keys_[first]);
}

}  // namespace dbanon
