"""What PostgreSQL does for releases that are differentially private."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dbanon.data.schema import Attribute, Kind
from dbanon.ledger import postgresql as ledger
from dbanon.sessions.interface import SessionInterface
from dbanon.sessions.literals import literal
from dbanon.sessions.names import quote


class PostgresqlPrivate(SessionInterface):
    """The part of a session that differential privacy asks for."""

    def bounded(self, attribute: Attribute, low: str, high: str) -> str:
        column, kind = f"s.{quote(attribute.name)}", attribute.kind
        if kind is Kind.BOOLEAN:
            return f"{column}::integer::double precision"
        if kind is Kind.INTEGER:
            return f"{column}::double precision"
        # Before anything is computed: what is infinite, or too large, makes it fail.
        base = {
            Kind.DECIMAL: "numeric",
            Kind.FLOAT: "double precision",
            Kind.DATE: "date",
            Kind.TIMESTAMP: "timestamptz" if attribute.zoned else "timestamp",
        }[kind]
        within = f"LEAST(GREATEST({column}, {literal(low)}::{base}), {literal(high)}::{base})"
        if kind is Kind.DATE:
            number = f"({within} - date '1970-01-01')"
        elif kind is Kind.TIMESTAMP:
            number = f"extract(epoch FROM {within}) * 1000000"
        else:
            return f"CASE WHEN {column} <> 'NaN' THEN ({within})::double precision END"
        return f"CASE WHEN {column} IS NOT NULL THEN ({number})::double precision END"

    def texts(self, given: Sequence[str]) -> tuple[str, Any]:
        return "SELECT jsonb_array_elements_text(CAST(? AS jsonb))", json.dumps(given)

    def have_spent(self, budget: str, epsilon: str, spending_id: str) -> bool | None:
        if not self.rows(ledger.SPENDER):
            return None
        call = "SELECT dbanon._spend(?, CAST(? AS numeric), CAST(? AS uuid))::text"
        [(spent,)] = self.rows(call, (budget, epsilon, spending_id))
        return spent is not None

    def writes_own_ledger(self) -> bool:
        return not self.rows(ledger.WRITER)
