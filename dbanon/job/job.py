"""Jobs: what to anonymize, how, and what to write. Values only, no database access.

Fields that users set have an ``Option``. An option with ``concerns_release`` has no meaning without
a release, so functions that only build classes do not take it. The JSON argument of SQL functions
has no key for an option with ``available_in_sql=False``.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Annotated, Protocol

from dbanon.data.frozen import dataclass
from dbanon.data.option import Option, check_options
from dbanon.data.schema import NORMALIZE
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import HierarchySpec, refuse_labels_with_values
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.chain import Chain
from dbanon.job.columns import RULES_NOT_READ, require_no_columns
from dbanon.job.date_shift import SHIFT_DATES, DateShift
from dbanon.job.expectations import Expectations, require_expectation_names
from dbanon.job.export import Export
from dbanon.job.guarantee import PERSONS_CHOICES, WHOLE_PERSONS, Guarantee
from dbanon.job.policy import Policy
from dbanon.job.pseudonym import NO_PSEUDONYMS, PseudonymOptions
from dbanon.job.reading import DEFAULT_READING, Reading, require_condition
from dbanon.job.requirements import (
    CLIENT,
    KEPT_COLUMNS,
    RELEASES,
    SERVER,
    check_entity,
    check_models,
    check_normalize,
    check_single_role,
    require_chain_options,
    require_passthrough_options,
    require_shift_options,
    require_spillable,
    require_split_person_options,
    require_uncounted_copies,
    require_wildcard_options,
)
from dbanon.job.risk import JobRisk
from dbanon.job.sets import require_column_sets
from dbanon.job.weight import COPIED, DESIGN_WEIGHT, WEIGHT_AS, check_weight
from dbanon.methods import find_method

# The values of the fields of ``Job`` with these names; ``Job`` explains them.
OUTPUT_KINDS = ("table", "view")
IF_EXISTS = ("error", "replace")
ON_NEW_COLUMN = ("halt", "drop")
DOORS = ("python", "cli", "job", "sql")
DEFAULT_CHUNK_ROWS = 65_536

# Options that other requests share.
KEY = Option("Columns that together are unique for each row. Views and foreign tables need them.")
HIERARCHIES = Option(
    "Generalization hierarchy of a quasi-identifier.",
    expected="an object: a hierarchy by column",
    flag="hierarchy",
    form="NAME=HIERARCHY",
    docs_page="generalization.md#hierarchies",
)
MEMORY_LIMIT = Option(
    "Bytes that reading and clustering may use, and DuckDB for loading files. On the command line"
    " and in SQL the default is half of the memory of the machine or its control group.",
    minimum=1,
    unit="bytes",
)

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class SourceRequest(Protocol):
    """The attributes with which jobs of any kind describe their source; see ``Job``."""

    @property
    def table(self) -> str: ...
    @property
    def named_columns(self) -> tuple[str, ...]: ...
    @property
    def roles(self) -> tuple[str, ...] | None: ...
    @property
    def on_new_column(self) -> str: ...
    @property
    def declared(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to anonymize, how, and what to write.

    Parameters
    ----------
    table, output : names of the relation to read and of the one to write, as users write them:
        ``people``, ``app.people``, ``"App"."Peo ple"``.
    quasi_identifiers, sensitive, keep : columns by role; a column without a role is not copied.
    policy : the guarantee, and how to reach it.
    hierarchies : hierarchies by quasi-identifier, in addition to those of the policy. A
        ``HierarchySpec`` stands for a hierarchy that has not been read yet.
    by : columns that define strata. They are released unchanged, and each stratum has its own
        classes.
    entity : the column that identifies the person of a row; k counts its distinct values. It is not
        released. None if each row is a different person.
    entity_normalize : how to unify spellings of its texts: ``trim``, ``casefold`` or None.
    persons : ``whole`` if a class has all rows of its persons, ``rows`` if rows of a person may lie
        in different classes.
    chain : the chain that the release belongs to; None for a release outside chains.
    design_weight : the column that says for how many persons a row stands; None without weights.
    weight_as : ``mean`` to release the mean weight of each class, ``rounded`` to release it as a
        whole number, ``copied`` to release weights as
        they are; None means ``mean``.
    releases : ``independent`` to release persons again who were released before, outside a chain;
        None to refuse that.
    key : columns that identify a row; empty to use the primary key or row id of the relation.
    output_kind : ``table``, or ``view`` for a view under the output's name, which shows the table
        of the latest release.
    if_exists : ``error``, or ``replace`` to replace outputs that dbanon made.
    chunk_rows : number of rows per read; does not change the result.
    kept_columns : ``server`` if the database copies retained columns, or ``client`` to pass them
        through the client's memory. For a source that dbanon reads through SQLAlchemy only,
        ``client`` applies to all columns.
    memory_limit : bytes for reading and clustering; None for no limit.
    reading : the format of the source if it is a CSV file.
    pseudonym_options : the columns to release as pseudonyms.
    shift_dates : copied columns of dates that are shifted; None if there are none.
    where : an SQL condition from the owner of the job, as after WHERE; None for all rows.
    spill : a directory that the run creates, to spill values to disk; None to keep all in memory.
    exports : files to write from the release.
    time_limit : seconds that a run may take; None for no limit.
    source_digest : record a hash of the rows read, to detect later changes of the source.
    swap_timeout : seconds to wait for readers of the release that is replaced, for databases that
        swap tables outside the transaction.
    roles : all columns with a role, including columns that are not released; None if columns
        without a role are allowed.
    on_new_column : ``halt`` or ``drop``: how to treat a column that ``roles`` does not name.
    declared : the digest (a hash) of the table's declared rules if they define the columns;
        ``RULES_NOT_READ`` until they are read, None without rules.
    name : the name of the job in its file; None outside a job file.
    accept_types : columns whose type may have changed to another kind since the job's last release,
        such as from a number to text.
    expect : expected counts of the source; None for no expectations.
    accept_counts : the names of expectations, such as ``rows``, that this run need not meet.
    risk : the disclosure risk to measure before and after; None to measure none.
    fingerprint_key : the key of the source's fingerprint, empty for a fingerprint without a key;
        None for no fingerprint.
    door : ``python``, ``cli``, ``job`` or ``sql``: the interface of the request, for the ledger.
    run_id : a UUID of the run, for the ledger.
    """

    table: Annotated[
        str, Option("The table or view to read, as in app.people.", available_in_sql=False)
    ]
    output: Annotated[
        str, Option("The table or view to make, as in release.people.", concerns_release=True)
    ]
    quasi_identifiers: Annotated[
        tuple[str, ...], Option("Columns that together could re-identify a person.")
    ]
    sensitive: Annotated[
        tuple[str, ...],
        Option("Columns copied as they are, and counted as sensitive.", concerns_release=True),
    ] = ()
    keep: Annotated[
        tuple[str, ...], Option("Other columns copied as they are.", concerns_release=True)
    ] = ()
    by: Annotated[
        tuple[str, ...],
        Option(
            "Columns whose values divide the table into strata. They are released as they are, and"
            " each stratum is anonymized separately.",
            concerns_release=True,
        ),
    ] = ()
    entity: Annotated[
        str | None,
        Option(
            "The column that identifies persons. k counts its distinct values. It is not released.",
            expected="the name of one column",
            form="NAME",
            docs_page="guarantees.md#persons",
        ),
    ] = None
    entity_normalize: Annotated[
        str | None,
        Option(
            "How texts of `entity` are compared: ignoring white space around them (trim), and"
            " ignoring case (casefold).",
            choices=NORMALIZE,
            docs_page="guarantees.md#spellings-of-one-person",
        ),
    ] = None
    persons: Annotated[
        str,
        Option(
            "whole: all rows of a person share a class. rows: they may be in different classes of"
            " k persons each. This loses less, but someone who knows several rows of a person can"
            " join their classes. Needs `entity`.",
            choices=PERSONS_CHOICES,
            concerns_release=True,
            docs_page="guarantees.md#rows-of-one-person",
        ),
    ] = WHOLE_PERSONS
    chain: Annotated[
        Chain | None,
        Option(
            "The chain that the release belongs to. Releases of one chain stay private together.",
            expected="a chain: its name, and where its key is",
            flag="chain",
            form="NAME",
            concerns_release=True,
            available_in_sql=False,
            docs_page="guarantees.md#chains",
        ),
    ] = None
    design_weight: Annotated[str | None, DESIGN_WEIGHT] = None
    weight_as: Annotated[str | None, WEIGHT_AS] = None
    releases: Annotated[str | None, RELEASES] = None
    key: Annotated[tuple[str, ...], KEY] = ()
    where: Annotated[
        str | None,
        Option(
            "Use only rows that meet this SQL condition; the ledger keeps it.",
            expected="a condition of SQL, as text",
            form="SQL",
            available_in_sql=False,
            docs_page="jobs.md#conditions",
        ),
    ] = None
    reading: Reading = DEFAULT_READING
    pseudonym_options: PseudonymOptions = NO_PSEUDONYMS
    shift_dates: Annotated[DateShift | None, SHIFT_DATES] = None
    policy: Policy
    hierarchies: Annotated[Mapping[str, Hierarchy | HierarchySpec], HIERARCHIES] = field(
        default_factory=dict
    )
    output_kind: Annotated[
        str,
        Option(
            "view: release a table behind a view with a stable name. Grants on the view"
            " survive the next release.",
            choices=OUTPUT_KINDS,
            concerns_release=True,
        ),
    ] = "table"
    if_exists: Annotated[
        str,
        Option("replace only replaces what dbanon made.", choices=IF_EXISTS, concerns_release=True),
    ] = "error"
    chunk_rows: Annotated[
        int,
        Option("Rows read at a time; never changes the result.", minimum=1, available_in_sql=False),
    ] = DEFAULT_CHUNK_ROWS
    kept_columns: Annotated[
        str,
        Option(
            "client: a release within one PostgreSQL database is faster, but values of copied"
            " columns, including sensitive ones, pass through this program's memory. From"
            " databases that dbanon does not know, all named columns do. server: they stay in the"
            " database.",
            choices=KEPT_COLUMNS,
            concerns_release=True,
            available_in_sql=False,
            docs_page="rights.md#kept-columns-through-the-client",
        ),
    ] = SERVER
    memory_limit: Annotated[int | None, MEMORY_LIMIT] = None
    spill: Annotated[
        str | None,
        Option(
            "A new directory for this run, to which values and data that exceeds the database's"
            " memory are spilled; for jobs in blocks.",
            expected="the name of a directory",
            form="DIR",
            available_in_sql=False,
            docs_page="methods.md#tables-beyond-memory",
        ),
    ] = None
    exports: Annotated[
        tuple[Export, ...],
        Option(
            "Also write the release to a .parquet, .csv, .sav, .dta or .xpt file, and count it"
            " again in the file.",
            item="exports",
            flag="export",
            form="FILE",
            concerns_release=True,
            available_in_sql=False,
            docs_page="jobs.md#exports",
        ),
    ] = ()
    time_limit: Annotated[
        float | None,
        Option(
            "Longest time for the run, in seconds. A longer run is rolled back.",
            minimum=0,
            excludes_minimum=True,
            available_in_sql=False,
        ),
    ] = None
    source_digest: Annotated[
        bool,
        Option(
            "Also record a slow hash of the rows that were read. A list of releases with exact"
            " uses it to detect later changes.",
            concerns_release=True,
            docs_page="rules.md#exactly",
        ),
    ] = False
    swap_timeout: Annotated[
        float,
        Option(
            "MariaDB only: seconds to wait, in short attempts, for readers of the release that is"
            " replaced.",
            minimum=0,
            excludes_minimum=True,
            available_in_sql=False,
        ),
    ] = 60.0
    roles: tuple[str, ...] | None = None
    on_new_column: str = "halt"
    declared: str | None = None
    name: str | None = None
    accept_types: tuple[str, ...] = ()
    expect: Expectations | None = None
    accept_counts: tuple[str, ...] = ()
    risk: JobRisk | None = None
    fingerprint_key: bytes | None = field(default=None, repr=False)
    door: str = "python"
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()), compare=False)

    def __post_init__(self) -> None:
        check_options(self)
        check_door(self.door)
        if not _UUID.fullmatch(str(self.run_id)):
            raise InvalidParameter("run_id must be a UUID, in lower case.")
        if self.on_new_column not in ON_NEW_COLUMN:
            raise InvalidParameter(f"on_new_column must be one of {', '.join(ON_NEW_COLUMN)}.")
        require_expectation_names(self.accept_counts)
        if self.declared == RULES_NOT_READ:
            require_no_columns(self, self.policy)
        if self.where is not None:
            require_condition(self.where)
        check_models(self.policy.models, self.sensitive)
        # Checks that concern columns wait until the rules that define them have been read. Reading
        # rules builds a new job, which is checked again.
        if self.declared != RULES_NOT_READ:
            if self.policy.also_k:
                # A design weight is no part of a set, because its values are not counted.
                released_columns = (
                    *self.quasi_identifiers,
                    *self.by,
                    *self.sensitive,
                    *self.keep,
                )
                require_column_sets(
                    self.policy.also_k, self.policy.models, released_columns, self.entity
                )
            self._require_copy_options()
        self.pseudonym_options.check_strict(self.policy.strict)
        for column in self.hierarchies:
            if column not in self.quasi_identifiers:
                raise InvalidParameter(
                    f'The hierarchy of "{column}" does not name a quasi-identifier.',
                    hint="Give hierarchies to quasi-identifiers only.",
                )
        # Labels of some hierarchies contain column values, which ``local_range`` must allow.
        refuse_labels_with_values(self.hierarchies, self.policy.local_range)
        check_entity(
            self.entity,
            (*self.quasi_identifiers, *self.averaged_weights, *self.retained_columns),
        )
        check_weight(
            self.design_weight,
            self.weight_as,
            has_unread_rules=self.declared == RULES_NOT_READ,
            in_chain=self.chain is not None,
            spills=self.spill is not None,
            has_row_classes=find_method(self.method).result_type.has_row_classes,
        )
        if self.entity_normalize is not None:
            check_normalize(
                self.entity,
                in_chain=self.chain is not None,
                has_table_rules=self.declared is not None,
            )
        if self.persons != WHOLE_PERSONS:
            require_split_person_options(
                self.policy,
                self.entity,
                self.pseudonyms,
                in_chain=self.chain is not None,
                has_unread_rules=self.declared == RULES_NOT_READ,
            )
        if self.policy.null_agrees:
            require_wildcard_options(
                self.by, self.entity, self.columns_in_sets, self.averaged_weights
            )
        if self.chain is not None and self.declared != RULES_NOT_READ:
            require_chain_options(self.policy, self.entity, self.pseudonyms, self.releases)
            # Only the combination of a chain with ``client`` is refused here, so without ``client``
            # the chain does not count. ``run.plan`` repeats the check with all options once the
            # source is known.
            require_passthrough_options(
                has_entity=False, in_chain=self.kept_columns == CLIENT, spills=False
            )
        if self.spill is not None:
            require_spillable(self.policy, self.guarantee.entity_columns)
        check_single_role(self.named_columns)

    def _require_copy_options(self) -> None:
        """Check the options that change copied columns; raises InvalidParameter."""
        shifts_persons = self.shift_dates is not None and bool(self.guarantee.entity_columns)
        self.pseudonym_options.require_key(shifts_persons=shifts_persons)
        copied_columns = (*self.sensitive, *self.keep)
        require_uncounted_copies(self.policy, copied_columns)
        require_shift_options(
            self.shift_dates,
            self.policy,
            copied_columns,
            in_chain=self.chain is not None,
            spills=self.spill is not None,
        )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the release."""
        return self.guarantee_for_policy(self.policy)

    def guarantee_for_policy(self, policy: Policy) -> Guarantee:
        """The guarantee with a policy that replaces the job's own."""
        if self.chain is not None:
            return policy.chain_guarantee(self.by, str(self.entity), self.chain.name)
        return policy.guarantee_for(self.by, self.entity, self.persons)

    @property
    def method(self) -> str:
        """The method that builds the classes."""
        return self.policy.method

    @property
    def retained_columns(self) -> tuple[str, ...]:
        """The columns that are released unchanged: strata, sensitive and other kept columns.

        A design weight that is copied is one of them.
        """
        return (*self.by, *self.sensitive, *self.keep, *self.copied_weights)

    @property
    def design_weights(self) -> tuple[str, ...]:
        """The column with the design weight as the only element; empty if there is none."""
        return () if self.design_weight is None else (self.design_weight,)

    @property
    def copied_weights(self) -> tuple[str, ...]:
        """The design weight, if it is released as it is; otherwise empty."""
        return self.design_weights if self.weight_as == COPIED else ()

    @property
    def averaged_weights(self) -> tuple[str, ...]:
        """The design weight, if classes are released with its mean; otherwise empty."""
        return () if self.weight_as == COPIED else self.design_weights

    @property
    def pseudonyms(self) -> tuple[str, ...]:
        """The columns that are released as pseudonyms."""
        return self.pseudonym_options.pseudonyms

    @property
    def copied_columns(self) -> tuple[str, ...]:
        """The columns released row by row, unchanged or as pseudonyms."""
        return (*self.retained_columns, *self.pseudonyms)

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The columns that the release has values of.

        They are the quasi-identifiers, a design weight that is averaged, and copied columns.
        """
        return (*self.quasi_identifiers, *self.averaged_weights, *self.copied_columns)

    @property
    def columns_in_sets(self) -> tuple[str, ...]:
        """The sensitive and kept columns that sets of ``also_k`` name."""
        in_column_sets = [name for column_set in self.policy.also_k for name in column_set.columns]
        return tuple(name for name in (*self.sensitive, *self.keep) if name in in_column_sets)

    @property
    def columns_with_expectations(self) -> tuple[str, ...]:
        """The columns that are counted to check expectations.

        These are the entity, for its distinct values, and columns with a limited share of NULLs.
        """
        if self.expect is None:
            return ()
        return (*filter(None, (self.entity,)), *self.expect.share_null)

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns whose values the rows of a class share: quasi-identifiers and strata."""
        return (*self.quasi_identifiers, *self.by)

    @property
    def columns_for_risk(self) -> tuple[str, ...]:
        """The columns whose disclosure risk is measured, and its weights and households."""
        if self.risk is None:
            return ()
        return self.risk.columns(self.class_columns, self.design_weight)

    @property
    def columns_to_read(self) -> tuple[str, ...]:
        """The columns to read from the source, each once."""
        return tuple(
            dict.fromkeys((*self.named_columns, *self.guarantee.entity_columns, *self.key))
        )

    def with_evaluation(self) -> Job:
        """Copy the job with ``evaluate`` set."""
        return replace(self, policy=replace(self.policy, evaluate=True))

    def with_paths(self, map_path: Callable[[str], str], map_text: Callable[[str], str]) -> Job:
        """Copy the job, and map its paths and key locations, as job files do to expand them.

        Parameters
        ----------
        map_path : a function for the paths of exports and of files that hold keys.
        map_text : a function for the names of environment variables that hold keys.
        """
        exports = tuple(replace(export, path=map_path(export.path)) for export in self.exports)
        chain = None if self.chain is None else self.chain.with_paths(map_path, map_text)
        pseudonym_options = self.pseudonym_options.with_paths(map_path, map_text)
        return replace(
            self,
            chain=chain,
            exports=exports,
            pseudonym_options=pseudonym_options,
            risk=self.risk and self.risk.with_path(map_path),
        )

    def require_option_allowed(self, option: str) -> None:
        """Check that the job allows the option ``plan`` or ``skip_unchanged`` of ``dbanon run``.

        Raises
        ------
        InvalidParameter : the option is ``skip_unchanged``, and the job belongs to a chain.
        """
        if option == "skip_unchanged" and self.chain is not None:
            raise InvalidParameter(
                "A job of a chain is never skipped, because exit code 99 would reveal that"
                " nothing changed.",
                hint="Leave out `skip_unchanged`.",
            )


def check_door(door: str) -> None:
    """Check that ``door`` is one of ``DOORS``; raises InvalidParameter."""
    if door not in DOORS:
        raise InvalidParameter(f"door must be one of {', '.join(DOORS)}.")
