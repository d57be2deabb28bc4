"""The options by name and type, for type checkers.

``python -m tests.docs.options`` writes this file from the fields of ``Policy`` and ``Job`` and from
the methods; a test compares them. Where a mapping is expected, None stands for an empty one. The
comment above a key says what the option does: the first sentence of its help, or all of it if each
sentence describes a choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from dbanon.job.chain import Chain
from dbanon.job.date_shift import DateShift
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
    "global_recoding",
    "local_suppression",
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

    # The method; dbanon methods lists them.
    method: MethodName
    # A parameter of the method.
    options: Mapping[str, Any] | None
    # How columns are scaled to make them comparable.
    standardize: Literal["zscore", "range", "none", "mahalanobis"] | None
    # Weight of a quasi-identifier in the squared distance; refused with mahalanobis.
    weights: Mapping[str, float] | None
    # suppress: leave out records with a NULL. category: build classes within each pattern of NULLs.
    # merge: the same, and rare patterns join larger ones.
    nulls: Literal["error", "suppress", "category", "merge"]
    # Largest share of records that may be suppressed, 0 to 1.
    max_suppression: float | None
    # How a class is turned into released values.
    recoding: (
        Literal["mean", "median", "medoid", "secure", "generalization", "representative", "common"]
        | None
    )
    # Random seed: the same seed gives the same classes.
    seed: int
    # Search for classes with less loss after the method has run.
    refine: Literal["pass", "fast", "thorough"] | None
    # How generalization writes ranges of numbers.
    intervals: Literal["text", "bounds", "midpoint", "range"]
    # Release each class's own range.
    local_range: bool
    # Width of the grid of ranges; by default several steps, from the column's range.
    steps: Mapping[str, float] | None
    # Number of rebuilt pools.
    refine_iterations: int | None
    # Time limit for each stratum, in seconds.
    refine_seconds: float | None
    # Cut more records than this into blocks of about this size, and cluster each separately:
    # faster, on all cores, with slightly more loss.
    block_size: int | None
    # Privacy model that every class must satisfy for a sensitive column.
    models: Sequence[Model | Mapping[str, Any]]
    # Another set of columns: at least K rows (default: k) share each released combination.
    also_k: Sequence[ColumnSet | Mapping[str, Any] | Sequence[str]]
    # Withhold a class that fails a model if merging it would lose more.
    withhold_failing: bool
    # per_attribute: allow the release of individual_ranking, whose rows are not k-anonymous.
    guarantee: Literal["rows", "per_attribute"]
    # Refuse instead of warning: copied columns that look like identifiers, are nearly unique or
    # determine a quasi-identifier, too few persons, a missing output schema.
    strict: bool
    # Measure the loss and the remaining risk of the release, for the ledger and the report.
    evaluate: bool
    # Attack a release of half the records.
    attacks: bool
    # Seconds to search for the least possible loss.
    certificate: float | None
    # The values of a text column from the lowest to the highest.
    orders: Mapping[str, Sequence[str]] | None
    # nominal: treat numbers as codes, whose order and distance mean nothing. numeric: treat them as
    # amounts, without a warning where a code is expected.
    kinds: Mapping[str, str] | None
    # Code values from this number on as one value, such as 90+, before classes are made.
    top: Mapping[str, float | str] | None
    # Code values below this number as one value, such as <18, before classes are made.
    bottom: Mapping[str, float | str] | None
    # Code numbers as bands, or values as groups by name, before classes are made, the same for
    # every row.
    recode: Mapping[str, Sequence[float] | Mapping[str, Sequence[str | int] | str]] | None
    # hipaa: refuse a release with a column of the 18 kinds of identifiers of HIPAA Safe Harbor, as
    # far as names, types and values of columns show them. ema: refuse one with direct identifiers,
    # with ages, dates or places that are no quasi-identifiers, or with a risk above 0.09, which is
    # a k below 11.
    profile: Literal["hipaa", "ema"] | None
    # With the profile hipaa: a table of the database with a column zip or zip3, and a column
    # population.
    zip_population: str | None


class ClassOptions(TypedDict, total=False):
    """The options for finding classes without a release: of the policy and of methods."""

    # How columns are scaled to make them comparable.
    standardize: Literal["zscore", "range", "none", "mahalanobis"] | None
    # Weight of a quasi-identifier in the squared distance; refused with mahalanobis.
    weights: Mapping[str, float] | None
    # suppress: leave out records with a NULL. category: build classes within each pattern of NULLs.
    # merge: the same, and rare patterns join larger ones.
    nulls: Literal["error", "suppress", "category", "merge"]
    # Largest share of records that may be suppressed, 0 to 1.
    max_suppression: float | None
    # How a class is turned into released values.
    recoding: (
        Literal["mean", "median", "medoid", "secure", "generalization", "representative", "common"]
        | None
    )
    # Random seed: the same seed gives the same classes.
    seed: int
    # Search for classes with less loss after the method has run.
    refine: Literal["pass", "fast", "thorough"] | None
    # Number of rebuilt pools.
    refine_iterations: int | None
    # Time limit for each stratum, in seconds.
    refine_seconds: float | None
    # Cut more records than this into blocks of about this size, and cluster each separately:
    # faster, on all cores, with slightly more loss.
    block_size: int | None
    # The values of a text column from the lowest to the highest.
    orders: Mapping[str, Sequence[str]] | None
    # nominal: treat numbers as codes, whose order and distance mean nothing. numeric: treat them as
    # amounts, without a warning where a code is expected.
    kinds: Mapping[str, str] | None
    # For vmdav: How far classes grow: 0.2 suits scattered, 1.1 clustered data.
    lambda_: float
    # For dcm: How far a neighbour may be, after standardization.
    radius: float
    # For ebkc: Largest distance of a record to an initial class.
    threshold: float
    # For mondrian: Where a class may be cut.
    cut: Literal["strict", "relaxed", "tree"]
    # For full_domain: Largest share of records to withhold.
    suppression: float
    # For full_domain: Release what classes have in common, not the levels.
    contract: bool
    # For global_recoding: Largest share of cells to release as NULL.
    cells: float
    # For local_suppression: Quasi-identifiers whose cells are spared, separated by commas, the most
    # important first.
    importance: str
    # For local_suppression: category: NULL is a value of its own. wildcard: NULL agrees with every
    # value, a weaker rule that needs fewer cells.
    missing: Literal["category", "wildcard"]
    # For secure_kward: Distance from the released value, in sample standard deviations of the
    # attribute.
    epsilon: float
    # For secure_kward: Least share of a class's records that must be at that distance or farther.
    gamma0: float
    # For recursive_kward, single_axis: sum (of the standardized values), first_component (first
    # principal component), or the name of an attribute.
    axis: str
    # For recursive_kward: A set is cut if the summed variance of its parts is at least theta times
    # its own.
    theta: float
    # For recursive_kward: Parts that a set is cut into (J).
    parts: int
    # For genetic, two_step: Chromosomes in a generation.
    population: int
    # For genetic, two_step: Number of generations.
    generations: int
    # For genetic, two_step: Probability that a child has two parents.
    crossover: float
    # For genetic, two_step: Probability that a gene is replaced by a random one.
    mutation: float
    # For two_step: Records in a large class, at least k.
    macro: int


class ReadingOptions(TypedDict, total=False):
    """The options for reading files."""

    # Date format of a CSV file: dmy for 31.12.2025, mdy for 12/31/2025, ymd for 2025/12/31, or a
    # pattern such as %d.%m.%y.
    dates: str | None
    # The decimal mark of numbers in a CSV file.
    decimal: Literal[".", ","] | None
    # The thousands separator of numbers in a CSV file: , . ' or a space.
    thousands: Literal[",", ".", "'", " "] | None
    # Remove blanks around unquoted fields of a CSV file.
    trim: bool
    # The type of a column of a CSV file: text, integer, decimal, double, percent, date, timestamp,
    # timestamptz, boolean, decimal(18,2), or a date pattern such as %d/%m/%Y.
    types: Mapping[str, str] | None
    # Whether the first line of a CSV file names its columns.
    header: bool | None
    # Lines before the header of a CSV file.
    skip_lines: int
    # The sheet of an .xlsx file.
    sheet: str | None
    # What to do with duplicate column names in a CSV file: refuse them, or rename the later ones,
    # as in age_2.
    duplicate_columns: Literal["refuse", "rename"]
    # The character encoding of a CSV file.
    encoding: Literal["utf-8", "latin-1", "windows-1252", "utf-16"]
    # Texts that mean NULL in a CSV file, such as k.A.
    null_words: Sequence[str]
    # How to read labeled values of SPSS and Stata files.
    value_labels: Literal["text", "codes"]
    # What to do with files in a folder that belong to other accounts, and with links: refuse both,
    # allow files of other accounts, or follow links, too.
    foreign_files: Literal["refuse", "allow", "links"]


class JobOptions(PolicyOptions, ReadingOptions, total=False):
    """The options of a job on a database, without the names of source and output."""

    # How texts of entity are compared: ignoring white space around them (trim), and ignoring case
    # (casefold).
    entity_normalize: Literal["trim", "casefold"] | None
    # whole: all rows of a person share a class. rows: they may be in different classes of k persons
    # each. This loses less, but someone who knows several rows of a person can join their classes.
    # Needs entity.
    persons: Literal["whole", "rows"]
    # The chain that the release belongs to.
    chain: Chain | None
    # The column with the design weight: for how many persons of the population a row stands.
    design_weight: str | None
    # How design weights are released.
    weight_as: Literal["mean", "rounded", "copied"] | None
    # independent: make another release of a source whose persons were released before, outside a
    # chain. Otherwise such a release is refused, because readers can intersect the classes of both.
    releases: Literal["independent"] | None
    # Use only rows that meet this SQL condition; the ledger keeps it.
    where: str | None
    # Identifiers to release as keyed hashes, so that releases can be joined.
    pseudonyms: Sequence[str]
    # Where the key for pseudonyms and for shift_dates is.
    pseudonym_key: str | None
    # Shift dates that are copied by a secret number of days, at most this many earlier or later:
    # the same for all rows of a person, or for all columns of a row without entity.
    shift_dates: DateShift | Mapping[str, Any] | None
    # view: release a table behind a view with a stable name. Grants on the view survive the next
    # release.
    output_kind: Literal["table", "view"]
    # replace only replaces what dbanon made.
    if_exists: Literal["error", "replace"]
    # Rows read at a time; never changes the result.
    chunk_rows: int | None
    # client: a release within one PostgreSQL database is faster, but values of copied columns,
    # including sensitive ones, pass through this program's memory. From databases that dbanon does
    # not know, all named columns do. server: they stay in the database.
    kept_columns: Literal["server", "client"]
    # Bytes that reading and clustering may use, and DuckDB for loading files.
    memory_limit: int | None
    # A new directory for this run, to which values and data that exceeds the database's memory are
    # spilled; for jobs in blocks.
    spill: str | None
    # Also write the release to a .parquet, .csv, .sav, .dta or .xpt file, and count it again in the
    # file.
    exports: Sequence[Export | str | Mapping[str, Any]]
    # Longest time for the run, in seconds.
    time_limit: float | None
    # Also record a slow hash of the rows that were read.
    source_digest: bool
    # MariaDB only: seconds to wait, in short attempts, for readers of the release that is replaced.
    swap_timeout: float
