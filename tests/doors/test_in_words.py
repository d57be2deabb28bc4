"""Printed results are readable, and the help of functions is complete."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pandas as pd
import pytest

import dbanon


def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    ages, places = rng.integers(18, 90, 200), rng.integers(100, 130, 200)
    return pd.DataFrame({"age": ages, "zip": places, "sex": rng.choice(list("mf"), 200)})


def test_results_are_printed_in_lines() -> None:
    data, names = table(), ["age", "zip"]
    released, report = dbanon.anonymize_frame(data, quasi_identifiers=names, k=4)
    advice = dbanon.advise(data, k=[4, 5], methods=["gaa_cp"])
    texts = {
        "k requested / counted": report,
        "linkage_risk": report.evaluate(data),
        "attribute_inference": dbanon.attack(data, released, quasi_identifiers=names, seed=1),
        "recommended: release": advice,
        "gaa_cp, k = 5": advice.sweep,
        "information loss, SSE/SST, at least": dbanon.certificate(data[names], 4, seconds=0.1),
    }
    for label, result in texts.items():
        assert label in str(result)
        assert repr(result) == str(result)
        assert all(re.match(r"\S|  \S", line) for line in str(result).splitlines())


@pytest.mark.parametrize("name", ["anonymize", "anonymize_frame", "advise", "partition"])
def test_help_describes_every_parameter(name: str) -> None:
    function = getattr(dbanon, name)
    doc = function.__doc__.partition("Parameters\n----------\n")[2]
    described = {
        name.strip()
        for names in re.findall(r"^([a-z_][a-z_, ]*) : ", doc, re.MULTILINE)
        for name in names.split(",")
    }
    assert set(inspect.signature(function).parameters) <= described
    assert described.isdisjoint({"more", "given"})


def test_help_of_a_policy_describes_its_options() -> None:
    doc = dbanon.Policy.__doc__ or ""
    for name in inspect.signature(dbanon.Policy).parameters:
        assert name == "hierarchies" or f"\n{name} : " in doc
    assert "Annotated" not in str(inspect.signature(dbanon.Policy))
    assert "One of error, suppress, category, merge" in " ".join(doc.split())
