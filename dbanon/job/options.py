"""The options by name and type, so that mypy checks calls that name them.

A test holds them equal to the fields of ``Policy`` and ``Job``. For an empty mapping stands None,
too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from dbanon.job.chain import Chain
from dbanon.job.export import Export
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model


class PolicyOptions(TypedDict, total=False):
    """The options of a policy, but for k."""

    method: str
    options: Mapping[str, Any] | None
    standardize: str | None
    weights: Mapping[str, float] | None
    nulls: str
    max_suppression: float | None
    recoding: str | None
    seed: int
    refine: str | None
    intervals: str
    local_range: bool
    steps: Mapping[str, float] | None
    refine_iterations: int | None
    refine_seconds: float | None
    block_size: int | None
    models: Sequence[Model | Mapping[str, Any]]
    also_k: Sequence[ColumnSet | Mapping[str, Any] | Sequence[str]]
    withhold_failing: bool
    guarantee: str
    strict: bool
    evaluate: bool
    certificate: float | None
    orders: Mapping[str, Sequence[str]] | None


class ReadingOptions(TypedDict, total=False):
    """The options of reading a CSV file."""

    dates: str | None
    decimal: str
    encoding: str
    null_words: Sequence[str]


class JobOptions(PolicyOptions, ReadingOptions, total=False):
    """The options of a job on a database, but for the names of what is read and made."""

    output_kind: str
    if_exists: str
    chunk_rows: int | None
    kept_columns: str
    pseudonyms: Sequence[str]
    pseudonym_key: str | None
    memory_limit: int | None
    spill: str | None
    chain: Chain | None
    where: str | None
    time_limit: float | None
    source_digest: bool
    swap_timeout: float
    exports: Sequence[Export | str | Mapping[str, Any]]
