"""The registry of methods: one file and one line each."""

from __future__ import annotations

from dbanon.errors import UnknownMethod, nearest_names
from dbanon.methods import (
    cbfs,
    ebkc,
    full_domain,
    gaa_cp,
    hdf,
    kaca,
    kmember,
    ldf,
    md,
    mdav,
    mondrian,
    tfrp1,
    tfrp2,
    vmdav,
)
from dbanon.methods.registry import Method, Option

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        mdav.METHOD,
        cbfs.METHOD,
        md.METHOD,
        tfrp1.METHOD,
        tfrp2.METHOD,
        ldf.METHOD,
        hdf.METHOD,
        vmdav.METHOD,
        gaa_cp.METHOD,
        kaca.METHOD,
        ebkc.METHOD,
        kmember.METHOD,
        mondrian.METHOD,
        full_domain.METHOD,
    )
}


def find_method(name: str) -> Method:
    """The method of this name.

    Raises
    ------
    UnknownMethod : there is none.
    """
    if name not in METHODS:
        near = nearest_names(name, METHODS)
        raise UnknownMethod(
            f'There is no method "{name}".',
            hint=(near + " " if near else "") + "Known methods: " + ", ".join(METHODS) + ".",
        )
    return METHODS[name]


__all__ = ["METHODS", "Method", "Option", "find_method"]
