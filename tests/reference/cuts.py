"""Cuts record by record, in plain loops."""

from __future__ import annotations


def assign(cuts, points, keys):
    """The block of each record, walked from the root."""
    found = []
    for point, key in zip(points.tolist(), keys.tolist(), strict=True):
        at = 0 if len(cuts.borders) else -1
        while at >= 0:
            along = 0.0
            for value, share in zip(point, cuts.directions[at].tolist(), strict=True):
                along += value * share
            border = (float(cuts.borders[at]), int(cuts.keys[at]))
            at = int(cuts.next[at][0 if (along, key) < border else 1])
        found.append(-1 - at)
    return found


def sizes(n, parts):
    """The sizes of the blocks of n records: halves again and again, as equal as blocks are."""
    if parts == 1:
        return [n]
    below = n * (parts // 2) // parts
    return sizes(below, parts // 2) + sizes(n - below, parts - parts // 2)
