"""Which attributes a policy's method and recoding take."""

from __future__ import annotations

from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.job.policy import Policy
from dbanon.methods import METHODS, find_method
from dbanon.methods.registry import Method
from dbanon.recoding import Recoding, find_recoding
from dbanon.spaces.numeric import weight_vector


def require_kinds(policy: Policy, attributes: tuple[Attribute, ...]) -> None:
    """Check that the method takes these attributes, before anything is read.

    Raises
    ------
    UnsupportedType : an attribute's type is not one the method takes.
    InvalidParameter : no attribute, or an attribute twice.
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
                hint="Use another recoding, or leave the column out of the quasi-identifiers.",
            )
        if not attribute.kind.is_numeric or attribute.name in policy.hierarchies:
            _require_category(attribute, method, recoding)
    if method.max_attributes is not None and len(attributes) > method.max_attributes:
        raise InvalidParameter(
            f"Method {method.name} takes {method.max_attributes} quasi-identifier,"
            f" not {len(attributes)}.",
            hint="Name fewer quasi-identifiers, or choose another method.",
        )
    weight_vector(tuple(names), policy.weights)


def _require_category(attribute: Attribute, method: Method, recoding: Recoding) -> None:
    """Check that the method and the recoding take an attribute that is no number, or has a tree."""
    named = f'Column "{attribute.name}" of type {attribute.sql_type or "text"}'
    if not attribute.kind.is_numeric and not recoding.takes_categories and method.takes_points:
        hint = 'Use `recoding="representative"`'
        if method.takes_categories:
            hint += ' or `recoding="generalization"`.'
        else:
            taking = [name for name, other in METHODS.items() if other.takes_categories]
            hint += ", or a method that generalizes: " + ", ".join(taking)
            hint += ". Text that has an order can be taken as ranks: state `orders`."
        raise UnsupportedType(
            f"{named} is no number, and recoding {recoding.name} takes numbers only.", hint=hint
        )
    if not method.takes_points:
        taking = [name for name, other in METHODS.items() if other.takes_points]
        raise UnsupportedType(
            f"{named} has no places on a line, which method {method.name} needs.",
            hint='Methods that take it, with `recoding="representative"` or'
            ' `recoding="generalization"`: ' + ", ".join(taking) + ".",
        )
