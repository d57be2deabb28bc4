"""Names of types that are open on purpose: what a value is depends on its key or its statement.

Each name says what a value stands for, where Python's type system cannot say more. A dict with
fixed keys and a known class have their own types instead. ``data.array_types`` has those of arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

# An object of JSON: plain values by key, where the key decides on the type of its value.
JsonObject: TypeAlias = dict[str, Any]
# An object of JSON that is only read, such as the arguments in a ledger.
JsonMapping: TypeAlias = Mapping[str, Any]

# Arguments by name, which several calls share.
KeywordArguments: TypeAlias = dict[str, Any]

# A row of a query's result; the statement decides on the number and types of its values.
SqlRow: TypeAlias = tuple[Any, ...]
