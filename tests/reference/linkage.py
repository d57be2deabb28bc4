"""Record linkage by comparing everything with everything: slow, obvious, equal to the kernel."""

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
