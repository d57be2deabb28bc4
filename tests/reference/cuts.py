"""Cuts record by record, in plain loops and numpy; nothing here calls the package."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_MASK = 2**64 - 1
# A direction is that of so many records, taken at equal steps.
_SAMPLE = 10_000


class Cuts(NamedTuple):
    """A tree: directions, borders, their records' keys, and where both sides of each cut lead."""

    directions: np.ndarray
    borders: np.ndarray
    keys: np.ndarray
    targets: np.ndarray


def assign(cuts, points, keys):
    """The block of each record, walked from the root."""
    blocks = []
    for point, key in zip(points.tolist(), keys.tolist(), strict=True):
        at = 0 if len(cuts.borders) else -1
        while at >= 0:
            along = 0.0
            for value, share in zip(point, cuts.directions[at].tolist(), strict=True):
                along += value * share
            border = (float(cuts.borders[at]), int(cuts.keys[at]))
            at = int(cuts.targets[at][0 if (along, key) < border else 1])
        blocks.append(-1 - at)
    return blocks


def sizes(n, parts):
    """The sizes of the blocks of n records: halves again and again, as equal as blocks are."""
    if parts == 1:
        return [n]
    below = n * (parts // 2) // parts
    return sizes(below, parts // 2) + sizes(n - below, parts - parts // 2)


def hashed(key):
    """The first number of splitmix64 seeded with a key, as its authors print it."""
    z = (key + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def sampled(keys, n_wanted):
    """Positions of the keys of the smallest hashes, ascending."""
    order = sorted(range(len(keys)), key=lambda i: hashed(keys[i]))
    return sorted(order[:n_wanted])


def joined(cuts, counts, least):
    """The block of each leaf: small ones join the smallest on the other side of their cut."""

    def walk(at):
        if at < 0:
            return [[-1 - at]]
        low, high = (walk(int(child)) for child in cuts.targets[at])
        for first, other in ((low, high), (high, low)):
            if len(first) == 1 and other and sum(counts[i] for i in first[0]) < least:
                by_size = sorted(other, key=lambda leaves: sum(counts[i] for i in leaves))
                smallest = sum(counts[i] for i in by_size[0])
                target = min(
                    leaves for leaves in other if sum(counts[i] for i in leaves) == smallest
                )
                target.extend(first.pop())
                target.sort()
        return low + high

    groups = sorted(walk(0 if len(cuts.borders) else -1))
    return [next(g for g, leaves in enumerate(groups) if i in leaves) for i in range(len(counts))]


def _blocks(points, keys, parts, weights, least, direction):
    sample = sampled(keys.tolist(), 500 * parts)
    cuts = fit(points[sample], parts, direction, keys[sample])
    leaves = assign(cuts, points, keys)
    counts = [0] * parts
    for leaf, weight in zip(leaves, weights, strict=True):
        counts[leaf] += weight
    group = joined(cuts, counts, least)
    return [group[leaf] for leaf in leaves]


def _listed(numbers):
    return [[i for i, b in enumerate(numbers) if b == block] for block in range(max(numbers) + 1)]


def blocks(points, keys, size, least, direction=0):
    """The positions of each block's records."""
    parts = -(-len(points) // size)
    return _listed(_blocks(points, keys, parts, [1] * len(keys), least, direction))


def blocks_of_classes(points, labels, keys, size, least, direction):
    """The same for entire classes, represented by their means and first keys."""
    classes = [np.flatnonzero(labels == c) for c in range(labels.max() + 1)]
    means = np.array([points[members].sum(axis=0) / len(members) for members in classes])
    firsts = np.array([keys[members[0]] for members in classes])
    weights = [len(members) for members in classes]
    parts = -(-len(classes) // max(size * len(classes) // len(labels), 1))
    numbers = _blocks(means, firsts, parts, weights, least, direction)
    return _listed([numbers[label] for label in labels.tolist()])


def principal(points, direction):
    """A principal direction: an eigenvector of the scatter matrix, the largest eigenvalue first."""
    sample = points[:: max(len(points) // _SAMPLE, 1)]
    centred = sample - sample.mean(axis=0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return vectors[:, max(vectors.shape[1] - 1 - direction, 0)]


def fit(points, parts, direction, keys):
    """The cuts, found one after the other, lower sides first."""
    directions, borders, border_keys, sides = [], [], [], []
    blocks = 0
    pending = [(np.arange(len(points)), parts, None, 0)]
    while pending:
        records, n_blocks, parent, side = pending.pop()
        if parent is not None:
            sides[parent][side] = len(borders) if n_blocks > 1 else -1 - blocks
        if n_blocks == 1:
            blocks += 1
            continue
        middle = len(records) * (n_blocks // 2) // n_blocks
        chosen = principal(points[records], direction)
        along = sum(points[records, a] * chosen[a] for a in range(points.shape[1]))
        # In the order that numpy leaves records in: the last bits of sums depend on it.
        order = np.argpartition(along, middle)
        border = along[order[middle]]
        tied = np.flatnonzero(along[order] == border)
        order[tied] = order[tied][np.argsort(keys[records[order[tied]]])]
        directions.append(chosen)
        borders.append(border)
        border_keys.append(keys[records[order[middle]]])
        sides.append([0, 0])
        index = len(borders) - 1
        pending.append((records[order[middle:]], n_blocks - n_blocks // 2, index, 1))
        pending.append((records[order[:middle]], n_blocks // 2, index, 0))
    p = points.shape[1]
    return Cuts(
        np.array(directions).reshape(-1, p),
        np.array(borders),
        np.array(border_keys, np.int64),
        np.array(sides, np.int64).reshape(-1, 2),
    )
