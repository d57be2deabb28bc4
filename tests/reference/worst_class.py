"""Measures of a sensitive attribute as papers and other tools have them: those of the worst class.

Without classes they are those of a perfect release.
"""

from __future__ import annotations

import numpy as np

from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures.sensitive import (
    Counts,
    each_beta,
    each_delta,
    each_distinct,
    each_entropy,
    each_largest_share,
    each_recursive,
    each_t,
)  # fmt: skip


def distinct_l(counts: Counts) -> int:
    """Distinct l-diversity, also the p of p-sensitive k-anonymity: values in a class, at least.

    Sources: A. Machanavajjhala, J. Gehrke, D. Kifer and M. Venkitasubramaniam, "l-diversity", ACM
    TKDD 1 (2007); T. Truta and B. Vinay, "Privacy protection: p-sensitive k-anonymity property",
    ICDE workshops 2006.
    """
    return int(each_distinct(counts).min(initial=counts.shape[1]))


def entropy_l(counts: Counts) -> float:
    """Entropy l-diversity: the exponential of the smallest entropy; l or more of it is wanted."""
    return float(each_entropy(counts).min(initial=counts.shape[1]))


def recursive_c(counts: Counts, l: int) -> float:  # noqa: E741
    """The bound that c must exceed for recursive (c, l)-diversity; infinite if no c does."""
    return float(each_recursive(counts, l).max(initial=0.0))


def largest_share(counts: Counts) -> float:
    """The alpha of (alpha, k)-anonymity: the largest share of one value in a class.

    Source: R. Wong, J. Li, A. Fu and K. Wang, "(alpha, k)-anonymity", KDD 2006.
    """
    return float(each_largest_share(counts).max(initial=0.0))


def t_closeness(counts: Counts, distance: str | Hierarchy = "equal") -> float:
    """The t of t-closeness: the largest earth mover's distance of a class from the whole table.

    Parameters
    ----------
    distance : ``equal``: all values are one apart; ``ordered``: values are in their order, the ends
        one apart; or a hierarchy whose leaves are the values, in their order: two are apart by the
        height of their common ancestor over the height of the tree.

    Source: N. Li, T. Li and S. Venkatasubramanian, "t-closeness", ICDE 2007, section 4.
    """
    return float(each_t(counts, distance).max(initial=0.0))


def beta_likeness(counts: Counts) -> float:
    """Basic beta-likeness: the largest relative gain (q - p) / p of a value's share in a class.

    Source: J. Cao and P. Karras, "Publishing microdata with a robust privacy guarantee", PVLDB 5
    (2012).
    """
    return float(each_beta(counts).max(initial=0.0))


def enhanced_beta_likeness(counts: Counts) -> float:
    """Enhanced beta-likeness: as basic, no value's gain counting above -ln of its share.

    As pycanon computes it: the basic beta or the largest -ln p, whichever is smaller.
    """
    if not len(counts):
        return 0.0
    p = counts.sum(axis=0) / counts.sum()
    return float(min(beta_likeness(counts), -np.log(p[p > 0].min())))


def delta_disclosure(counts: Counts) -> float:
    """The delta of delta-disclosure privacy: the largest |ln(q / p)| of a value that a class holds.

    Source: J. Brickell and V. Shmatikov, "The cost of privacy", KDD 2008. There all values of the
    table are meant, so that one that a class lacks breaks every delta; here, as in ARX and pycanon,
    it is left out. Where classes hold every value (``distinct_l``) both are the same.
    """
    return float(each_delta(counts).max(initial=0.0))
