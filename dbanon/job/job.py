"""Job: what shall be anonymized, how, and what is made of it. Values alone, no database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dbanon.data.schema import require_lists
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.spec import HierarchySpec, require_own_ranges
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import Policy
from dbanon.measures import Model

COLUMN_LISTS = ("quasi_identifiers", "sensitive", "keep", "by", "key")
OUTPUT_KINDS = ("table", "view")
IF_EXISTS = ("error", "replace")
DOORS = ("python", "cli", "job", "sql")
DEFAULT_CHUNK_ROWS = 65_536


@dataclass(frozen=True)
class Job:
    """What shall be anonymized, how, and what is made of it.

    Parameters
    ----------
    table, output : names of the relation that is read and of the one that is made, as people write
        them: ``people``, ``app.people``, ``"App"."Peo ple"``.
    quasi_identifiers, sensitive, keep : columns by role; a column named nowhere is not copied.
    policy : the wanted guarantee.
    hierarchies : by quasi-identifier, beside those of the policy: what is still to be read or made.
    by : columns whose values make strata: released as they are, and no class crosses them.
    entity : the column that says whose a row is, so that k counts its distinct values; not
        released. None where every row is a person of its own.
    key : columns that tell every row from every other; empty for the relation's own row key.
    output_kind : ``table``, or ``view`` for a stable name over a released table.
    if_exists : ``error``, or ``replace`` for outputs that dbanon made.
    chunk_rows : rows that are read at a time; never changes the result.
    memory_limit : bytes that reading and clustering may use; None for no limit.
    door : ``python``, ``cli``, ``job`` or ``sql``: where it was asked for, for the ledger.
    """

    table: str
    output: str
    quasi_identifiers: tuple[str, ...]
    policy: Policy
    hierarchies: Mapping[str, Hierarchy | HierarchySpec] = field(default_factory=dict)
    sensitive: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    entity: str | None = None
    key: tuple[str, ...] = ()
    output_kind: str = "table"
    if_exists: str = "error"
    chunk_rows: int = DEFAULT_CHUNK_ROWS
    memory_limit: int | None = None
    door: str = "python"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("output_kind", self.output_kind, OUTPUT_KINDS),
            ("if_exists", self.if_exists, IF_EXISTS),
            ("door", self.door, DOORS),
        ):
            if value not in known:
                raise InvalidParameter(f"{name} must be one of {', '.join(known)}.")
        if self.chunk_rows < 1:
            raise InvalidParameter("chunk_rows must be 1 or more.")
        columns = {name: getattr(self, name) for name in COLUMN_LISTS}
        require_lists(**columns)
        for name, given in columns.items():
            if not all(isinstance(column, str) for column in given):
                raise InvalidParameter(f"{name} must be a list of names, each a text.")
        check_models(self.policy.models, self.sensitive)
        for column in self.hierarchies:
            if column not in self.quasi_identifiers:
                raise InvalidParameter(
                    f'The hierarchy of "{column}" names no quasi-identifier.',
                    hint="Give hierarchies to quasi-identifiers only.",
                )
        require_own_ranges(self.hierarchies, self.policy.local_range)
        check_entity(self.entity, self.named)
        for column in self.named:
            if self.named.count(column) > 1:
                raise InvalidParameter(
                    f'Column "{column}" is named more than once.',
                    hint="A column is a quasi-identifier, a stratum, sensitive or kept.",
                )

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns that are released as they are: strata, sensitive and others."""
        return (*self.by, *self.sensitive, *self.keep)

    @property
    def named(self) -> tuple[str, ...]:
        """The columns that a release tells something of."""
        return (*self.quasi_identifiers, *self.kept)


def check_entity(entity: str | None, named: Sequence[str]) -> None:
    """Check that the entity column is none of those that a release tells something of.

    Raises
    ------
    InvalidParameter : it is.
    """
    if entity is not None and not isinstance(entity, str):
        raise InvalidParameter("entity must be the name of one column.")
    if entity is not None and entity in named:
        raise InvalidParameter(
            f'The entity column "{entity}" says whose a row is, so it cannot be released.',
            hint="Name it as entity only, and as no quasi-identifier, stratum, sensitive or kept"
            " column.",
        )


def check_models(models: Sequence[Model], sensitive: Sequence[str]) -> None:
    """Check what can be refused before anything is read.

    Raises
    ------
    InvalidParameter : a model names no sensitive column, or a column has two orders.
    """
    orders: dict[str, object] = {}
    for model in models:
        name = model.attribute
        if name not in sensitive:
            raise InvalidParameter(
                f'The privacy model of "{name}" names no sensitive column.',
                hint="Name the column in sensitive, too.",
            )
        if model.distance != "equal" and orders.setdefault(name, model.distance) != model.distance:
            raise InvalidParameter(
                f'The privacy models of "{name}" measure distances in two ways.',
                hint="Use one order or one hierarchy for all models of a column.",
            )
