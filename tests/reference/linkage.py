"""Record linkage by comparing everything with everything: slow, obvious, equal to the kernel."""

import functools

import numpy as np

from tests.reference.methods import distances

TIE = 1.0 + 1e-9


def nearest(questions, points, weights=None):
    """For each question, float64 (n, p), what the kernel `Linkage` says of it.

    Returns the first of the very nearest points, the squared distance to it, the next squared
    distance that does not tie (the same one where there is none), and the weights of all ties.
    """
    weights = np.ones(len(points), np.int64) if weights is None else weights
    labels, firsts, seconds, sums = [], [], [], []
    for question in questions:
        squares = distances(points, question)
        first = squares.min()
        ties = squares <= first * TIE
        labels.append(int(np.argmin(squares)))
        firsts.append(first)
        seconds.append(squares[~ties].min() if not ties.all() else first)
        sums.append(int(weights[ties].sum()))
    return np.array(labels), np.array(firsts), np.array(seconds), np.array(sums)


def box_distances(parents, questions, boxes):
    """float64 (m,), the sum of eq. (11) between one box and others, in the order of the columns.

    A box is its ends, float64 (numbers, 2), and its nodes, int32 (hierarchies,).
    """
    ends, nodes = iter(range(questions[0].shape[0])), iter(range(len(questions[1])))
    distances = np.zeros(len(boxes[0]))
    for tree in parents:
        if tree is None:
            at = next(ends)
            low, high = questions[0][at]
            gaps = np.maximum(boxes[0][:, at, 0] - high, low - boxes[0][:, at, 1])
            distances += np.maximum(gaps, 0.0)
        else:
            at = next(nodes)
            # Once for each node that occurs.
            values, which = np.unique(boxes[1][:, at], return_inverse=True)
            climbs = [climb(tree, int(questions[1][at]), int(node)) for node in values]
            distances += np.array(climbs)[which.reshape(-1)]
    return distances


def climb(parents, first, other):
    """Height of the lowest common ancestor above the one that is no leaf, over the tree's."""
    tall = heights(tuple(parents.tolist()))
    ways = []
    for node in (first, other):
        ancestors = [node]
        while ancestors[-1]:
            ancestors.append(int(parents[ancestors[-1]]))
        ways.append(ancestors)
    above = next(node for node in ways[0] if node in ways[1])
    return (tall[above] - tall[first] - tall[other]) / max(tall[0], 1)


@functools.cache
def heights(parents):
    """Edges from each node down to its deepest leaf."""
    distances = [0] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        distances[parents[node]] = max(distances[parents[node]], distances[node] + 1)
    return distances


def nearest_boxes(parents, questions, boxes, weights=None):
    """For each question what the kernel `MixedLinkage` says: as ``nearest``, without labels."""
    weights = np.ones(len(boxes[0]), np.int64) if weights is None else weights
    firsts, seconds, sums = [], [], []
    for question in zip(*questions, strict=True):
        distances = box_distances(parents, question, boxes)
        first = distances.min()
        ties = distances <= first * TIE
        beyond = distances[~ties].min(initial=np.inf)
        firsts.append(first)
        seconds.append(beyond if np.isfinite(beyond) else first)
        sums.append(int(weights[ties].sum()))
    return np.array(firsts), np.array(seconds), np.array(sums)
