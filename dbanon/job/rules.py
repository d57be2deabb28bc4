"""Rules: the roles of a table's columns, declared once and stored next to the table.

A rule is the name of a role, or an object with a role and further keys. Rules are data: nothing in
them is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeGuard

from dbanon.data.frozen import dataclass
from dbanon.data.schema import NORMALIZE
from dbanon.data.types import JsonMapping, JsonObject, KeywordArguments
from dbanon.data.words import json_text
from dbanon.errors import HierarchyBroken, InvalidParameter, nearest_names
from dbanon.hierarchy.spec import HierarchySpec, parse
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.columns import VALUE_KINDS
from dbanon.job.weight import WEIGHT_FORMS
from dbanon.measures import Model, model_kinds

ENTITY, PSEUDONYM, WEIGHT = "entity", "pseudonym", "weight"
# By role: the keys that a rule with this role may also have. Columns with the role ``by`` define
# strata; those with the roles ``identifier`` and ``drop`` are not released.
ROLES: Mapping[str, tuple[str, ...]] = {
    "quasi_identifier": ("hierarchy", "step", "weight", "order", "kind"),
    "sensitive": ("model", "models"),
    "by": (),
    "keep": ("reason",),
    ENTITY: ("pseudonym", "normalize"),
    PSEUDONYM: (),
    WEIGHT: ("weight_as",),
    "identifier": (),
    "drop": ("reason",),
}
# Alternative names of model kinds that rules may use, with the kind that each stands for.
_MODEL_ALIASES = {"l_diversity": "distinct_l"}
_RULE_IN_COMMENT = re.compile(r"^[ \t]*dbanon:[ \t]*(\S.*?)[ \t]*$", re.M)
# Maximum length of a rule as JSON.
MAX_RULE_BYTES = 65_536


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list_of_distinct_texts(value: object) -> bool:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        return False
    return bool(value) and len(set(value)) == len(value) and "" not in value


# By key of a rule: a function that tells whether a value is allowed, and a description of the
# allowed values, to follow "must be".
_VALUE_CHECKS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "hierarchy": (
        lambda value: isinstance(value, (str, dict)) and bool(value),
        "the name of a stored hierarchy, or an object as in the option hierarchies",
    ),
    "step": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    "weight": (lambda value: _is_number(value) and value >= 0, "a number, 0 or more"),
    "order": (
        _is_list_of_distinct_texts,
        "a list of distinct strings, from the lowest to the highest",
    ),
    "kind": (lambda value: value in VALUE_KINDS, f"one of {', '.join(VALUE_KINDS)}"),
    "weight_as": (lambda value: value in WEIGHT_FORMS, f"one of {', '.join(WEIGHT_FORMS)}"),
    "model": (
        lambda value: isinstance(value, dict) and bool(value),
        'an object that maps each kind of model to its level, as in {"distinct_l": 2}',
    ),
    "models": (
        lambda value: isinstance(value, list) and all(isinstance(model, dict) for model in value),
        'a list of objects, as in [{"kind": "distinct_l", "level": 2}]',
    ),
    "pseudonym": (lambda value: isinstance(value, bool), "true or false"),
    "normalize": (lambda value: value in NORMALIZE, f"one of {', '.join(NORMALIZE)}"),
    "reason": (lambda value: isinstance(value, str) and bool(value.strip()), "a non-empty string"),
}


@dataclass(frozen=True)
class TableRules:
    """The rules of a table.

    Parameters
    ----------
    by_column : by column, its rule as a mapping with the key ``role`` and possibly others.
    """

    by_column: Mapping[str, JsonMapping]

    @property
    def digest(self) -> str:
        """A hash of the rules that does not depend on the order of the columns."""
        text = json_text(self.by_column, sort_keys=True)
        # Imported late, since it loads OpenSSL and most calls do not need it.
        import hashlib

        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def columns_with_role(self, role: str) -> tuple[str, ...]:
        """The names of the columns that have this role."""
        return tuple(name for name, rule in self.by_column.items() if rule["role"] == role)

    def options(self) -> KeywordArguments:
        """The options of a job that follow from these rules, by name.

        Raises
        ------
        InvalidParameter, HierarchyBroken : a hierarchy or a model is invalid.
        """
        # ``validate_rules`` allows at most one of each.
        entity_columns = self.columns_with_role(ENTITY)
        design_weights = self.columns_with_role(WEIGHT)
        return {
            "quasi_identifiers": self.columns_with_role("quasi_identifier"),
            "sensitive": self.columns_with_role("sensitive"),
            "keep": self.columns_with_role("keep"),
            "by": self.columns_with_role("by"),
            "entity": entity_columns[0] if entity_columns else None,
            "entity_normalize": self.by_column[entity_columns[0]].get("normalize")
            if entity_columns
            else None,
            "design_weight": design_weights[0] if design_weights else None,
            "weight_as": self.by_column[design_weights[0]].get("weight_as")
            if design_weights
            else None,
            "hierarchies": {
                name: _parse_hierarchy(name, rule["hierarchy"])
                for name, rule in self.by_column.items()
                if "hierarchy" in rule
            },
            "models": tuple(
                model
                for name, rule in self.by_column.items()
                for model in _parse_models(name, rule)
            ),
            "weights": self._values_of_key("weight"),
            "steps": self._values_of_key("step"),
            "orders": {name: tuple(order) for name, order in self._values_of_key("order").items()},
            "kinds": self._values_of_key("kind"),
            "pseudonyms": tuple(
                name
                for name, rule in self.by_column.items()
                if rule["role"] == PSEUDONYM or rule.get("pseudonym")
            ),
            # ``Job.roles`` are the names of all columns with a role, also of those not released.
            "roles": tuple(self.by_column),
            "declared": self.digest,
        }

    def _values_of_key(self, key: str) -> JsonObject:
        """The values of a key, by the columns whose rules have it."""
        return {name: rule[key] for name, rule in self.by_column.items() if key in rule}


def validate_rules(declaration: object) -> TableRules:
    """Validate rules, and convert each to an object with a role.

    Parameters
    ----------
    declaration : the rules by column, as a user declares them.

    Raises
    ------
    InvalidParameter : a rule is invalid; the message names its column.
    HierarchyBroken : an inline hierarchy is invalid.
    """
    if not isinstance(declaration, Mapping) or not declaration:
        raise InvalidParameter(
            "Rules must be an object that maps each column to its rule.",
            hint='For example: {"age": "quasi_identifier", "name": "identifier"}.',
        )
    rules = TableRules(
        {str(name): _validate_rule(str(name), rule) for name, rule in declaration.items()}
    )
    require_one_entity(rules)
    require_one_weight(rules)
    # Called for its error: a hierarchy or a model is invalid.
    rules.options()
    return rules


def require_one_entity(rules: TableRules) -> None:
    """Check that at most one column has the role entity; raises InvalidParameter."""
    if len(rules.columns_with_role(ENTITY)) > 1:
        raise InvalidParameter(
            "More than one column has the role entity.",
            hint="Give the role entity to one column, and the role identifier to the others.",
        )


def require_one_weight(rules: TableRules) -> None:
    """Check that at most one column has the role weight; raises InvalidParameter."""
    if len(rules.columns_with_role(WEIGHT)) > 1:
        raise InvalidParameter(
            "More than one column has the role weight.",
            hint="Give the role weight to one column, and the role drop to the others.",
        )


def rules_from_comments(comments: Mapping[str, str]) -> dict[str, object]:
    """Parse the rules in comments on columns, each on a line that begins with ``dbanon:``.

    After the prefix comes a role, or a rule as JSON. Nothing in a comment is executed.

    Raises
    ------
    InvalidParameter : a comment has several such lines, or one that is neither a role nor JSON. The
        message does not quote the comment.
    """
    rules: dict[str, object] = {}
    for name, text in comments.items():
        lines = _RULE_IN_COMMENT.findall(text or "")
        if not lines:
            continue
        try:
            rules[name] = json.loads(lines[0]) if lines[0].startswith("{") else lines[0]
        except (ValueError, RecursionError):
            rules[name] = None
        if len(lines) > 1 or rules[name] is None:
            statement = f"{len(lines)} rules" if len(lines) > 1 else "no valid rule"
            raise InvalidParameter(
                f'The comment on column "{name}" states {statement}.',
                hint="Write one line, as in dbanon: quasi_identifier, or with JSON, as in"
                ' dbanon: {"role": "quasi_identifier"}.',
            )
    return rules


def _validate_rule(name: str, declared_rule: object) -> JsonObject:
    """Validate the rule of a column, and return it as an object with a role."""
    if not name or "\0" in name:
        raise InvalidParameter("The name of a column is empty or contains a NUL character.")
    rule: object = {"role": declared_rule} if isinstance(declared_rule, str) else declared_rule
    role = rule.get("role") if isinstance(rule, Mapping) else None
    if not isinstance(rule, Mapping) or not isinstance(role, str) or role not in ROLES:
        suggestion = (
            nearest_names(role, ROLES) if isinstance(role, str) and len(role) < 64 else None
        )
        raise InvalidParameter(
            f'The rule of column "{name}" has an unknown role.',
            hint=" ".join(filter(None, (suggestion, f"Roles: {', '.join(ROLES)}."))),
        )
    for key, value in rule.items():
        if key == "role":
            continue
        if key not in ROLES[role]:
            keys = ", ".join(("role", *ROLES[role]))
            raise InvalidParameter(
                f'The rule of column "{name}" has a key that the role {role} does not have.',
                hint=f"The role {role} takes these keys: {keys}.",
            )
        is_allowed, expected = _VALUE_CHECKS[key]
        if not is_allowed(value):
            raise InvalidParameter(f'{key} in the rule of column "{name}" must be {expected}.')
    if role == "keep" and "reason" not in rule:
        raise InvalidParameter(
            f'Column "{name}" is kept without a reason.',
            hint='Give the reason: {"role": "keep", "reason": "…"}.',
        )
    try:
        rule_json = json_text(rule, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidParameter(f'The rule of column "{name}" is not JSON.') from None
    if len(rule_json.encode("utf-8", "surrogatepass")) > MAX_RULE_BYTES:
        raise InvalidParameter(
            f'The rule of column "{name}" is longer than {MAX_RULE_BYTES} bytes.',
            hint='Store the hierarchy (dbanon hierarchy store), and name it: {"hierarchy":'
            ' "NAME"}.',
        )
    validated_rule: JsonObject = json.loads(rule_json)
    return validated_rule


def _parse_hierarchy(name: str, hierarchy: str | JsonMapping) -> Hierarchy | HierarchySpec:
    """Parse the hierarchy of a column; a string names a stored hierarchy, never a file."""
    try:
        return parse({"name": hierarchy} if isinstance(hierarchy, str) else hierarchy, files=False)
    except (InvalidParameter, HierarchyBroken) as error:
        error.message = f'The rule of column "{name}": {error.message}'
        raise


def _parse_models(name: str, rule: JsonMapping) -> list[Model]:
    """Parse the privacy models in the rule of a sensitive column."""
    models = list(rule.get("models", ()))
    for kind, level in rule.get("model", {}).items():
        if kind not in _MODEL_ALIASES and kind not in model_kinds():
            raise InvalidParameter(
                f'The rule of column "{name}" has an unknown privacy model.',
                hint=f"Known privacy models: {', '.join((*_MODEL_ALIASES, *model_kinds()))}.",
            )
        # A model with more than a level, such as recursive (c, l)-diversity, has an object here.
        parameters = level if isinstance(level, Mapping) else {"level": level}
        models.append({**parameters, "kind": _MODEL_ALIASES.get(kind, kind)})
    try:
        return [Model.from_plain({**model, "attribute": name}, files=False) for model in models]
    except (InvalidParameter, HierarchyBroken) as error:
        error.message = f'The rule of column "{name}": {error.message}'
        raise
