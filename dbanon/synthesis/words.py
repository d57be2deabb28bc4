"""What a release by dp_ranks guarantees, and how it was made, in words; of public figures alone."""

from __future__ import annotations

from dbanon.synthesis.shares import Shares


def guarantee(shares: Shares, unit: str, source: str, budget: str) -> str:
    """What holds of the release.

    Parameters
    ----------
    unit : ``row`` or ``person``: what one of is protected.
    source : what was read, in words.
    budget : what is spent of which budget, in words.
    """
    e = f"{shares.epsilon:g}"
    return (
        f"ε-differential privacy with ε = {e} for one {unit}: replacing one {unit} of {source} by"
        " any other changes the probability of every possible release by a factor of at most"
        f" e^{e}. The number of {unit}s, the bounds and the hierarchies are taken as public."
        f" {budget}; what was released outside this budget is not counted. This rests on the"
        " method's proof and its noise source; it cannot be checked on the release, and was not."
        " Rows are synthetic: none stands for a source row, and the release is not k-anonymous."
    )


def told(shares: Shares) -> tuple[str, ...]:
    """How it was made."""
    dependence = (
        f"Dependence: a tree of {shares.p - 1} two-way counts of up to {shares.bins} bins a column,"
        f" and {shares.pairs} noisy correlations of what it leaves open."
        if shares.dependent
        else "One column: there is nothing to depend on."
        if shares.p == 1
        else "Columns are independent in the release: epsilon and rows are too few for more."
    )
    sums = shares.n // shares.class_size
    margins = []
    if shares.listed < shares.p:
        margins.append(f"Margins: {sums} sums of {shares.class_size} order statistics a column.")
    if shares.listed < shares.p and shares.edges is not None:
        margins.append(f"Beside them counts between {2**shares.edges.depth - 1} noisy quantiles.")
    if shares.listed:
        margins.append(f"Margins of {shares.listed} columns: counts of their public values.")
    return (*margins, dependence)
