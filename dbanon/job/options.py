"""The options by name and type, for type checkers.

``python -m tests.docs.options`` writes this file from the fields of ``Policy`` and ``Job`` and from
the methods; a test compares them. None also means an empty mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from dbanon.job.chain import Chain
from dbanon.job.export import Export
from dbanon.job.sets import ColumnSet
from dbanon.measures import Model

# Methods that group rows into classes.
RowMethod: TypeAlias = Literal[
    "mdav",
    "cbfs",
    "md",
    "tfrp1",
    "tfrp2",
    "ldf",
    "hdf",
    "vmdav",
    "dcm",
    "gaa_cp",
    "kaca",
    "ebkc",
    "kmember",
    "mondrian",
    "full_domain",
    "npn_mhm",
    "mdav_mhm",
    "cbfs_mhm",
    "md_mhm",
    "mst_forest",
    "mst_diameter",
    "kward",
    "secure_kward",
    "recursive_kward",
    "genetic",
    "two_step",
    "single_axis",
    "optimal_univariate",
]
# Methods that group each attribute separately.
AttributeMethod: TypeAlias = Literal["individual_ranking"]
MethodName: TypeAlias = RowMethod | AttributeMethod


class PolicyOptions(TypedDict, total=False):
    """The options of a policy, without k."""

    method: MethodName
    options: Mapping[str, Any] | None
    standardize: Literal["zscore", "range", "none", "mahalanobis"] | None
    weights: Mapping[str, float] | None
    nulls: Literal["error", "suppress", "category", "merge"]
    max_suppression: float | None
    recoding: (
        Literal["mean", "median", "medoid", "secure", "generalization", "representative"] | None
    )
    seed: int
    refine: Literal["pass", "fast", "thorough"] | None
    intervals: Literal["text", "bounds", "midpoint", "range"]
    local_range: bool
    steps: Mapping[str, float] | None
    refine_iterations: int | None
    refine_seconds: float | None
    block_size: int | None
    models: Sequence[Model | Mapping[str, Any]]
    also_k: Sequence[ColumnSet | Mapping[str, Any] | Sequence[str]]
    withhold_failing: bool
    guarantee: Literal["rows", "per_attribute"]
    strict: bool
    evaluate: bool
    attacks: bool
    certificate: float | None
    orders: Mapping[str, Sequence[str]] | None
    kinds: Mapping[str, str] | None


class ClassOptions(TypedDict, total=False):
    """The options for classes without a release: of policies, and the methods' parameters."""

    standardize: Literal["zscore", "range", "none", "mahalanobis"] | None
    weights: Mapping[str, float] | None
    nulls: Literal["error", "suppress", "category", "merge"]
    max_suppression: float | None
    recoding: (
        Literal["mean", "median", "medoid", "secure", "generalization", "representative"] | None
    )
    seed: int
    refine: Literal["pass", "fast", "thorough"] | None
    refine_iterations: int | None
    refine_seconds: float | None
    block_size: int | None
    orders: Mapping[str, Sequence[str]] | None
    kinds: Mapping[str, str] | None
    lambda_: float
    radius: float
    threshold: float
    cut: Literal["strict", "relaxed", "tree"]
    suppression: float
    contract: bool
    epsilon: float
    gamma0: float
    axis: str
    theta: float
    parts: int
    population: int
    generations: int
    crossover: float
    mutation: float
    macro: int


class ReadingOptions(TypedDict, total=False):
    """The options for reading files."""

    dates: str | None
    decimal: Literal[".", ","] | None
    thousands: Literal[",", ".", "'", " "] | None
    trim: bool
    types: Mapping[str, str] | None
    header: bool | None
    skip_lines: int
    sheet: str | None
    duplicate_columns: Literal["refuse", "rename"]
    encoding: Literal["utf-8", "latin-1", "windows-1252", "utf-16"]
    null_words: Sequence[str]
    foreign_files: Literal["refuse", "allow", "links"]


class JobOptions(PolicyOptions, ReadingOptions, total=False):
    """The options of a job on a database, without the names of source and output."""

    entity_normalize: Literal["trim", "casefold"] | None
    persons: Literal["whole", "rows"]
    chain: Chain | None
    releases: Literal["independent"] | None
    where: str | None
    pseudonyms: Sequence[str]
    pseudonym_key: str | None
    output_kind: Literal["table", "view"]
    if_exists: Literal["error", "replace"]
    chunk_rows: int | None
    kept_columns: Literal["server", "client"]
    memory_limit: int | None
    spill: str | None
    exports: Sequence[Export | str | Mapping[str, Any]]
    time_limit: float | None
    source_digest: bool
    swap_timeout: float
