"""The Python API for attacks: released rows from any tool against the original persons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dbanon.data.option import parameter
from dbanon.data.partition import Synthesis
from dbanon.doors.evaluate import ReleasedValues, as_frames, columns_to_compare, is_all_stars
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.hierarchy.leaves import ANY
from dbanon.hierarchy.spec import HierarchySource, build_all, parse_all
from dbanon.hierarchy.tree import Hierarchy, flat
from dbanon.job.policy import Policy
from dbanon.measures.attacks import membership
from dbanon.measures.attacks.task import GUESSES, AttackData
from dbanon.measures.pairs import combine_codes
from dbanon.release.attacks import Attacks, build_attack_data, run_all_attacks

if TYPE_CHECKING:
    import pandas as pd

# Defaults of the membership attack: number of targets, and of releases with and without each.
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
    """Measure attacks on released rows: classes or synthetic rows, from any tool.

    Attacks do not use which original became which row. The figures concern real persons and spend
    no privacy budget, so they are for those responsible for the data, not for publication.

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
    attacks = run_all_attacks(exposed)
    if make is None:
        return attacks
    rng = exposed.rng(membership.NAME)
    rates = [
        table.membership_rate(make, int(target), releases, rng)
        for target in _farthest(exposed, targets, rng)
    ]
    return replace(attacks, results={**attacks.results, membership.NAME: membership.attack(rates)})


def _two_parts(
    linked: Sequence[Sequence[str]] | None, names: Sequence[str]
) -> Sequence[Sequence[str]] | None:
    if linked is None:
        return None
    lists: Sequence[Any] = linked if isinstance(linked, (list, tuple)) else ()
    parts = [list(part) for part in lists if isinstance(part, (list, tuple))]
    used = [name for part in parts for name in part]
    fits = all(name in names for name in used) and all(used.count(name) == 1 for name in used)
    if len(lists) != 2 or len(parts) != 2 or not all(parts) or not fits:
        raise InvalidParameter(
            "linked must be two lists of columns, none of them in both.",
            hint="Such as [['age', 'sex'], ['zip']], of the columns that are compared.",
        )
    return parts


def _farthest(
    exposed: AttackData, n_targets: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Select outliers: of a thousand originals, those farthest from the released rows."""
    candidates = rng.choice(exposed.members, min(1000, exposed.members), replace=False)
    rows = exposed.any_rows(rng, min(1000, len(exposed.weights)))
    distances = np.zeros((len(candidates), len(rows)))
    for column in exposed.columns:
        distances += column.apart(candidates[:, None], rows[None, :])
    targets: np.ndarray[Any, Any] = candidates[
        np.argsort(-distances.mean(axis=1), kind="stable")[:n_targets]
    ]
    return targets


class _Table:
    """Originals and control records in one frame, with the options for reading releases."""

    orders: Any
    trees: Mapping[str, Any]
    linked: Sequence[Sequence[str]] | None

    def __init__(self, frame: pd.DataFrame, members: int, released: Any, names: list[str]) -> None:
        self.frame, self.members, self.released, self.names = frame, members, released, names

    @classmethod
    def of(cls, original: Any, released: Any, control: Any, quasi_identifiers: Any) -> _Table:
        """Combine the tables of a call, restricted to the columns to compare."""
        import pandas as pd

        before, after = as_frames(original, _rows_of(released, original))
        names = columns_to_compare(before, after, quasi_identifiers, None)
        frame = before
        if control is not None:
            others = as_frames(original, control)[1]
            columns_to_compare(before, others, names, None)
            frame = pd.concat([before[names], others[names]], ignore_index=True)
        if not len(before) or not len(after):
            raise TooFewRecords("There are no originals, or no released rows.")
        return cls(frame[names], len(before), after, names)

    def exposed(self, after: pd.DataFrame) -> AttackData:
        """Build the input of attacks on a release, without its rows of stars alone."""
        from dbanon.stores.frame.microdata import microdata_from_frame

        microdata = microdata_from_frame(self.frame, self.names, orders=self.orders)
        after = after[self.names]
        after = after[~is_all_stars(after, self.names)]
        if not len(after):
            raise TooFewRecords("All released rows are suppressed.")
        columns = [
            ReleasedValues.of(source_attribute, after[source_attribute.name])
            for source_attribute in microdata.attributes
        ]
        row_codes = combine_codes([column.codes for column in columns], len(after))
        _, firsts, weights = np.unique(row_codes, return_index=True, return_counts=True)
        trees: dict[str, Hierarchy] = dict(build_all(self.trees, microdata))
        for position, attribute in enumerate(microdata.categorical):
            values = set(after[attribute.name].dropna().astype(str)) - {ANY}
            categories = microdata.categories[position]
            # A synthesis may contain public values that occur in no record.
            trees.setdefault(attribute.name, flat([*categories, *sorted(values - {*categories})]))
        released_columns = [column.at(firsts) for column in columns]
        return build_attack_data(
            microdata,
            self.members,
            released_columns,
            weights.astype(np.int64),
            trees,
            linked=self.linked,
        )

    def membership_rate(
        self, make: Callable[[Any], Any], target: int, releases: int, rng: np.random.Generator
    ) -> Any:
        """Measure how often membership of a record is guessed right."""
        others = np.delete(np.arange(len(self.frame)), target)
        size = max(len(others) // 2, 1)
        figures: tuple[list[Any], list[Any]] = ([], [])
        for _ in range(releases):
            for inside, side in enumerate(figures):
                rows = rng.choice(others, size, replace=False)
                if inside == 0:
                    rows[0] = target
                records = self.frame.iloc[rng.permutation(rows)].reset_index(drop=True)
                after = as_frames(self.frame, _rows_of(make(records), self.frame))[1]
                side.append(membership.release_features(self.exposed(after), target))
        return membership.membership_rate(np.array(figures[0]), np.array(figures[1]))


def _rows_of(released: Any, like: Any) -> Any:
    """Convert a synthesis to a data frame, or to an array if the originals are one."""
    import pandas as pd

    if not isinstance(released, Synthesis):
        return released
    return pd.DataFrame(dict(released.columns)) if hasattr(like, "columns") else released.values
