"""The options of SQL calls: allowed keys, checks of their values, and errors.

A private job makes differentially private synthetic rows. SQL has a procedure for each of its
methods. Other methods make classes of rows, by functions.

Errors quote no value of an option or of the data.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbanon.data.extension import load_runner
from dbanon.data.option import Option, Parameter, all_parameters, parameters
from dbanon.data.types import JsonMapping, JsonObject, KeywordArguments
from dbanon.errors import (
    DbanonError,
    InvalidParameter,
    MemoryLimit,
    NotBuilt,
    UnknownOption,
    VersionMismatch,
    nearest_names,
)
from dbanon.errors.base import Notation
from dbanon.job.columns import RULES_NOT_READ
from dbanon.job.job import Job
from dbanon.measures import Model, model_kinds
from dbanon.methods import find_method
from dbanon.stores.postgresql.errors import translate_notice_error, translate_spi_error
from dbanon.version import version

if TYPE_CHECKING:
    from dbanon.data.frozen import DataclassInstance
    from dbanon.run.job_runner import RiskRunner
    from dbanon.stores.postgresql.plpython import PlPython

# From short names of privacy models to the kind of model.
SHORT_MODELS = {"l_diversity": "distinct_l"}

# Keys that only SQL calls have: progress notices, and short forms of models.
_PROGRESS_OPTION = Parameter(
    name="progress",
    type=bool,
    default=False,
    option=Option("A NOTICE at most every 2 seconds."),
)
_SHORT_MODEL_OPTIONS = tuple(
    Parameter(
        name=kind,
        type=JsonMapping,
        default={},
        option=Option(
            f"The level of {SHORT_MODELS.get(kind, kind)}, or an object with level and the model's"
            " own keys.",
            expected="levels by column",
            concerns_release=True,
        ),
    )
    for kind in (*SHORT_MODELS, *model_kinds())
)

_MODEL_HELP = (
    ' As in [{"attribute": "diagnosis", "kind": "distinct_l", "level": 3}], with "l" for'
    ' recursive_cl and "distance" for t_closeness (equal, ordered or a hierarchy).'
)

# Options of methods that make classes. A procedure for synthetic rows refuses them with a message
# that says so.
_CLASS_METHOD_OPTIONS = frozenset(parameter.name for parameter in all_parameters(Job))

_UNIMPLEMENTED_OPTIONS = ("on_column_change",)
# Refused because its value is SQL: an application may pass on options from its users, who could
# then run SQL with the application's rights. A view runs a condition with its owner's rights.
_CONDITION_OPTION = "where"
# Refused because they need a secret key, which would appear in logs and statement statistics.
_CHAIN_OPTION = "chain"
_PSEUDONYM_OPTIONS = ("pseudonyms", "pseudonym_key")


def allowed_keys(
    method: str, arguments: Collection[str], *, writes: bool, job: type[DataclassInstance] = Job
) -> dict[str, Parameter]:
    """Return the allowed keys of ``options`` by name.

    Parameters
    ----------
    arguments : names of the SQL function's arguments, which are not keys.
    writes : False for a call that only returns classes, without a release.
    job : the dataclass whose options are keys.
    """
    candidates = [
        parameter
        for parameter in all_parameters(job)
        if parameter.option.available_in_sql and parameter.name not in arguments
    ]
    candidates += [*_SHORT_MODEL_OPTIONS, _PROGRESS_OPTION, *find_method(method).options]
    return {
        parameter.name: parameter
        for parameter in candidates
        if writes or not parameter.option.concerns_release
    }


def check_private_options(
    call_options: JsonMapping, arguments: Collection[str]
) -> KeywordArguments:
    """Check options of a procedure for synthetic rows, and return their values by name.

    Raises the errors of ``parse_call_options``.

    Parameters
    ----------
    arguments : names of the procedure's arguments, which are not keys.
    """
    from dbanon.job.private import PrivateJob, build_option_refusal

    allowed_options = {
        parameter.name: parameter
        for parameter in all_parameters(PrivateJob)
        if parameter.option.available_in_sql and parameter.name not in arguments
    }
    for name in call_options:
        if name not in allowed_options and (
            name in _CLASS_METHOD_OPTIONS or name == _CONDITION_OPTION
        ):
            raise build_option_refusal(name)
    return _check_options(allowed_options, call_options)


def allowed_advice_keys() -> dict[str, Parameter]:
    """Return the keys of ``options`` that advice takes."""
    from dbanon.advice.request import AdviceRequest

    request_options = [
        parameter for parameter in parameters(AdviceRequest) if parameter.option.available_in_sql
    ]
    return {
        parameter.name: parameter
        for parameter in (*request_options, _PROGRESS_OPTION)
        # An argument of the SQL function, so it is not a key.
        if parameter.name != "quasi_identifiers"
    }


def check_advice_options(call_options: object) -> KeywordArguments:
    """Check the options of advice, and return their values by name.

    Raises the errors of ``parse_call_options``.
    """
    return _check_options(allowed_advice_keys(), call_options)


def allowed_risk_keys() -> dict[str, Parameter]:
    """Return the keys of ``options`` that the disclosure risk of a sample takes."""
    runner: RiskRunner = load_runner("sample_risk")
    return {
        parameter.name: parameter
        for parameter in (*runner.options, _PROGRESS_OPTION)
        # An argument of the SQL function, so it is not a key.
        if parameter.option.available_in_sql and parameter.name != "quasi_identifiers"
    }


def check_risk_options(call_options: object) -> KeywordArguments:
    """Check the options of the disclosure risk of a sample, and return their values by name.

    Raises the errors of ``parse_call_options``.
    """
    return _check_options(allowed_risk_keys(), call_options)


def describe_option(parameter: Parameter) -> str:
    """Describe a key: the form of its value, its default and its effect."""
    default = f" ({parameter.default_text} by default)" if parameter.default_text else ""
    model_help = _MODEL_HELP if parameter.item_type is Model else ""
    return f"{parameter.expected}{default}. {parameter.help}{model_help}"


def parse_call_options(
    call: JsonMapping, *, writes: bool, job: type[DataclassInstance] = Job
) -> KeywordArguments:
    """Check the arguments and options of a call, and return their values by name.

    Options of the method are in a mapping under ``options``.

    Parameters
    ----------
    call : the arguments of the SQL function by name.
    writes : False for a call that only returns classes, without a release.
    job : the dataclass whose options are keys.

    Raises
    ------
    UnknownOption : there is no such key.
    NotBuilt : SQL calls do not support the key.
    InvalidParameter : a value has the wrong type, or is NULL.
    """
    method, call_options = call["method"], _require_object(call["options"])
    allowed_options = allowed_keys(method, call, writes=writes, job=job)
    method_options = {option.name for option in find_method(method).options}
    argument_parameters = [
        parameter
        for parameter in all_parameters(job)
        if parameter.name in call and parameter.name != "options"
    ]
    # Without quasi-identifiers, the rules that the table's owner declared define the roles. The run
    # reads them.
    uses_table_rules = writes and call["quasi_identifiers"] is None
    values = {
        parameter.name: _check_value(parameter, call[parameter.name])
        for parameter in argument_parameters
        if not (uses_table_rules and parameter.name == "quasi_identifiers")
    }
    if uses_table_rules:
        values |= {"quasi_identifiers": (), "declared": RULES_NOT_READ}
    values["options"] = {}
    for name, value in call_options.items():
        if name in method_options:
            values["options"][name] = value
        elif name in allowed_options:
            values[name] = _check_value(allowed_options[name], value)
        elif name == _CONDITION_OPTION:
            raise NotBuilt(
                "A call in SQL does not accept a condition: options contain values, not SQL.",
                hint="Create a view of the rows (CREATE VIEW … AS SELECT … WHERE …), and anonymize"
                """ it with its key: options => '{"key": ["…"]}'.""",
            )
        elif name == _CHAIN_OPTION:
            raise NotBuilt(
                "A call in SQL cannot make a release of a chain, because the key must not appear"
                " in SQL.",
                hint="Run it from a client: dbanon anonymize, dbanon.anonymize in Python, or a job"
                " file.",
            )
        elif name in _PSEUDONYM_OPTIONS:
            raise NotBuilt(
                "A call in SQL cannot make pseudonyms, because the key must not appear in SQL.",
                hint="Run it from a client: dbanon anonymize, dbanon.anonymize in Python, or a job"
                " file.",
            )
        elif name in _UNIMPLEMENTED_OPTIONS:
            raise NotBuilt(
                f'Option "{name}" is not implemented yet.',
                hint=_unknown_option_hint(allowed_options),
            )
        else:
            raise UnknownOption(
                f'There is no option "{name}".', hint=_unknown_option_hint(allowed_options, name)
            )
    for parameter in _SHORT_MODEL_OPTIONS:
        if parameter.name in values:
            models = _build_models(parameter.name, values.pop(parameter.name))
            values["models"] = (*values.get("models", ()), *models)
    return values


def require_repeatable_in_sql(job: Job) -> None:
    """Check that a SQL call can repeat a release that a client made.

    Raises
    ------
    NotBuilt : the release has a condition, exports, a chain or pseudonyms.
    """
    for name in (_CONDITION_OPTION, _CHAIN_OPTION, "exports", "pseudonyms"):
        if getattr(job, name):
            raise NotBuilt(
                f"A call in SQL does not take {name}, with which the release was made.",
                hint=f"Refresh it from a client: dbanon refresh URL {shlex.quote(job.output)}",
            )


def _require_object(call_options: object) -> JsonMapping:
    """Return the options of a call, empty for NULL; raises InvalidParameter for other values."""
    if call_options is None:
        return {}
    if not isinstance(call_options, Mapping):
        raise InvalidParameter(
            "options must be a JSON object.",
            hint="Write an object, as in options => '{\"seed\": 1}'.",
        )
    return call_options


def _check_options(
    allowed_options: Mapping[str, Parameter], call_options: object
) -> KeywordArguments:
    """Check options against the allowed keys, and return their values by name."""
    call_options = _require_object(call_options)
    for name in call_options:
        if name not in allowed_options:
            raise UnknownOption(
                f'There is no option "{name}".', hint=_unknown_option_hint(allowed_options, name)
            )
    return {
        name: _check_value(allowed_options[name], value) for name, value in call_options.items()
    }


def _check_value(parameter: Parameter, value: object) -> Any:
    """Check a value and convert it to the option's type."""
    # NULL often comes from a wrong expression, so it is accepted only if it is the default.
    if value is None and parameter.default is not None:
        raise parameter.refusal_error()
    if parameter.item_type is Model and isinstance(value, list):
        value = [_build_model(model) for model in value]
    return parameter.check(value)


def _build_models(kind: str, levels: JsonMapping) -> list[Model]:
    """Build the models of a short form.

    Parameters
    ----------
    kind : the key of the short form.
    levels : by column, a level or an object with the fields of a model.
    """
    models = []
    for attribute, level in levels.items():
        fields = level if isinstance(level, Mapping) else {"level": level}
        if "kind" in fields or "attribute" in fields:
            raise InvalidParameter(
                f'Option "{kind}" already gives the kind and the column: leave out "kind" and'
                ' "attribute".'
            )
        kind_and_attribute = {"kind": SHORT_MODELS.get(kind, kind), "attribute": attribute}
        models.append(_build_model({**kind_and_attribute, **fields}))
    return models


def _build_model(fields: object) -> Model:
    """Build a model from a JSON object; hierarchies from files are refused."""
    return Model.from_plain(fields if isinstance(fields, Mapping) else {}, files=False)


def _unknown_option_hint(allowed_options: Mapping[str, Parameter], name: str = "") -> str:
    """List the known options, after the one that is most similar to ``name``."""
    suggestion = nearest_names(name, allowed_options) if name else None
    return (
        (suggestion + " " if suggestion else "")
        + "Known options: "
        + ", ".join(allowed_options)
        + "."
    )


def require_version(sql_version: str) -> None:
    """Check that SQL functions and package have the same version; raises VersionMismatch."""
    if sql_version != version():
        raise VersionMismatch(
            f"The SQL functions are of version {sql_version}, Python has {version()}.",
            hint="A superuser runs: dbanon upgrade URL",
        )


def messages_of(
    caught_warnings: Sequence[warnings.WarningMessage], category: type[Warning]
) -> list[str]:
    """Return the messages of warnings of one category.

    Other warnings may come from libraries, and quote data.
    """
    return [
        f"dbanon: {record.message}"
        for record in caught_warnings
        if issubclass(record.category, category)
    ]


def error_to_json(refusal: DbanonError, spelling: Notation) -> JsonObject:
    """Convert an error to JSON values.

    An ellipsis becomes three dots, because some encodings of databases lack the character.
    """
    return {
        name: value.replace("\N{HORIZONTAL ELLIPSIS}", "...") if isinstance(value, str) else value
        for name, value in refusal.to_dict(spelling).items()
    }


def to_dbanon_error(plpy: PlPython, failure: Exception) -> DbanonError:
    """Translate an exception into the error that a call reports."""
    if isinstance(failure, DbanonError):
        return failure
    if isinstance(failure, RecursionError):
        return InvalidParameter("An argument is nested too deeply.")
    if isinstance(failure, MemoryError):
        return MemoryLimit("The backend ran out of memory.")
    if hasattr(failure, "spidata"):
        return translate_spi_error(failure)
    # Sending a notice can also raise a cancellation, which has ``sqlstate`` but no ``spidata``.
    if isinstance(getattr(failure, "sqlstate", None), str):
        return translate_notice_error(failure)
    # An exception's text may quote a value, so report only its type.
    kind = type(failure).__name__
    plpy.log(f"dbanon: unexpected {kind}")
    return DbanonError(f"dbanon failed unexpectedly ({kind}); nothing was published.")
