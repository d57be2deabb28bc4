"""Find columns that are released unchanged and split classes, by counting the written release.

A column links rows if it is another coding of a quasi-identifier, or if its values identify groups
of rows, such as households. It is another coding if one of the two columns determines the other for
many rows, as a postcode determines a town.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Generic, Protocol

from dbanon.data.counts import CountRequests
from dbanon.data.schema import Kind
from dbanon.errors import KeptColumnLinks, LinkingColumnRefused, warn_caller
from dbanon.job.job import Job
from dbanon.release.attribute_disclosure import (
    DisclosiveColumn,
    OriginalsOfReleasedRows,
    ValueGroups,
)
from dbanon.release.linkage import (
    MIN_SHARE_TO_REFUSE,
    MIN_SHARE_TO_WARN,
    LinkingColumn,
    frequencies_of,
    is_coding,
    may_identify_groups,
    measure_dependence,
    share_in_hundredths,
)
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.stores.ports import PreparedRelease, Source, Target, W

# Values of these kinds are measurements, not identifiers of a group.
_MEASURED_KINDS = frozenset({Kind.FLOAT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.BOOLEAN})


class RetainedColumnCounts(Protocol):
    """Counts of released rows by their retained columns and original values."""

    @property
    def n_rows(self) -> int:
        """The number of released rows."""

    def group_by_value(self, name: str) -> ValueGroups:
        """Group the released rows by their value in a column that is released unchanged."""

    def group_by_original(self, name: str, columns: Sequence[str]) -> ValueGroups:
        """Group the released rows by the original value of a quasi-identifier ``name``.

        For each of the ``columns``, the result has the number of groups in which all rows share one
        value. See ``Source.group_by_original``.
        """

    def class_sizes(self, columns: Sequence[str]) -> Mapping[int, int]:
        """Count the combinations of values in these columns.

        The result maps a number of rows to the number of combinations that have so many rows.
        """

    def count_profiles(self, columns: Sequence[str], name: str) -> tuple[int, int]:
        """Count the values of column ``name`` that several rows share, and the identified ones.

        A value is identified if its profile is unique. The profile of a value is the combination of
        its rows' values in ``columns``. See ``Target.count_profiles``.
        """


class WrittenReleaseCounts(Generic[W]):
    """Counts of a release that a store has written; caches the groups.

    The type variable ``W`` is the store's class of staged releases: written, but not published.
    """

    def __init__(
        self, draft: PreparedRelease, source: Source, target: Target[W], staged_release: W
    ) -> None:
        self._draft, self._source = draft, source
        self._target, self._staged_release = target, staged_release
        self._groups: dict[str, ValueGroups] = {}

    @property
    def n_rows(self) -> int:
        """The number of released rows."""
        return int(self._draft.release.partition.sizes.sum())

    def group_by_value(self, name: str) -> ValueGroups:
        """Group the released rows by their value in a column that is released unchanged."""
        if name not in self._groups:
            self._groups[name] = self._source.group_by_value(self._draft, name)
        return self._groups[name]

    def group_by_original(self, name: str, columns: Sequence[str]) -> ValueGroups:
        """Group the released rows by the original value of a quasi-identifier."""
        return self._source.group_by_original(self._draft, name, columns)

    def class_sizes(self, columns: Sequence[str]) -> Mapping[int, int]:
        """Count the combinations of values in these columns, by their number of rows."""
        return self._target.count(
            self._staged_release, CountRequests(tuple(columns))
        ).rows.histogram

    def count_profiles(self, columns: Sequence[str], name: str) -> tuple[int, int]:
        """Count the values that several rows share, and those with a unique profile."""
        return self._target.count_profiles(self._staged_release, columns, name)


class RetainedColumns:
    """The columns that are released unchanged, and the classes that they may split.

    Parameters
    ----------
    planned : the plan of the release.
    originals : the original values of the released rows.
    counts : counts of the released rows.
    released_names : the names of the released quasi-identifiers.
    """

    def __init__(
        self,
        planned: Plan,
        originals: OriginalsOfReleasedRows,
        counts: RetainedColumnCounts,
        released_names: Sequence[str],
    ) -> None:
        self.job, self.has_k_anonymous_rows = planned.job, planned.guarantee.has_k_anonymous_rows
        self._relation = planned.relation
        self._originals, self._counts, self._n_rows = originals, counts, counts.n_rows
        self._class_columns = planned.count_requests(released_names).columns

    def measure_dependence(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Measure how strongly each column and each quasi-identifier determine one another, 0 to 1.

        The result is by column, then by quasi-identifier.
        """
        strengths: dict[str, dict[str, float]] = {}
        for name in names:
            # The groups count, at the position of each quasi-identifier, those in which all rows
            # share one value of it.
            groups = self._counts.group_by_value(name)
            strengths[name] = {
                quasi_identifier: measure_dependence(
                    groups, position, self._originals.frequencies(quasi_identifier), self._n_rows
                )
                for position, quasi_identifier in enumerate(self._originals.names)
            }
        # Dependence has two directions. For columns of the option ``keep``, also measure how much
        # the quasi-identifier determines the column; sensitive columns are left out.
        kept_names = [name for name in names if name in self.job.keep]
        for quasi_identifier in self._originals.names if kept_names else ():
            groups = self._counts.group_by_original(quasi_identifier, kept_names)
            for position, name in enumerate(kept_names):
                kept_frequencies = frequencies_of(self._counts.group_by_value(name), self._n_rows)
                strength = measure_dependence(groups, position, kept_frequencies, self._n_rows)
                strengths[name][quasi_identifier] = max(strengths[name][quasi_identifier], strength)
        return strengths

    def find_coding(self, name: str, strengths: dict[str, float]) -> LinkingColumn | None:
        """Return a finding if the column is another coding of a quasi-identifier, else None.

        Parameters
        ----------
        strengths : dependence between the column and each quasi-identifier, 0 to 1.
        """
        # Only the quasi-identifier with the strongest dependence can be the coded one.
        coded_quasi_identifier = max(
            strengths, key=lambda quasi_identifier: strengths[quasi_identifier]
        )
        if not is_coding(strengths[coded_quasi_identifier]):
            return None
        k, sizes = int(self.job.policy.k), self._counts.class_sizes((*self._class_columns, name))
        rows_below_k = sum(size * count for size, count in sizes.items() if size < k)
        share = share_in_hundredths(rows_below_k, self._n_rows)
        # Report nothing that concerns fewer than k rows.
        if rows_below_k < k or share < MIN_SHARE_TO_WARN:
            return None
        # The field ``codes`` is a verb: the column codes this quasi-identifier.
        return LinkingColumn(name, codes=coded_quasi_identifier, share=share)

    def find_group_identifier(self, name: str) -> LinkingColumn | None:
        """Return a finding if the column identifies groups, such as households, else None."""
        if not may_be_group_identifier(self.job, self._relation, name):
            return None
        # Role and type allow it. Now judge by the values: many, each shared by a few rows.
        if not may_identify_groups(self._counts.group_by_value(name)):
            return None
        # The values that several rows share, and those that the classes of their rows identify.
        n_repeated, n_identified = self._counts.count_profiles(self._class_columns, name)
        share = share_in_hundredths(n_identified, n_repeated)
        return LinkingColumn(name, codes=None, share=share) if share >= MIN_SHARE_TO_WARN else None


def may_be_group_identifier(job: Job, relation: Relation, name: str) -> bool:
    """Return whether a column may identify groups of rows, judged by its role and type."""
    return name in job.keep and relation.attribute(name).kind not in _MEASURED_KINDS


class LinkingColumnFinder(Protocol):
    """Finds columns that link rows among those that are released unchanged.

    Implemented by ``RetainedColumns``, and by another class for chains.
    """

    @property
    def job(self) -> Job:
        """The job of the release."""

    @property
    def has_k_anonymous_rows(self) -> bool:
        """Whether the release has classes that such a column could split."""

    def measure_dependence(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """Measure how strongly each column and each quasi-identifier determine one another, 0 to 1.

        The result is by column, then by quasi-identifier.
        """

    def find_coding(self, name: str, strengths: dict[str, float]) -> LinkingColumn | None:
        """Return a finding if the column is another coding of a quasi-identifier, else None."""

    def find_group_identifier(self, name: str) -> LinkingColumn | None:
        """Return a finding if the column identifies groups, such as households, else None."""


def find_linking_columns(
    columns: LinkingColumnFinder, disclosive_columns: Collection[DisclosiveColumn]
) -> tuple[LinkingColumn, ...]:
    """Find columns that are released unchanged and single out rows within classes.

    Warns with ``KeptColumnLinks``.

    Parameters
    ----------
    disclosive_columns : columns with earlier findings, which are skipped.

    Raises
    ------
    LinkingColumnRefused : a column singles out too many rows, and the policy is strict.
    """
    job = columns.job
    reported_names = {column.name for column in disclosive_columns}
    names = [name for name in (*job.sensitive, *job.keep) if name not in reported_names]
    if not names or not columns.has_k_anonymous_rows:
        return ()
    findings = []
    for name, strengths in columns.measure_dependence(names).items():
        finding = columns.find_coding(name, strengths) or columns.find_group_identifier(name)
        if finding is not None:
            findings.append(finding)
    k = int(job.policy.k)
    refused_texts = [
        finding.describe(k) for finding in findings if finding.share >= MIN_SHARE_TO_REFUSE
    ]
    if job.policy.strict and refused_texts:
        raise LinkingColumnRefused(
            "A column that would be released unchanged distinguishes rows within classes."
            " Nothing was published.",
            detail="Column " + "; column ".join(refused_texts) + ".",
            hint="Name it as a quasi-identifier or, if it numbers groups, as `entity`."
            " Otherwise stop copying it, release it as a pseudonym, or leave out `strict`.",
        )
    for finding in findings:
        warn_caller(KeptColumnLinks(f"Column {finding.describe(k)}."))
    return tuple(findings)
