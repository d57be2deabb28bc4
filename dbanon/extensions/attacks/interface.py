"""The Python API for attacks: released rows from any tool against the original persons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dbanon.data.option import find_parameter
from dbanon.data.partition import Synthesis
from dbanon.doors.evaluate import ReleasedValues, as_frames, is_all_stars, select_columns_to_compare
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.extensions.attacks import membership
from dbanon.extensions.attacks.rates import Rate
from dbanon.extensions.attacks.results import Attacks, build_attack_data, run_all_attacks
from dbanon.extensions.attacks.task import DEFAULT_MAX_GUESSES, AttackData
from dbanon.hierarchy.leaves import ANY
from dbanon.hierarchy.spec import HierarchySource, HierarchySpec, build_all, parse_all
from dbanon.hierarchy.tree import Hierarchy, flat_hierarchy
from dbanon.job.policy import Policy
from dbanon.measures.agreement import combine_codes

if TYPE_CHECKING:
    import pandas as pd

# Defaults of the membership attack: the number of targets, and for each target the number of
# releases made with it. As many are made without it.
_DEFAULT_TARGETS, _DEFAULT_RELEASES = 2, 40
# Maximum number of originals among which targets are sought, and of released rows that they are
# compared with.
_MAX_SAMPLE_RECORDS = 1000


def attack(
    original: ArrayLike | pd.DataFrame,
    released: ArrayLike | pd.DataFrame | Synthesis,
    *,
    control: ArrayLike | pd.DataFrame | None = None,
    make: Callable[[pd.DataFrame], object] | None = None,
    quasi_identifiers: Sequence[str] | None = None,
    linked: Sequence[Sequence[str]] | None = None,
    orders: Mapping[str, Sequence[str]] | None = None,
    hierarchies: Mapping[str, HierarchySource] | None = None,
    guesses: int = DEFAULT_MAX_GUESSES,
    targets: int = _DEFAULT_TARGETS,
    releases: int = _DEFAULT_RELEASES,
    seed: int = 0,
) -> Attacks:
    """Run attacks on released rows, generalized or synthetic, and measure how often they succeed.

    The rows may come from any tool, and the attacks do not need to know which row became which.
    The results are computed from real persons without spending privacy budget, so they are for
    those responsible for the data, not for publication.

    Parameters
    ----------
    original, released : either both arrays of numbers with the same columns, or both tables as
        ``anonymize_frame`` takes them. They may have any number of rows; ``released`` may also be
        a synthesis.
    control : records of the same kind that were not used to make the release, ideally as many as
        originals; if None, attacks are compared only with random guesses.
    make : a function that takes a data frame and makes a release of it, for the membership attack;
        None leaves that attack out. By default it is called 160 times, with rows drawn from
        originals and control records; a privacy budget that it spends is wasted.
    quasi_identifiers : the columns to compare; None for all that both tables have.
    linked : two lists of columns, each of which an attacker knows from another source and tries to
        link; None for the first and the second half of the columns.
    orders : for text columns, by name: their values from the lowest to the highest.
    hierarchies : by column, a Hierarchy, the path of a file, or a builder such as
        ``{"intervals": [5, 10]}``.
    guesses : maximum number of guesses per attack and column.
    targets : number of originals whose membership is attacked. They are the originals farthest
        from the released rows.
    releases : for each target, ``make`` makes this many releases with it and as many without it;
        an even number.

    Raises
    ------
    InvalidParameter : an option is out of its range, or a label is unknown.
    ColumnNotFound : a table lacks a named column.
    UnsupportedType : a released column has neither the original's type nor text.
    TooFewRecords : there are no originals, or no released rows.
    """
    integer_options: tuple[tuple[str, object, int], ...] = (
        ("guesses", guesses, 1),
        ("targets", targets, 1),
        ("releases", releases, 4),
        ("seed", seed, 0),
    )
    for name, value, minimum in integer_options:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise InvalidParameter(f"{name} must be a whole number, {minimum} or more.")
    if releases % 2:
        raise InvalidParameter("releases must be an even number.")
    table = _AttackedTable.of(original, released, control, quasi_identifiers)
    table.orders = find_parameter(Policy, "orders").check(orders)
    table.tree_sources = parse_all(hierarchies, files=True)
    table.linked = _check_linked(linked, table.names)
    attack_data = replace(table.build_input(table.released), max_guesses=guesses, seed=seed)
    attacks = run_all_attacks(attack_data)
    if make is None:
        return attacks
    rng = attack_data.rng(membership.NAME)
    rates = [
        table.measure_membership_rate(make, int(target), releases, rng)
        for target in _select_outliers(attack_data, targets, rng)
    ]
    return replace(attacks, results={**attacks.results, membership.NAME: membership.attack(rates)})


def _check_linked(
    linked: Sequence[Sequence[str]] | None, names: Sequence[str]
) -> Sequence[Sequence[str]] | None:
    """Check that ``linked`` is two lists of compared columns without a common column."""
    if linked is None:
        return None
    candidate_lists: Sequence[object] = linked if isinstance(linked, (list, tuple)) else ()
    column_lists = [
        list(columns) for columns in candidate_lists if isinstance(columns, (list, tuple))
    ]
    linked_names = [name for columns in column_lists for name in columns]
    is_valid = all(name in names and linked_names.count(name) == 1 for name in linked_names)
    if len(candidate_lists) != 2 or len(column_lists) != 2 or not all(column_lists) or not is_valid:
        raise InvalidParameter(
            "linked must be two lists of columns, none of them in both.",
            hint="Name columns that are compared, as in [['age', 'sex'], ['zip']].",
        )
    return column_lists


def _select_outliers(
    attack_data: AttackData, n_targets: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Select from a sample the originals that are farthest from the released rows.

    Returns their indexes, int64 (n_targets,).
    """
    candidates = rng.choice(
        attack_data.n_members, min(_MAX_SAMPLE_RECORDS, attack_data.n_members), replace=False
    )
    rows = attack_data.draw_rows(rng, min(_MAX_SAMPLE_RECORDS, len(attack_data.weights)))
    distances = np.zeros((len(candidates), len(rows)))
    for column in attack_data.columns:
        distances += column.distances_ignoring_nulls(candidates[:, None], rows[None, :])
    targets: NDArray[np.int64] = candidates[
        np.argsort(-distances.mean(axis=1), kind="stable")[:n_targets]
    ]
    return targets


class _AttackedTable:
    """Originals and control records in one frame, with the options for reading releases.

    Parameters
    ----------
    frame : the originals, followed by the control records.
    n_originals : the number of originals.
    released : the released rows, a data frame.
    names : the columns to compare.

    Attributes
    ----------
    orders : the values of text columns from the lowest to the highest, by column.
    tree_sources : hierarchies or their specifications, by column.
    linked : two lists of columns for an attacker to link, or None.
    """

    orders: Mapping[str, Sequence[str]] | None
    tree_sources: Mapping[str, Hierarchy | HierarchySpec]
    linked: Sequence[Sequence[str]] | None

    def __init__(
        self, frame: pd.DataFrame, n_originals: int, released: pd.DataFrame, names: list[str]
    ) -> None:
        self.frame, self.n_originals, self.released = frame, n_originals, released
        self.names = names

    @classmethod
    def of(
        cls,
        original: object,
        released: object,
        control: object,
        quasi_identifiers: Sequence[str] | None,
    ) -> _AttackedTable:
        """Combine originals and control records, restricted to the columns to compare."""
        import pandas as pd

        original_frame, released_frame = as_frames(original, _rows_of(released, original))
        # ``key`` would name a column that identifies rows; attacks do not need to match rows.
        names = select_columns_to_compare(
            original_frame, released_frame, quasi_identifiers, key=None
        )
        frame = original_frame
        if control is not None:
            # ``as_frames`` converts a pair of tables; the originals are converted already.
            control_frame = as_frames(original, control)[1]
            # Raises an error if the control records lack a column.
            select_columns_to_compare(original_frame, control_frame, names, key=None)
            frame = pd.concat([original_frame[names], control_frame[names]], ignore_index=True)
        if not len(original_frame) or not len(released_frame):
            raise TooFewRecords("There are no originals, or no released rows.")
        return cls(frame[names], len(original_frame), released_frame, names)

    def build_input(self, released_frame: pd.DataFrame) -> AttackData:
        """Build the input of attacks on a release, without rows that are ``*`` in every column."""
        from dbanon.stores.frame.microdata import microdata_from_frame

        microdata = microdata_from_frame(self.frame, self.names, orders=self.orders)
        released_frame = released_frame[self.names]
        released_frame = released_frame[~is_all_stars(released_frame, self.names)]
        if not len(released_frame):
            raise TooFewRecords("All released rows are suppressed.")
        columns = [
            ReleasedValues.of(source_attribute, released_frame[source_attribute.name])
            for source_attribute in microdata.attributes
        ]
        row_codes = combine_codes([column.codes for column in columns], len(released_frame))
        # Equal rows are compared once; ``weights`` holds the number of copies.
        _, first_rows, weights = np.unique(row_codes, return_index=True, return_counts=True)
        trees: dict[str, Hierarchy] = dict(build_all(self.tree_sources, microdata))
        for position, attribute in enumerate(microdata.categorical):
            # ``ANY`` is the label ``*``, which covers all values.
            values = set(released_frame[attribute.name].dropna().astype(str)) - {ANY}
            categories = microdata.categories[position]
            # A synthesis may contain public values that occur in no record.
            trees.setdefault(
                attribute.name, flat_hierarchy([*categories, *sorted(values - {*categories})])
            )
        released_columns = [column.to_released_column(first_rows) for column in columns]
        return build_attack_data(
            microdata,
            self.n_originals,
            released_columns,
            weights.astype(np.int64),
            trees,
            linked=self.linked,
        )

    def measure_membership_rate(
        self,
        make: Callable[[pd.DataFrame], object],
        target: int,
        releases: int,
        rng: np.random.Generator,
    ) -> Rate:
        """Measure how often an attacker guesses right whether a release was made with a record.

        Parameters
        ----------
        make : makes a release; it is called for ``releases`` samples with the record, and for as
            many without it.
        target : index of the record.
        """
        other_rows = np.delete(np.arange(len(self.frame)), target)
        n_sampled = max(len(other_rows) // 2, 1)
        features_with_target: list[NDArray[np.float64]] = []
        features_without_target: list[NDArray[np.float64]] = []
        for _ in range(releases):
            for includes_target in (True, False):
                rows = rng.choice(other_rows, n_sampled, replace=False)
                # The target replaces a row, so that the size of the input reveals nothing.
                if includes_target:
                    rows[0] = target
                records = self.frame.iloc[rng.permutation(rows)].reset_index(drop=True)
                released_frame = as_frames(self.frame, _rows_of(make(records), self.frame))[1]
                features = membership.release_features(self.build_input(released_frame), target)
                (features_with_target if includes_target else features_without_target).append(
                    features
                )
        return membership.membership_rate(
            np.array(features_with_target), np.array(features_without_target)
        )


def _rows_of(released: object, original: object) -> object:
    """Convert a synthesis to a data frame, or to an array if the originals are one.

    Other tables are returned unchanged.
    """
    import pandas as pd

    if not isinstance(released, Synthesis):
        return released
    return pd.DataFrame(dict(released.columns)) if hasattr(original, "columns") else released.values
