"""Plain numpy versions of the kernels for classes of variable size: slow and obvious."""

from itertools import combinations

import numpy as np


def numbered(labels):
    """The same classes, numbered by their first records."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return rank[inverse.reshape(-1)].astype(np.int32)


def squared(points, position):
    """Squared distances of each record to a position."""
    return np.square(points - position).sum(axis=1)


def sse(points, members):
    """The sum of squares within one class."""
    inside = points[members]
    return np.square(inside - inside.mean(axis=0)).sum()


def optimal_cut(points, order, k):
    """The best cut of an order into classes of k to 2k-1, by all shortest paths from the start."""
    n = len(order)
    best = [0.0] + [np.inf] * n
    start = [0] * (n + 1)
    for end in range(k, n + 1):
        for size in range(k, min(2 * k - 1, end) + 1):
            total = best[end - size] + sse(points, order[end - size : end])
            if total < best[end]:
                best[end], start[end] = total, end - size
    labels = np.empty(n, np.int32)
    ends = [n]
    while ends[-1] > 0:
        ends.append(start[ends[-1]])
    for label, (low, high) in enumerate(zip(ends[::-1], ends[::-1][1:], strict=False)):
        labels[order[low:high]] = label
    return labels


def nearest_path(points, groups=None):
    """Records in the order of nearest point next; with groups one group after the other."""
    first = int(np.argmax(squared(points, points.mean(axis=0))))
    if groups is None:
        return _walk(points, np.arange(len(points)), first)
    centroids = np.array([points[groups == g].mean(axis=0) for g in range(groups.max() + 1)])
    path, waiting = [], list(range(len(centroids)))
    group, record = int(groups[first]), first
    while True:
        path += _walk(points, np.flatnonzero(groups == group), record)
        waiting.remove(group)
        if not waiting:
            return path
        centroid = centroids[group]
        group = waiting[int(np.argmin(squared(centroids[waiting], centroid)))]
        members = np.flatnonzero(groups == group)
        record = int(members[np.argmin(squared(points[members], centroid))])


def _walk(points, ids, record):
    ids, path = [int(i) for i in ids], []
    while True:
        path.append(record)
        ids.remove(record)
        if not ids:
            return path
        record = ids[int(np.argmin(squared(points[ids], points[record])))]


def farthest_pair(points, ids):
    """The two most distant records, the first such pair in order of index."""
    best, pair = -1.0, None
    for r, s in combinations(ids, 2):
        at = np.square(points[r] - points[s]).sum()
        if at > best:
            best, pair = at, (r, s)
    return pair


def both_ends(points, ids, k):
    """One class of k around each of the two most distant records, and the records left."""
    ids = list(ids)
    pairs = []
    for seed in farthest_pair(points, ids):
        order = sorted(ids, key=lambda i: (i != seed, np.square(points[i] - points[seed]).sum(), i))
        pairs.append(order[:k])
        ids = [i for i in ids if i not in pairs[-1]]
    return pairs, ids


def kward(points, k):
    """k-Ward by always taking the cheapest pair of all."""
    waiting, labels = [list(range(len(points)))], np.empty(len(points), np.int32)
    classes = 0
    while waiting:
        ids = waiting.pop()
        if len(ids) < 2 * k:
            labels[ids] = classes
            classes += 1
            continue
        ends, remaining = both_ends(points, ids, k)
        clusters = [*ends, *([i] for i in remaining)]
        while any(len(cluster) < k for cluster in clusters):
            least, pair = np.inf, None
            for a, b in combinations(range(len(clusters)), 2):
                n, m = len(clusters[a]), len(clusters[b])
                if n >= k and m >= k:
                    continue
                gap = points[clusters[a]].mean(axis=0) - points[clusters[b]].mean(axis=0)
                cost = n * m / (n + m) * np.square(gap).sum()
                if cost < least:
                    least, pair = cost, (a, b)
            clusters[pair[0]] += clusters.pop(pair[1])
        waiting += [sorted(cluster) for cluster in clusters]
    return numbered(labels)


def mst(points, k, diametric):
    """Prim's tree from record 0, its long edges cut, and large trees split by MD.

    The smallest of equally near records comes next; its parent is the first in the tree of those as
    near. Of equal edges that of the smaller lower end is cut first.
    """
    n = len(points)
    length, parent = squared(points, points[0]), np.zeros(n, int)
    free, tree = list(range(1, n)), []
    while free:
        child = free[int(np.argmin(length[free]))]
        free.remove(child)
        tree.append((length[child], child, parent[child]))
        gap = squared(points, points[child])
        parent[gap < length] = child
        length = np.minimum(length, gap)
    edges = list(tree)
    for edge in sorted(tree, key=lambda edge: (-edge[0], edge[1])):
        without = [other for other in edges if other != edge]
        if min(len(_reached(without, edge[1])), len(_reached(without, edge[2]))) >= k:
            edges = without
    classes, left = [], set(range(n))
    while left:
        ids = sorted(_reached(edges, min(left)))
        left -= set(ids)
        classes += _md(points, ids, k) if diametric else [ids]
    labels = np.empty(n, np.int32)
    for label, ids in enumerate(classes):
        labels[ids] = label
    return numbered(labels)


def _reached(edges, start):
    seen, todo = {start}, [start]
    while todo:
        at = todo.pop()
        for _, a, b in edges:
            for first, other in ((a, b), (b, a)):
                if first == at and other not in seen:
                    seen.add(other)
                    todo.append(other)
    return seen


def _md(points, ids, k):
    classes = []
    while len(ids) >= 2 * k:
        ends, ids = both_ends(points, ids, k)
        classes += ends
    if len(ids) >= k:
        return [*classes, ids]
    centroids = np.array([points[members].mean(axis=0) for members in classes])
    for i in ids:
        classes[int(np.argmin(squared(centroids, points[i])))].append(i)
    return classes


def dbscan(points, k, radius):
    """DBSCAN with all distances at once; -1 for noise. Classes grow in the order of the records."""
    gaps = np.zeros((len(points), len(points)))
    for column in points.T:
        gaps += np.square(column[:, None] - column)
    near = gaps <= radius * radius
    core = near.sum(axis=1) >= k
    labels = np.full(len(points), -1, np.int32)
    classes = 0
    for first in np.flatnonzero(core):
        if labels[first] >= 0:
            continue
        reached, before = {int(first)}, set()
        while reached != before:
            before = reached
            reached = before | set(np.flatnonzero(near[[i for i in before if core[i]]].any(axis=0)))
        labels[[i for i in reached if labels[i] < 0]] = classes
        classes += 1
    return labels


def dcm(points, k, radius):
    """DBSCAN's classes of k or more; the other records form a class, or join the nearest ones."""
    pairs = dbscan(points, k, radius)
    classes = [ids for ids in map(pairs.__eq__, range(pairs.max() + 1)) if ids.sum() >= k]
    noise = np.flatnonzero(~np.any(classes, axis=0)) if classes else np.arange(len(points))
    labels = np.full(len(points), len(classes), np.int32)
    for label, ids in enumerate(classes):
        labels[ids] = label
    if len(noise) < k:
        centroids = np.array([points[ids].mean(axis=0) for ids in classes])
        labels[noise] = [int(np.argmin(squared(centroids, points[i]))) for i in noise]
    return labels
