"""Python's door to attacks: released rows of any origin against the persons they were made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dbanon.data.option import parameter
from dbanon.data.partition import Synthesis
from dbanon.doors.evaluate import Written, names_of, starred, tables_of
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.hierarchy.leaves import ANY
from dbanon.hierarchy.spec import HierarchySource, build_all, parse_all
from dbanon.hierarchy.tree import Hierarchy, flat
from dbanon.job.policy import Policy
from dbanon.measures.attacks import membership
from dbanon.measures.attacks.task import GUESSES, AttackData
from dbanon.measures.pairs import combine_codes
from dbanon.release.attacks import Attacks, attack_data_of, attacks_of

if TYPE_CHECKING:
    import pandas as pd

# Targets of membership, and releases of each with the target, of which half are guessed at.
_TARGETS, _RELEASES = 2, 40


def attack(
    original: ArrayLike | pd.DataFrame,
    released: ArrayLike | pd.DataFrame | Synthesis,
    *,
    control: ArrayLike | pd.DataFrame | None = None,
    make: Callable[[Any], Any] | None = None,
    quasi_identifiers: Sequence[str] | None = None,
    linked: Sequence[Sequence[str]] | None = None,
    orders: Mapping[str, Sequence[str]] | None = None,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    guesses: int = GUESSES,
    targets: int = _TARGETS,
    releases: int = _RELEASES,
    seed: int = 0,
) -> Attacks:
    """What attackers reach who hold released rows: classes or a synthesis, of any tool.

    Rows are not paired: no attack asks which became which. The figures are of real persons and cost
    no budget: they are for whoever is responsible for the data, and not for publication.

    Parameters
    ----------
    original, released : as ``evaluate`` takes them, of any numbers of rows, or a synthesis.
    control : records of the same kind that the release was not made of, as many where they can be;
        without them, attacks are compared with random guesses alone.
    make : makes a release of a table such as ``original``, for ``membership``, which is left out
        without. It is called some 160 times, with rows drawn from originals and control records:
        a budget inside of it is one that is thrown away.
    quasi_identifiers : the columns to compare; None for all that both tables have.
    linked : two lists of columns that are known from different places; None for the first half of
        the columns, and the second.
    orders, hierarchies : as in ``evaluate``.
    guesses : at most, of each attack and column.
    targets : records whose membership is asked about: those that are farthest from the others.
    releases : of each target how many with it, and how many without; an even number.

    Raises
    ------
    InvalidParameter : an option is out of its range, or a label is unknown.
    ColumnNotFound : a table has no column of a name.
    UnsupportedType : a column is released as another type that is no text.
    TooFewRecords : there are no originals, or no released rows.
    """
    numbers: tuple[tuple[str, Any, int], ...] = (
        ("guesses", guesses, 1),
        ("targets", targets, 1),
        ("releases", releases, 4),
        ("seed", seed, 0),
    )
    for name, value, least in numbers:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidParameter(f"{name} must be a whole number, {least} or more.")
    if releases % 2:
        raise InvalidParameter("releases must be an even number.")
    table = _Table.of(original, released, control, quasi_identifiers)
    table.orders = parameter(Policy, "orders").check(orders)
    table.trees = parse_all(hierarchies, files=True)
    table.linked = _two_parts(linked, table.names)
    exposed = replace(table.exposed(table.released), guesses=guesses, seed=seed)
    found = attacks_of(exposed)
    if make is None:
        return found
    rng = exposed.rng(membership.NAME)
    rates = [
        table.told_apart(make, int(target), releases, rng)
        for target in _farthest(exposed, targets, rng)
    ]
    return replace(found, found={**found.found, membership.NAME: membership.attack(rates)})


def _two_parts(
    linked: Sequence[Sequence[str]] | None, names: Sequence[str]
) -> Sequence[Sequence[str]] | None:
    if linked is None:
        return None
    given: Sequence[Any] = linked if isinstance(linked, (list, tuple)) else ()
    parts = [list(part) for part in given if isinstance(part, (list, tuple))]
    used = [name for part in parts for name in part]
    fits = all(name in names for name in used) and all(used.count(name) == 1 for name in used)
    if len(given) != 2 or len(parts) != 2 or not all(parts) or not fits:
        raise InvalidParameter(
            "linked must be two lists of columns, none of them in both.",
            hint="Such as [['age', 'sex'], ['zip']], of the columns that are compared.",
        )
    return parts


def _farthest(exposed: AttackData, many: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Of a thousand originals those whose nearest released rows are farthest."""
    some = rng.choice(exposed.members, min(1000, exposed.members), replace=False)
    rows = exposed.any_rows(rng, min(1000, len(exposed.weights)))
    apart = np.zeros((len(some), len(rows)))
    for column in exposed.columns:
        apart += column.apart(some[:, None], rows[None, :])
    found: np.ndarray[Any, Any] = some[np.argsort(-apart.mean(axis=1), kind="stable")[:many]]
    return found


class _Table:
    """Originals and control records in one frame, and what a release of it is read by."""

    orders: Any
    trees: Mapping[str, Any]
    linked: Sequence[Sequence[str]] | None

    def __init__(self, frame: pd.DataFrame, members: int, released: Any, names: list[str]) -> None:
        self.frame, self.members, self.released, self.names = frame, members, released, names

    @classmethod
    def of(cls, original: Any, released: Any, control: Any, wanted: Any) -> _Table:
        """Whatever was given, by the columns that are compared."""
        import pandas as pd

        before, after = tables_of(original, _rows_of(released, original))
        names = names_of(before, after, wanted, None)
        frame = before
        if control is not None:
            others = tables_of(original, control)[1]
            names_of(before, others, names, None)
            frame = pd.concat([before[names], others[names]], ignore_index=True)
        if not len(before) or not len(after):
            raise TooFewRecords("There are no originals, or no released rows.")
        return cls(frame[names], len(before), after, names)

    def exposed(self, after: pd.DataFrame) -> AttackData:
        """All records beside the rows of one release, those that say nothing left out."""
        from dbanon.stores.frame.microdata import microdata_from_frame

        microdata = microdata_from_frame(self.frame, self.names, orders=self.orders)
        after = after[self.names]
        after = after[~starred(after, self.names)]
        if not len(after):
            raise TooFewRecords("All released rows are withheld.")
        columns = [Written.of(one, after[one.name]) for one in microdata.attributes]
        alike = combine_codes([column.codes for column in columns], len(after))
        _, firsts, weights = np.unique(alike, return_index=True, return_counts=True)
        trees: dict[str, Hierarchy] = dict(build_all(self.trees, microdata))
        for position, attribute in enumerate(microdata.categorical):
            values = set(after[attribute.name].dropna().astype(str)) - {ANY}
            known = microdata.categories[position]
            # A synthesis may have public values that nobody has.
            trees.setdefault(attribute.name, flat([*known, *sorted(values - {*known})]))
        made = [column.at(firsts) for column in columns]
        return attack_data_of(
            microdata, self.members, made, weights.astype(np.int64), trees, linked=self.linked
        )

    def told_apart(
        self, make: Callable[[Any], Any], target: int, releases: int, rng: np.random.Generator
    ) -> Any:
        """Right guesses of membership of one record."""
        others = np.delete(np.arange(len(self.frame)), target)
        size = max(len(others) // 2, 1)
        figures: tuple[list[Any], list[Any]] = ([], [])
        for _ in range(releases):
            for inside, told in enumerate(figures):
                rows = rng.choice(others, size, replace=False)
                if inside == 0:
                    rows[0] = target
                given = self.frame.iloc[rng.permutation(rows)].reset_index(drop=True)
                after = tables_of(self.frame, _rows_of(make(given), self.frame))[1]
                told.append(membership.release_features(self.exposed(after), target))
        return membership.membership_rate(np.array(figures[0]), np.array(figures[1]))


def _rows_of(released: Any, like: Any) -> Any:
    """A synthesis as a table, or as an array where the originals are one."""
    import pandas as pd

    if not isinstance(released, Synthesis):
        return released
    return pd.DataFrame(dict(released.columns)) if hasattr(like, "columns") else released.values
