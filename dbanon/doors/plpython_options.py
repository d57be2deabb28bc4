"""The options of SQL calls: the keys that a call takes, and their values; errors that they raise.

No error holds a value of anybody's.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dbanon.data.option import Option, Parameter, all_parameters, parameters
from dbanon.errors import (
    DbanonError,
    InvalidParameter,
    MemoryLimit,
    NotBuilt,
    UnknownOption,
    VersionMismatch,
    nearest_names,
)
from dbanon.errors.base import Way
from dbanon.job.job import Job
from dbanon.job.private import PrivateJob, refused
from dbanon.job.rules import BY_RULES
from dbanon.measures import Model, model_kinds
from dbanon.methods import find_method
from dbanon.stores.postgresql.errors import notice_error, spi_error
from dbanon.version import version

# Other names of privacy models, as keys.
SHORT_MODELS = {"l_diversity": "distinct_l"}

# What only these calls have: a word of progress, and short forms of models.
PROGRESS = Parameter("progress", bool, False, Option("A NOTICE at most every 2 seconds."))
SHORT_FORMS = tuple(
    Parameter(
        kind,
        Mapping[str, Any],
        {},
        Option(
            f"The level of {SHORT_MODELS.get(kind, kind)}, or an object with level and the model's"
            " own keys.",
            expected="levels by column",
            release=True,
        ),
    )
    for kind in (*SHORT_MODELS, *model_kinds())
)

_MODEL_HELP = (
    ' As in [{"attribute": "diagnosis", "kind": "distinct_l", "level": 3}], with "l" for'
    ' recursive_cl and "distance" for t_closeness (equal, ordered or a hierarchy).'
)

# What other methods have, and are told so.
_OF_OTHERS = frozenset(one.name for one in all_parameters(Job))

LATER = ("on_column_change",)
# Options are values that an application may hand on: a text of SQL among them would be run by
# whoever calls. In a view the database reads it once, by the rights of the view's owner.
CONDITION = "where"
# A key as an argument would stand in logs and in statistics of statements.
CHAIN = "chain"
PSEUDONYMS = ("pseudonyms", "pseudonym_key")


def keys(
    method: str, arguments: Collection[str], *, writes: bool, job: type[Any] = Job
) -> dict[str, Parameter]:
    """The keys of ``options`` that a call takes.

    Parameters
    ----------
    arguments : what the function has arguments for.
    writes : False for a call that gives classes alone, and releases nothing.
    """
    found = [one for one in all_parameters(job) if one.option.sql and one.name not in arguments]
    found = [*found, *SHORT_FORMS, PROGRESS, *find_method(method).options]
    return {one.name: one for one in found if writes or not one.option.release}


def keys_of_private(given: Mapping[str, Any], arguments: Collection[str]) -> dict[str, Any]:
    """The options of a procedure of synthetic rows by name; raises as ``parse``."""
    known = {
        one.name: one
        for one in all_parameters(PrivateJob)
        if one.option.sql and one.name not in arguments
    }
    for name in given:
        if name not in known and (name in _OF_OTHERS or name == CONDITION):
            raise refused(name)
    return _given(known, given)


def advice_keys() -> dict[str, Parameter]:
    """The keys of ``options`` that advice takes."""
    from dbanon.advice.request import AdviceRequest

    known = [one for one in parameters(AdviceRequest) if one.option.sql]
    return {one.name: one for one in (*known, PROGRESS) if one.name != "quasi_identifiers"}


def advice_options(given: Any) -> dict[str, Any]:
    """The options of advice by name; raises as ``parse``."""
    return _given(advice_keys(), given)


def describe_option(one: Parameter) -> str:
    """A key's value in words, and what it does."""
    default = f" ({one.by_default} by default)" if one.by_default else ""
    return f"{one.expected}{default}. {one.help}{_MODEL_HELP if one.item is Model else ''}"


def parse(call: Mapping[str, Any], *, writes: bool, job: type[Any] = Job) -> dict[str, Any]:
    """The arguments and options of a call by name, those of its method as ``options``.

    Raises
    ------
    UnknownOption : there is no such key.
    NotBuilt : the key belongs to a later version.
    InvalidParameter : a value has another type, or is NULL.
    """
    method, given = call["method"], call["options"]
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise InvalidParameter("options must be a JSON object.", hint="As in '{\"seed\": 1}'.")
    known = keys(method, call, writes=writes, job=job)
    own = {option.name for option in find_method(method).options}
    arguments = [one for one in all_parameters(job) if one.name in call and one.name != "options"]
    by_rules = writes and call["quasi_identifiers"] is None
    values = {
        one.name: _value(one, call[one.name])
        for one in arguments
        if not (by_rules and one.name == "quasi_identifiers")
    }
    if by_rules:
        values |= {"quasi_identifiers": (), "declared": BY_RULES}
    values["options"] = {}
    for name, value in given.items():
        if name in own:
            values["options"][name] = value
        elif name in known:
            values[name] = _value(known[name], value)
        elif name == CONDITION:
            raise NotBuilt(
                "A call in SQL takes no condition: options hold values, and no SQL.",
                hint="Anonymize a view of the rows: CREATE VIEW … AS SELECT … WHERE …, with its"
                ' key in options: {"key": ["…"]}.',
            )
        elif name == CHAIN:
            raise NotBuilt(
                "A call in SQL makes no release of a chain: its key is no argument of SQL.",
                hint="Run it from a client: the command line, Python or a job file.",
            )
        elif name in PSEUDONYMS:
            raise NotBuilt(
                "A call in SQL makes no pseudonyms: their key is no argument of SQL.",
                hint="Run it from a client: the command line, Python or a job file.",
            )
        elif name in LATER:
            raise NotBuilt(f'Option "{name}" is not built yet.', hint=_hint(known))
        else:
            raise UnknownOption(f'There is no option "{name}".', hint=_hint(known, name))
    for one in SHORT_FORMS:
        if one.name in values:
            models = _models(one.name, values.pop(one.name))
            values["models"] = (*values.get("models", ()), *models)
    return values


def require_of_sql(job: Job) -> None:
    """Check that a release of a client's can be made again by a call in SQL.

    Raises
    ------
    NotBuilt : it has a condition, files, or a chain or pseudonyms, whose key is no argument of SQL.
    """
    for name in (CONDITION, CHAIN, "exports", "pseudonyms"):
        if getattr(job, name):
            raise NotBuilt(
                f"A call in SQL takes no {name}, which the release was made with.",
                hint="Make it again from a client: dbanon refresh.",
            )


def _given(known: Mapping[str, Parameter], given: Any) -> dict[str, Any]:
    """The values of keys, none of which is another."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise InvalidParameter("options must be a JSON object.", hint="As in '{\"seed\": 1}'.")
    for name in given:
        if name not in known:
            raise UnknownOption(f'There is no option "{name}".', hint=_hint(known, name))
    return {name: _value(known[name], value) for name, value in given.items()}


def _value(one: Parameter, value: Any) -> Any:
    # NULL is what a wrong expression gives: it is a wish only where it is the default.
    if value is None and one.default is not None:
        raise one.refusal()
    if one.item is Model and isinstance(value, list):
        value = [_model(model) for model in value]
    return one.check(value)


def _models(kind: str, levels: Mapping[str, Any]) -> list[Model]:
    """The models of a short form: the level, or more, by column."""
    found = []
    for attribute, level in levels.items():
        more = level if isinstance(level, Mapping) else {"level": level}
        if "kind" in more or "attribute" in more:
            raise InvalidParameter(f'Option "{kind}" says kind and attribute by itself.')
        named = {"kind": SHORT_MODELS.get(kind, kind), "attribute": attribute}
        found.append(_model({**named, **more}))
    return found


def _model(given: Any) -> Model:
    return Model.of_plain(given if isinstance(given, Mapping) else {}, files=False)


def _hint(known: Mapping[str, Parameter], name: str = "") -> str:
    near = nearest_names(name, known) if name else None
    return (near + " " if near else "") + "Known options: " + ", ".join(known) + "."


def require_version(sql_version: str) -> None:
    """Check that functions and package are of one version; raises VersionMismatch."""
    if sql_version != version():
        raise VersionMismatch(
            f"The SQL functions are of version {sql_version}, Python has {version()}.",
            hint="Ask a superuser to run: dbanon upgrade",
        )


def messages_of(caught: Sequence[warnings.WarningMessage], category: type[Warning]) -> list[str]:
    """The messages of warnings of a class of dbanon's; those of a library may hold values."""
    return [f"dbanon: {one.message}" for one in caught if issubclass(one.category, category)]


def plain_error(refusal: DbanonError, way: Way) -> dict[str, Any]:
    """The error as plain values; dbanon's own text in characters that every encoding has."""
    return {
        name: value.replace("\N{HORIZONTAL ELLIPSIS}", "...") if isinstance(value, str) else value
        for name, value in refusal.to_dict(way).items()
    }


def refusal_of(plpy: Any, failure: Exception) -> DbanonError:
    """The error that a call raises for a failure."""
    if isinstance(failure, DbanonError):
        return failure
    if isinstance(failure, RecursionError):
        return InvalidParameter("An argument is nested too deep.")
    if isinstance(failure, MemoryError):
        return MemoryLimit("The backend has run out of memory.")
    if hasattr(failure, "spidata"):
        return spi_error(failure)
    # A notice looks for a cancel as a statement does, and its error has the state in another place.
    if isinstance(getattr(failure, "sqlstate", None), str):
        return notice_error(failure)
    # The text of an exception may hold a value: only its type is told.
    kind = type(failure).__name__
    plpy.log(f"dbanon: unexpected {kind}")
    return DbanonError(f"dbanon failed unexpectedly ({kind}); nothing was published.")
