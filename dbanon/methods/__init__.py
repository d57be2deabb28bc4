"""The registry of methods: each has its own module and a line in ``METHODS``."""

from __future__ import annotations

from dbanon.errors import UnknownMethod, nearest_names
from dbanon.methods import (
    cbfs,
    dcm,
    ebkc,
    full_domain,
    gaa_cp,
    genetic,
    global_recoding,
    hdf,
    individual_ranking,
    kaca,
    kmember,
    kward,
    ldf,
    local_suppression,
    md,
    mdav,
    mhm,
    mondrian,
    mst,
    optimal_univariate,
    recursive_kward,
    secure_kward,
    single_axis,
    tfrp1,
    tfrp2,
    vmdav,
)
from dbanon.methods.registry import Method

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
        dcm.METHOD,
        gaa_cp.METHOD,
        kaca.METHOD,
        ebkc.METHOD,
        kmember.METHOD,
        mondrian.METHOD,
        full_domain.METHOD,
        global_recoding.METHOD,
        local_suppression.METHOD,
        mhm.NPN,
        mhm.MDAV,
        mhm.CBFS,
        mhm.MD,
        mst.FOREST,
        mst.DIAMETER,
        kward.METHOD,
        secure_kward.METHOD,
        recursive_kward.METHOD,
        genetic.METHOD,
        genetic.TWO_STEP,
        single_axis.METHOD,
        optimal_univariate.METHOD,
        individual_ranking.METHOD,
    )
}


def find_method(name: str) -> Method:
    """Return the method of this name.

    Raises
    ------
    UnknownMethod : there is no such method.
    """
    if name not in METHODS:
        suggestion = nearest_names(name, METHODS)
        raise UnknownMethod(
            f'There is no method "{name}".',
            hint=(suggestion + " " if suggestion else "")
            + "Known methods: "
            + ", ".join(METHODS)
            + ".",
        )
    return METHODS[name]


__all__ = ["METHODS", "Method", "find_method"]
