"""Survey microdata: disclosure risk of a sample whose records have design weights."""

from __future__ import annotations

from dbanon.data.extension import Extension

EXTENSION = Extension("survey")
