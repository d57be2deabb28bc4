"""Finds columns released unchanged that undo classes, by counts where the release was written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Generic, Protocol

from dbanon.data.counts import CountRequests
from dbanon.data.schema import Kind
from dbanon.errors import KeptColumnLinks, LinkingColumnRefused, warn_caller
from dbanon.job.job import Job
from dbanon.release.attribute_disclosure import DisclosiveColumn, ReleasedOriginals, ValueGroups
from dbanon.release.linkage import (
    LEAST_WARNED_SHARE,
    REFUSED,
    LinkingColumn,
    frequencies_of,
    is_coding,
    may_number_groups,
    measure_dependence,
    share_in_hundredths,
)
from dbanon.run.plan import Plan
from dbanon.sessions.base import Relation
from dbanon.stores.ports import PreparedRelease, Source, Target, W

# Of these, one person's value is not the number of a group.
_MEASURED = frozenset({Kind.FLOAT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.BOOLEAN})


class KeptColumnCounts(Protocol):
    """Counts of released rows by their retained columns and original values."""

    @property
    def n_rows(self) -> int:
        """The number of released rows."""

    def groups(self, name: str) -> ValueGroups:
        """The rows by their value of a column that is released as it is."""

    def originals(self, name: str, columns: Sequence[str]) -> ValueGroups:
        """The rows by their original value of a quasi-identifier; as ``Source.originals``."""

    def class_sizes(self, columns: Sequence[str]) -> Mapping[int, int]:
        """How many combinations of released values there are, by the rows that share them."""

    def profiles(self, columns: Sequence[str], name: str) -> tuple[int, int]:
        """As ``Target.profiles``."""


class WrittenReleaseCounts(Generic[W]):
    """The counts of a release that a store has written; groups are counted once."""

    def __init__(
        self, draft: PreparedRelease, source: Source, target: Target[W], written: W
    ) -> None:
        self._draft, self._source = draft, source
        self._target, self._written = target, written
        self._groups: dict[str, ValueGroups] = {}

    @property
    def n_rows(self) -> int:
        """The number of released rows."""
        return int(self._draft.release.partition.sizes.sum())

    def groups(self, name: str) -> ValueGroups:
        """The rows by their value of a column."""
        if name not in self._groups:
            self._groups[name] = self._source.groups(self._draft, name)
        return self._groups[name]

    def originals(self, name: str, columns: Sequence[str]) -> ValueGroups:
        """The rows by their original value of a quasi-identifier."""
        return self._source.originals(self._draft, name, columns)

    def class_sizes(self, columns: Sequence[str]) -> Mapping[int, int]:
        """How many combinations of released values there are, by size."""
        return self._target.count(self._written, CountRequests(tuple(columns))).rows.histogram

    def profiles(self, columns: Sequence[str], name: str) -> tuple[int, int]:
        """Number of values that several rows share, and of those with profiles of their own."""
        return self._target.profiles(self._written, columns, name)


class RetainedColumns:
    """The columns of one release that are released unchanged, with the classes they may undo."""

    def __init__(
        self,
        planned: Plan,
        originals: ReleasedOriginals,
        counts: KeptColumnCounts,
        released: Sequence[str],
    ) -> None:
        self.job, self.bounds_rows = planned.job, planned.guarantee.bounds_rows
        self._relation = planned.relation
        self._originals, self._counts, self._rows = originals, counts, counts.n_rows
        self._columns = planned.questions(released).columns

    def strengths(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """How far each column and each quasi-identifier follow from one another."""
        strengths: dict[str, dict[str, float]] = {}
        for name in names:
            groups = self._counts.groups(name)
            strengths[name] = {
                quasi_identifier: measure_dependence(
                    groups, position, self._originals.frequencies(quasi_identifier), self._rows
                )
                for position, quasi_identifier in enumerate(self._originals.names)
            }
        kept_names = [name for name in names if name in self.job.keep]
        for quasi_identifier in self._originals.names if kept_names else ():
            groups = self._counts.originals(quasi_identifier, kept_names)
            for position, name in enumerate(kept_names):
                kept_frequencies = frequencies_of(self._counts.groups(name), self._rows)
                strength = measure_dependence(groups, position, kept_frequencies, self._rows)
                strengths[name][quasi_identifier] = max(strengths[name][quasi_identifier], strength)
        return strengths

    def coding(self, name: str, strengths: dict[str, float]) -> LinkingColumn | None:
        """The finding on a column that is another coding of a quasi-identifier."""
        strongest = max(strengths, key=lambda quasi_identifier: strengths[quasi_identifier])
        if not is_coding(strengths[strongest]):
            return None
        k, sizes = int(self.job.policy.k), self._counts.class_sizes((*self._columns, name))
        below = sum(size * count for size, count in sizes.items() if size < k)
        share = share_in_hundredths(below, self._rows)
        if below < k or share < LEAST_WARNED_SHARE:
            return None
        return LinkingColumn(name, strongest, share)

    def group_number(self, name: str) -> LinkingColumn | None:
        """The finding on a column that numbers groups of rows."""
        if not may_be_group_number(self.job, self._relation, name):
            return None
        if not may_number_groups(self._counts.groups(name)):
            return None
        several, unique = self._counts.profiles(self._columns, name)
        share = share_in_hundredths(unique, several)
        return LinkingColumn(name, None, share) if share >= LEAST_WARNED_SHARE else None


def may_be_group_number(job: Job, relation: Relation, name: str) -> bool:
    """Whether role and type of a column allow group numbers."""
    return name in job.keep and relation.attribute(name).kind not in _MEASURED


class CountedColumns(Protocol):
    """An object that counts the columns of one release that are released unchanged."""

    @property
    def job(self) -> Job:
        """The job that the release is made by."""

    @property
    def bounds_rows(self) -> bool:
        """Whether there are classes that such a column could undo."""

    def strengths(self, names: Sequence[str]) -> dict[str, dict[str, float]]:
        """How far each column and each quasi-identifier follow from one another."""

    def coding(self, name: str, strengths: dict[str, float]) -> LinkingColumn | None:
        """The finding on a column that is another coding of a quasi-identifier."""

    def group_number(self, name: str) -> LinkingColumn | None:
        """The finding on a column that numbers groups of rows."""


def linking_columns(
    columns: CountedColumns, telling: Collection[DisclosiveColumn]
) -> tuple[LinkingColumn, ...]:
    """The findings on columns that are released unchanged and single out rows of classes.

    Warns with ``KeptColumnLinks``.

    Parameters
    ----------
    telling : other findings: these columns are not counted again.

    Raises
    ------
    LinkingColumnRefused : a share is too large, and the policy is strict.
    """
    job = columns.job
    reported = {column.name for column in telling}
    names = [name for name in (*job.sensitive, *job.keep) if name not in reported]
    if not names or not columns.bounds_rows:
        return ()
    findings = []
    for name, strengths in columns.strengths(names).items():
        finding = columns.coding(name, strengths) or columns.group_number(name)
        if finding is not None:
            findings.append(finding)
    k = int(job.policy.k)
    refused = [finding.describe(k) for finding in findings if finding.share >= REFUSED]
    if job.policy.strict and refused:
        raise LinkingColumnRefused(
            "A column that would be released as it is distinguishes rows that the classes hide."
            " Nothing was published.",
            detail="Column " + "; column ".join(refused) + ".",
            hint="Name it as a quasi-identifier or, if it numbers groups, as `entity`; do not copy"
            " it, release it as a pseudonym, or leave out `strict`.",
        )
    for finding in findings:
        warn_caller(KeptColumnLinks(f"Column {finding.describe(k)}."))
    return tuple(findings)
