"""Check that the options of a job are compatible with each other.

Passthrough columns are retained columns whose values pass through the client's memory. The option
``kept_columns``, and messages about it, call all retained columns *kept*: strata, sensitive columns
and those of the option ``keep``.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.data.option import Option
from dbanon.data.scales import MAHALANOBIS
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, UnsupportedType, pluralize
from dbanon.job.date_shift import DateShift
from dbanon.job.nulls import MERGE
from dbanon.job.policy import Policy
from dbanon.measures import Model
from dbanon.methods import METHODS, find_method
from dbanon.methods.registry import Method
from dbanon.recoding import Recoding, find_recoding
from dbanon.spaces.numeric import compute_column_factors

INDEPENDENT = "independent"
RELEASES = Option(
    "independent: make another release of a source whose persons were released before, outside a"
    " chain. Otherwise such a release is refused, because readers can intersect the classes of"
    " both.",
    choices=(INDEPENDENT,),
    concerns_release=True,
    docs_page="chains.md#a-second-release",
)


def require_chain_options(
    policy: Policy,
    entity: str | None,
    pseudonyms: Sequence[str] = (),
    releases: str | None = None,
) -> None:
    """Check the options of a release in a chain.

    Parameters
    ----------
    entity : the entity column; None if there is none.
    pseudonyms : columns that are released as pseudonyms.
    releases : the option ``releases``; None if it is not set.

    Raises
    ------
    InvalidParameter : the release has no entity, or an option for releases outside chains.
    """
    if not entity:
        raise InvalidParameter(
            "A chain follows persons, so it needs a column that identifies them.",
            hint="Name it: `entity`.",
        )
    if releases is not None:
        raise InvalidParameter(
            f"Releases of a chain cannot be {releases}: the chain checks them against each other.",
            hint="Leave out `releases`, or release without a chain.",
        )
    if policy.guarantee != "rows":
        raise InvalidParameter(
            f"A chain keeps histories of k-anonymous rows, and guarantee={policy.guarantee} does"
            " not have such rows.",
            hint="Leave out `guarantee`.",
        )
    if policy.evaluate:
        raise InvalidParameter(
            "A release of a chain cannot be evaluated, because most of its classes come from"
            " earlier releases.",
            hint="Leave out `evaluate`.",
        )
    if policy.certificate is not None:
        raise InvalidParameter(
            "A release of a chain has no certificate, because its classes depend on earlier"
            " releases.",
            hint="Leave out `certificate`.",
        )
    if policy.models and policy.refine is not None:
        raise InvalidParameter(
            "In a chain with privacy models classes are not refined, because which records move"
            " would depend on sensitive values.",
            hint="Leave out `refine`.",
        )
    if pseudonyms:
        raise InvalidParameter(
            "A chain prevents readers from linking rows, and pseudonyms would link them.",
            hint="Leave out `pseudonyms`, or release without a chain.",
        )
    # Sets of ``also_k`` are met by making the values of some classes coarser, but the classes of a
    # chain keep their values.
    if policy.also_k:
        raise InvalidParameter(
            "A chain keeps histories of whole classes, whose columns cannot be made coarser by"
            " sets.",
            hint="Leave out `also_k`, or release without a chain.",
        )
    # A cell in these messages is a value of a row, not a cell of the chain.
    if find_method(policy.method).suppresses_cells:
        raise InvalidParameter(
            f"A chain does not suppress single cells, as method {policy.method} does: a value that"
            " is suppressed in one release but not in the next would be revealed.",
            hint='Choose another method, such as `method="gaa_cp"`, or release without a chain.',
        )
    if policy.nulls == MERGE:
        raise InvalidParameter(
            "A chain does not suppress single cells: a value that is suppressed in one release but"
            " not in the next would be revealed.",
            hint='Use `nulls="category"` or `nulls="suppress"`.',
        )
    _require_single_table_options(policy)
    if policy.options.get("suppression"):
        raise InvalidParameter(
            "A chain does not suppress persons for the sake of others: newcomers wait, or join a"
            " class.",
            hint="Leave out the method's option suppression.",
        )


def _require_single_table_options(policy: Policy) -> None:
    """Refuse options of a chain that only releases outside chains have; raises InvalidParameter."""
    if coded_columns := policy.coding.columns:
        raise InvalidParameter(
            f'A chain compares the values of its releases, and column "{coded_columns[0]}" is'
            " coded.",
            hint="Leave out `top`, `bottom` and `recode`, or release without a chain. A view may"
            " have the coded values.",
        )
    if policy.profile is not None:
        raise InvalidParameter(
            "A profile is checked for a release of one table, not for the tables of a chain.",
            hint="Leave out `profile`, or release without a chain.",
        )


def require_spillable(policy: Policy, entity_columns: Sequence[str]) -> None:
    """Check that no option of a job needs all values of a table in memory at once.

    Parameters
    ----------
    entity_columns : the entity column as the only element; empty if there is none.

    Raises
    ------
    InvalidParameter : an option needs all values, or the policy has no blocks.
    """
    # This property raises InvalidParameter if the policy has no blocks.
    _ = policy.records_at_once
    requested_features = {
        "an entity or a chain": bool(entity_columns),
        "privacy models": bool(policy.models),
        "sets of columns": bool(policy.also_k),
        "evaluate": policy.evaluate,
        "a certificate": policy.certificate is not None,
        "Mahalanobis distances": policy.standardize == MAHALANOBIS,
        "an order": bool(policy.orders),
        "coded columns (top, bottom, recode)": bool(policy.coding.columns),
        "coded ZIP codes (zip_population)": policy.zip_population is not None,
        "nulls=merge": policy.nulls == MERGE,
        f"method {policy.method}": find_method(policy.method).suppresses_cells,
        # Only the recoding ``representative`` is measured by Gower's distance.
        f"recoding {policy.recoding}": find_recoding(str(policy.recoding)).measure == "gower",
    }
    for feature, is_requested in requested_features.items():
        if is_requested:
            raise InvalidParameter(
                f"A job that spills values to disk cannot use {feature}: all values would have to"
                " be in memory.",
                hint="Leave out `spill`, or that feature.",
            )


# Values of ``Job.kept_columns``: whether values of retained columns stay on the database server or
# pass through the client.
SERVER, CLIENT = KEPT_COLUMNS = ("server", "client")


def require_passthrough_options(
    *,
    has_entity: bool,
    in_chain: bool,
    spills: bool,
    has_pseudonyms: bool = False,
    shifts_dates: bool = False,
    coding_option: str = "",
) -> None:
    """Check that no option prevents kept columns from passing through the client.

    Parameters
    ----------
    has_entity : True if the job has an entity column, whose persons the database counts.
    in_chain : True if the job makes a release of a chain.
    spills : True if values are spilled to disk; kept columns would stay in memory.
    has_pseudonyms : True if columns are released as pseudonyms, which the database computes.
    shifts_dates : True if dates are shifted, which the database does.
    coding_option : an option that codes numbers of copied columns, which the database does; empty
        if there is none.

    Raises
    ------
    InvalidParameter : an argument is True.
    """
    requested_features = {
        "chain": in_chain,
        "entity": has_entity,
        "spill": spills,
        "pseudonyms": has_pseudonyms,
        "shift_dates": shifts_dates,
        coding_option: bool(coding_option),
    }
    for option, is_requested in requested_features.items():
        if is_requested:
            raise InvalidParameter(
                f"Kept columns cannot pass through the client with {option}.",
                hint=f"Leave out `kept_columns`, or `{option}`.",
            )


def require_uncounted_copies(policy: Policy, copied_columns: Sequence[str]) -> None:
    """Check that the values of coded copies are not counted in classes.

    Parameters
    ----------
    copied_columns : the sensitive and the kept columns.

    Raises
    ------
    InvalidParameter : a privacy model or a set of columns counts a coded copy.
    """
    for name in policy.coding.columns:
        if name in copied_columns and name in _list_counted_columns(policy):
            raise InvalidParameter(
                f'The values of column "{name}" are counted in classes, and coding would change'
                " them.",
                hint="Leave it out of `top`, `bottom` and `recode`, or of `models` and `also_k`.",
            )


def _list_counted_columns(policy: Policy) -> set[str]:
    """List the columns that privacy models and sets of columns count in classes."""
    return {
        *(model.attribute for model in policy.models),
        *(name for column_set in policy.also_k for name in column_set.columns),
    }


def require_shift_options(
    shift: DateShift | None,
    policy: Policy,
    unchanged_columns: Sequence[str],
    *,
    in_chain: bool,
    spills: bool,
) -> None:
    """Check the options of a release with shifted dates.

    Parameters
    ----------
    shift : the dates that are shifted; None if there are none.
    unchanged_columns : the sensitive and the kept columns.
    in_chain : True for a release in a chain.
    spills : True if values are spilled to disk.

    Raises
    ------
    InvalidParameter : a column is not copied, its values are counted, or an option does not go
        with shifted dates.
    """
    if shift is None:
        return
    counted_columns = _list_counted_columns(policy)
    for name in shift.columns:
        if name not in unchanged_columns:
            raise InvalidParameter(
                f'Column "{name}", named in `shift_dates`, is not copied to the release.',
                hint="Copy it: `keep`. Dates of quasi-identifiers and strata cannot be shifted.",
            )
        if name in counted_columns:
            raise InvalidParameter(
                f'The values of column "{name}" are counted in classes, and `shift_dates` would'
                " change them.",
                hint="Leave it out of `shift_dates`, or of `models` and `also_k`.",
            )
    if in_chain:
        raise InvalidParameter(
            "A chain shows the rows of a person again and again, so that readers would compare"
            " shifted dates of several releases.",
            hint="Leave out `shift_dates`, or release without a chain.",
        )
    if spills:
        raise InvalidParameter(
            "A job that spills values to disk cannot shift dates.",
            hint="Leave out `spill`, or `shift_dates`.",
        )


def check_single_role(columns: Sequence[str]) -> None:
    """Check that no column has two roles.

    Parameters
    ----------
    columns : the columns of all roles.

    Raises
    ------
    InvalidParameter : a column is named twice.
    """
    for column in columns:
        if columns.count(column) > 1:
            raise InvalidParameter(
                f'Column "{column}" is named more than once.',
                hint="A column is a quasi-identifier, a stratum, sensitive or kept.",
            )


def check_entity(entity: str | None, released_columns: Sequence[str]) -> None:
    """Check that the entity column is not a released column.

    Raises
    ------
    InvalidParameter : the entity column is released.
    """
    if entity in released_columns:
        raise InvalidParameter(
            f'The entity column "{entity}" identifies persons, so it cannot be released.',
            hint="Name it as `entity` only, and as no quasi-identifier, stratum, sensitive or kept"
            " column.",
        )


def check_normalize(entity: str | None, *, in_chain: bool, has_table_rules: bool) -> None:
    """Check the option ``entity_normalize``: it needs an entity, and chains do not support it.

    Parameters
    ----------
    has_table_rules : True if the entity may come from the rules of the table.

    Raises
    ------
    InvalidParameter : there is no entity, or there is a chain.
    """
    if not entity and not has_table_rules:
        raise InvalidParameter(
            "entity_normalize needs an entity.",
            hint="Name the column that identifies the person of a row: `entity`.",
        )
    # The hint means: give each person's identifier one spelling.
    if in_chain:
        raise InvalidParameter(
            "A chain follows persons by their exact values, without normalization.",
            hint="Leave out `entity_normalize`, and spell them alike in a view.",
        )


def require_wildcard_options(
    by: Sequence[str],
    entity: str | None,
    columns_in_sets: Sequence[str],
    averaged_weights: Sequence[str],
) -> None:
    """Check the columns of a release where NULL agrees with every value.

    Parameters
    ----------
    by : the columns of strata.
    entity : the entity column; None if there is none.
    columns_in_sets : the copied columns that sets of ``also_k`` name.
    averaged_weights : the design weight as the only element, if classes get its mean.

    Raises
    ------
    InvalidParameter : rows that agree would have to be persons, or share copied values.
    """
    subject = "Where NULL agrees with every value (missing=wildcard),"
    if entity:
        raise InvalidParameter(
            f"{subject} k counts rows that agree, not persons.",
            hint="Leave out `entity`, or leave out `missing`: NULL is then a value of its own.",
        )
    if by:
        raise InvalidParameter(
            f"{subject} rows of different strata agree with each other.",
            hint="Leave out `by`, or leave out `missing`: NULL is then a value of its own.",
        )
    if averaged_weights:
        raise InvalidParameter(
            f"{subject} a class may have one row, whose mean weight is its own.",
            hint="Leave out `design_weight`, or leave out `missing`: NULL is then a value of its"
            " own.",
        )
    if columns_in_sets:
        raise InvalidParameter(
            f'{subject} sets of columns have quasi-identifiers only, not "{columns_in_sets[0]}",'
            " whose cells are not suppressed.",
            hint="Name quasi-identifiers only in `also_k`, or leave out `missing`: NULL is then a"
            " value of its own.",
        )


def require_row_classes(policy: Policy) -> None:
    """Check that a policy makes classes of k records, for calls that return the classes alone.

    Raises
    ------
    InvalidParameter : its classes may be smaller, because rows of several classes agree.
    """
    if policy.null_agrees:
        raise InvalidParameter(
            "Where NULL agrees with every value (missing=wildcard), there are no classes of k"
            " rows.",
            hint="Leave out `missing`. Releases have it.",
        )


def require_split_person_options(
    policy: Policy,
    entity: str | None,
    pseudonyms: Sequence[str],
    *,
    in_chain: bool,
    has_unread_rules: bool,
) -> None:
    """Check the options of a release whose classes may split the rows of a person.

    Parameters
    ----------
    entity : the entity column; None if there is none, or if it is not known yet.
    pseudonyms : columns that are released as pseudonyms.
    in_chain : True for a release in a chain.
    has_unread_rules : True if the rules of the table, which are read later, may name an entity.

    Raises
    ------
    InvalidParameter : there is no entity, or an option needs all rows of a person in one class.
    """
    if not entity and not has_unread_rules:
        raise InvalidParameter(
            "persons=rows separates the rows of a person, but no column identifies persons.",
            hint="Name it: `entity`.",
        )
    if in_chain:
        raise InvalidParameter(
            "A chain keeps the histories of whole persons, so it cannot use persons=rows.",
            hint='Use `persons="whole"`, or release without a chain.',
        )
    if pseudonyms:
        columns = ", ".join(f'"{name}"' for name in pseudonyms)
        raise InvalidParameter(
            f"With persons=rows no column may link the rows of a person, as pseudonyms of {columns}"
            " could.",
            hint='Leave out `pseudonyms`, or use `persons="whole"`.',
        )
    if policy.also_k:
        raise InvalidParameter(
            "Sets of columns count whole persons, so persons=rows cannot be combined with"
            " `also_k`.",
            hint='Use `persons="whole"`, or leave out `also_k`.',
        )
    for model in policy.models:
        # Classes with the same released values are one class to readers: the model must also hold
        # for their union.
        if not model.is_union_closed(counts_persons=True):
            raise InvalidParameter(
                f"With persons=rows classes may have the same released values, and {model.kind}"
                " may fail for two such classes together even if it holds for each.",
                hint='Choose another model, such as distinct_l, or use `persons="whole"`.',
            )


def check_models(models: Sequence[Model], sensitive: Sequence[str]) -> None:
    """Check privacy models before any data is read.

    Raises
    ------
    InvalidParameter : a model names no sensitive column, or a column has two distances.
    """
    distances: dict[str, object] = {}
    for model in models:
        name = model.attribute
        if name not in sensitive:
            raise InvalidParameter(
                f'The privacy model of "{name}" names no sensitive column.',
                hint="Also name the column in `sensitive`.",
            )
        distance = model.distance
        if distance != "equal" and distances.setdefault(name, distance) != distance:
            raise InvalidParameter(
                f'The privacy models of "{name}" measure distances in two different ways.',
                hint="Give all models of a column the same distance.",
            )


def require_evaluation(policy: Policy) -> None:
    """Check that a policy with ``attacks`` also has ``evaluate``; raises InvalidParameter."""
    if policy.attacks and not policy.evaluate:
        raise InvalidParameter(
            "Attacks are part of an evaluation, which was not requested.",
            hint="Request one as well: `evaluate`.",
        )


def require_kinds(policy: Policy, attributes: tuple[Attribute, ...]) -> None:
    """Check that the method supports these attributes, before any data is read.

    Raises
    ------
    UnsupportedType : the method does not support the type of an attribute.
    InvalidParameter : there is no attribute, or one is named twice.
    """
    if not attributes:
        raise InvalidParameter(
            "No quasi-identifier was named.", hint="Name at least one column to anonymize."
        )
    names = [attribute.name for attribute in attributes]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(f'Column "{name}" is named twice as a quasi-identifier.')
    method = find_method(policy.method)
    recoding = find_recoding(str(policy.recoding))
    if policy.hierarchies and not (method.takes_categories or recoding.takes_categories):
        raise InvalidParameter(
            "This method measures numbers and takes no hierarchies.",
            hint='Leave them out, use `recoding="representative"`, or choose a method of'
            " generalization.",
        )
    for attribute in attributes:
        if attribute.kind is Kind.ORDINAL and not recoding.takes_ranks:
            raise UnsupportedType(
                f'Column "{attribute.name}" has an order but no numbers, which recoding'
                f" {recoding.name} needs.",
                hint='Use `recoding="median"`, or leave the column out of the quasi-identifiers.',
            )
        if not attribute.kind.is_numeric or attribute.name in policy.hierarchies:
            _require_category(attribute, method, recoding)
    if method.max_attributes is not None and len(attributes) > method.max_attributes:
        raise InvalidParameter(
            f"Method {method.name} takes"
            f" {pluralize(method.max_attributes, 'quasi-identifier')}, not {len(attributes)}.",
            hint="Name fewer quasi-identifiers, or choose another method.",
        )
    # Raises InvalidParameter if a weight names no attribute.
    compute_column_factors(tuple(names), policy.weights)


def _require_category(attribute: Attribute, method: Method, recoding: Recoding) -> None:
    """Check that method and recoding support a categorical attribute or one with a hierarchy."""
    subject = f'Column "{attribute.name}" of type {attribute.sql_type or "text"}'
    # A method that takes points accepts attributes with several coordinates, such as text. Other
    # methods need one coordinate per attribute: a position on a line.
    if not attribute.kind.is_numeric and not recoding.takes_categories and method.takes_points:
        hint = 'Use `recoding="representative"` or `recoding="generalization"`.'
        if not method.takes_categories:
            names = ", ".join(
                name
                for name, other in METHODS.items()
                if other.takes_categories and not other.suppresses_cells
            )
            hint = (
                f'Use `recoding="representative"`, or a method that generalizes: {names}.'
                " Text that has an order can be taken as ranks: state `orders`."
            )
        raise UnsupportedType(
            f"{subject} is not a number, and recoding {recoding.name} takes numbers only.",
            hint=hint,
        )
    if not method.takes_points:
        alternatives = [
            name
            for name, other in METHODS.items()
            if other.takes_points and not other.suppresses_cells
        ]
        raise UnsupportedType(
            f"{subject} has no positions on a line, which method {method.name} needs.",
            hint='Methods that take it, with `recoding="representative"` or'
            ' `recoding="generalization"`: ' + ", ".join(alternatives) + ".",
        )
