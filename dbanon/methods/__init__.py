"""The registry of methods: each has its own module and a line in ``_LOCATIONS``."""

from __future__ import annotations

from collections.abc import MutableMapping

from dbanon.data.extension import LazyRegistry
from dbanon.errors import UnknownMethod, nearest_names
from dbanon.methods.registry import Method

# The location of each method, in the order of listings: a module of this package, and the name in
# it. It is imported when the method is first used, because most runs use one method.
_LOCATIONS = {
    "mdav": "mdav:METHOD",
    "cbfs": "cbfs:METHOD",
    "md": "md:METHOD",
    "tfrp1": "tfrp1:METHOD",
    "tfrp2": "tfrp2:METHOD",
    "ldf": "ldf:METHOD",
    "hdf": "hdf:METHOD",
    "vmdav": "vmdav:METHOD",
    "dcm": "dcm:METHOD",
    "gaa_cp": "gaa_cp:METHOD",
    "kaca": "kaca:METHOD",
    "ebkc": "ebkc:METHOD",
    "kmember": "kmember:METHOD",
    "mondrian": "mondrian:METHOD",
    "full_domain": "full_domain:METHOD",
    "global_recoding": "global_recoding:METHOD",
    "local_suppression": "local_suppression:METHOD",
    "npn_mhm": "mhm:NPN",
    "mdav_mhm": "mhm:MDAV",
    "cbfs_mhm": "mhm:CBFS",
    "md_mhm": "mhm:MD",
    "mst_forest": "mst:FOREST",
    "mst_diameter": "mst:DIAMETER",
    "kward": "kward:METHOD",
    "secure_kward": "secure_kward:METHOD",
    "recursive_kward": "recursive_kward:METHOD",
    "genetic": "genetic:METHOD",
    "two_step": "genetic:TWO_STEP",
    "single_axis": "single_axis:METHOD",
    "optimal_univariate": "optimal_univariate:METHOD",
    "individual_ranking": "individual_ranking:METHOD",
}


METHODS: MutableMapping[str, Method] = LazyRegistry(__name__, _LOCATIONS)


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
