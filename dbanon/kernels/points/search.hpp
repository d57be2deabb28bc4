// The inner loops of every kernel: distances to blocks of records, and best-bound walks of the
// tree. They are compiled once per instruction set; this header holds only plain structures, so that
// no inline function of the library is compiled with instructions the machine may lack.
//
// Exactness. A squared distance is the sum of (q_j - x_j)^2, attributes left to right, without
// fused operations. The bounds of a box are computed by the very same operations on the box's faces.
// Rounding is monotone, hence the computed bound never passes the computed distance of a
// record inside the box: bounds need no slack, whatever the magnitude of the data.
//
// The far corner of a box overestimates distances, more so with more attributes. With o a
// point in the middle of all and N at least the largest |x - o| below a child, a multiplier m gives
// |x - q|^2 <= sum over j of max (x_j - q_j)^2 - m (x_j - o_j)^2 over the box's interval, + m N^2,
// where the maximum is at the clamped vertex of a parabola when m > 1. Farthest searches use the
// smaller of both bounds; this one carries a slack for rounding, and is dropped where it overflows.
#pragma once

#include <cstdint>

#include "common/table.hpp"

namespace dbanon {

constexpr int kMinCoarseAttributes = 6;  // integer steps pay from this number on (coarse.hpp)
constexpr int kBlock = 16;  // records in a block (a leaf of the tree) with integer steps
constexpr int kFanOut = 8;     // children of an inner node
constexpr int kLinksPerNode = 2 * kFanOut;
constexpr int kQueueCapacity = 16;  // leaves that may be queued in a walk (walk.hpp)

// The multiplier of the second bound above: of those tried from 1 to 3 it opened the fewest boxes,
// two to four times fewer than 1, on normal and clustered data of 4 and 10 attributes.
constexpr double kReachMultiplier = 1.6;

struct RecordDistance {
    double distance;  // squared
    std::int32_t id;
};

// Blocks of block_records(p) records each: attribute j of lane l in block b is at
// points[(b * p + j) * block_records(p) + l]. Lanes from count[b] on hold arbitrary finite values.
//
// Where `coarse` is not null, attributes 2i and 2i + 1 of lane l in block b are also at
// coarse[((b * pairs + i) * kBlock + l) * 2], in integer steps (coarse.hpp), and
// has_clipped[b] is not 0 if a record of block b is clipped. Then record i is at rows[i * p], too.
//
// Where `codes` is not null, block b has (1 + groups) * kBlock * 4 bytes there: for each lane a 32-bit offset,
// then for each group of four attributes four codes for each lane (coarse.hpp).
struct BlocksView {
    int p;
    const double* points;
    const std::int32_t* ids;
    const std::int32_t* count;
    const double* rows;
    const std::int16_t* coarse;
    const std::uint8_t* has_clipped;
    double step;
    const std::int8_t* codes = nullptr;
    double code_step = 0.0;
};

// Inner node i: lower faces lo[j][child] at boxes[i * (2p + 1) * kFanOut], upper faces hi[j][child], then
// the reach of each child: at least the distance of its records from `middle`.
// links[i * kLinksPerNode] and on: child[kFanOut], first_id[kFanOut], together one line of the cache. child >= 0 is
// an inner node, child < 0 the leaf ~child. `first_id` is the smallest record index below the child,
// so that ties end a search early.
//
// In integer steps, node i has the lower faces of pair j at coarse[((i * pairs + j) * kFanOut + child) * 4],
// then the upper ones; coarse_reach[i * kFanOut + child] is the multiplier times the squared reach in steps,
// rounded up, and bit `child` of has_clipped[i] is set if a record below is clipped.
struct TreeView {
    BlocksView leaves;
    const double* boxes;
    const double* middle;
    const std::int32_t* links;
    const std::uint8_t* live_children;
    const std::int16_t* coarse;
    const double* coarse_reach;
    const std::uint8_t* has_clipped;
};

// A node or leaf that a search has yet to open.
struct PendingNode {
    double bound;           // of the squared distances to the records below
    std::int32_t ref;       // a node, or ~leaf
    std::int32_t first_id;  // the smallest record index below
};

// A point in integer steps, by pairs of attributes: its coordinates, each plus and minus one, and the
// vertex of the parabola above. `slack` covers rounding; `is_unclipped` is false for a clipped point.
struct CoarsePoint {
    const std::int16_t* steps = nullptr;  // null without integer steps
    const std::int16_t* above = nullptr;
    const std::int16_t* below = nullptr;
    const std::int16_t* vertex = nullptr;
    double slack = 0.0;
    bool is_unclipped = false;
    // The sum of squared steps that belongs to `threshold_of`, a limit of the search.
    double threshold_of = -2.0;
    std::int32_t threshold = 0;
    // The codes of the point, each plus 128, the sum of their squares, and the length that rounding to them took.
    const std::uint8_t* codes = nullptr;
    double code_norm = 0.0;
    double code_error = 0.0;
};

// A search for the k records nearest to `point`, resumable: the results so far are a heap with the
// farthest on top. Only records up to `limit`, and at the limit up to `limit_id`, are of interest.
struct Near {
    const double* point;
    std::int32_t k;
    std::int32_t excluded_id;
    std::int32_t count;
    std::int32_t limit_id;
    double limit;
    RecordDistance* results;
    PendingNode* stack;
    std::int32_t pending;  // height of the stack; when scanning, the next block
    CoarsePoint coarse{};
    std::int32_t nodes_to_recheck = 0;  // in doubles
    std::int32_t visited_leaf = -1;     // a leaf visited before the walk
};

// A search for the record farthest from `point`, resumable. `to_middle` is middle - point,
// `middle_distance` its length, and `vertex` that of the parabola above, relative to the middle.
struct Far {
    const double* point;
    const double* to_middle;
    const double* vertex;
    double middle_distance;
    RecordDistance best;
    PendingNode* stack;
    std::int32_t pending;
    CoarsePoint coarse{};
    std::int32_t nodes_to_recheck = 0;
};

// The searches entries[begin] to entries[end - 1], which have to open a node or leaf.
struct PendingQueries {
    std::int32_t ref;
    std::int64_t begin, end;
};

// Searches that walk the tree together, resumable: each node is read once for all that open it (batch_walk.hpp).
template <class Query>
struct Batch {
    Query* const* queries;
    std::int32_t count;
    PendingQueries* stack;
    std::int32_t pending;
    std::int32_t* entries;  // searches, by number
    std::int32_t* masks;    // the children of a node that each of its searches opens
    std::int32_t* words;    // n_words for each search
    std::int32_t n_words;
};

struct Ops {
    // The searches return true when the search is complete, false when the slice is spent.
    bool (*nearest)(const TreeView&, Near&, Work&);
    // Any k records within the fixed limit, or all if there are fewer.
    bool (*within)(const TreeView&, Near&, Work&);
    bool (*farthest)(const TreeView&, Far&, Work&);
    // The searches of a batch have a limit each; its stack begins with the root for all of them. Null without
    // the instructions that make batches pay.
    bool (*nearest_of_batch)(const TreeView&, Batch<Near>&, Work&);
    bool (*farthest_of_batch)(const TreeView&, Batch<Far>&, Work&);
    // Upper bounds of the distances to the records below each child.
    void (*far_bounds)(const TreeView&, std::int32_t node, const Far&, double* out);
    // Scans blocks first..last-1 for either query or both.
    void (*scan_near)(const BlocksView&, std::int32_t first, std::int32_t last, Near&);
    void (*scan_far)(const BlocksView&, std::int32_t first, std::int32_t last, Far&);
    void (*scan_both)(const BlocksView&, std::int32_t first, std::int32_t last, Near&, Far&);
    // All distances between m records; attribute j of record y is at columns[j * stride + y], and
    // stride a multiple of kFanOut. out[x * stride + y] is finite garbage for y from m on.
    void (*pairwise)(const double* columns, int p, std::int32_t m, std::int32_t stride, double* out);
    // Adds `gap` to `row` and returns the first index where row + penalty is least, both of length `stride`.
    std::int32_t (*add_and_find_least)(double* row, const double* gap, const double* penalty,
                                  std::int32_t stride);
};

constexpr int kMaxTemplatedAttributes = 16;  // up to this number of attributes there is specialized code; entry 0 is generic

// With few attributes larger blocks are faster: scanning is cheap and there are fewer nodes.
inline constexpr int block_records(int p) { return p > 0 && p < kMinCoarseAttributes ? 2 * kBlock : kBlock; }

// The cost of a block, in units of Work.
inline constexpr std::int64_t block_cost(int p) { return block_records(p) * (p < 8 ? 1 : p / 8); }

}  // namespace dbanon
