"""Methods, recodings and options that no record contains yet: the test leaves them out.

Existing results must stay the same when something is added. ``python -m tests.golden diff`` shows
additions, and ``record`` records them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from unittest import mock

import dbanon
from tests.golden import records
from tests.golden.doors import COMMAND, RECODINGS, Answer

_COMMAND = "anonymize"


class Additions:
    """Methods and options added since the interfaces were recorded."""

    @cached_property
    def methods(self) -> frozenset[str]:
        """Names of methods; the record of arrays has a case for each."""
        recorded = {case.partition(" ")[2] for case in records.load("arrays")}
        return frozenset(dbanon.METHODS) - recorded

    @cached_property
    def options(self) -> frozenset[str]:
        """Names of options; the record of commands has a field for each."""
        recorded = records.load("cli")[f"dbanon {_COMMAND}"]
        current = {str(parameter.name) for parameter in COMMAND.commands[_COMMAND].params}
        return frozenset(current) - set(recorded)

    @cached_property
    def recodings(self) -> frozenset[str]:
        """Names of recodings; the record of frames has a case of each method for each."""
        recorded = {case.partition("/")[2] for case in records.load("frame")}
        return frozenset(RECODINGS) - recorded

    def cases(self, cases: Mapping[str, Any]) -> dict[str, Any]:
        """The cases without those of an added method or recoding."""
        return {
            case: arguments for case, arguments in cases.items() if not self._is_of_addition(case)
        }

    def answer(self, case: str, answer: Answer) -> Answer:
        """The result without added options; records leave out those at their defaults.

        A PostgreSQL backend has its own lists of methods.
        """
        fields = dict(answer)
        # Manuals of SQL functions have a line for each option.
        if isinstance(manual := fields.get("comment"), str):
            fields["comment"] = "\n".join(
                line
                for line in manual.split("\n")
                if line.partition(":")[0].strip() not in self.options
            )
        if isinstance(hint := fields.get("refused.hint"), str):
            for method in self.methods:
                hint = hint.replace(f", {method}", "")
            fields["refused.hint"] = hint
        for name, value in fields.items():
            fields[name] = self._without_recodings(value)
        if case.startswith("dbanon "):
            for option in self.options:
                fields.pop(option, None)
        return fields

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Remove added methods from all lists of methods."""
        recorded = {n: m for n, m in dbanon.METHODS.items() if n not in self.methods}
        with mock.patch.dict(dbanon.METHODS, recorded, clear=True):
            yield

    def _without_recodings(self, value: Any) -> Any:
        """A value without added recodings in its lists, also in those of texts."""
        if isinstance(value, str):
            for recoding in self.recodings:
                value = re.sub(rf"(, |\|)(['\"]?){recoding}\2", "", value)
        elif isinstance(value, (list, tuple)):
            remaining = [each for each in value if each not in [*self.recodings]]
            value = [self._without_recodings(each) for each in remaining]
        elif isinstance(value, dict):
            value = {name: self._without_recodings(each) for name, each in value.items()}
        return value

    def _is_of_addition(self, case: str) -> bool:
        return bool((self.methods | self.recodings) & set(re.findall(r"\w+", case)))
