"""The styles of cell outputs in JupyterLab and nbconvert's ``lab`` template that affect cards.

Modelled on how these style outputs: description lists float, tables are striped and ruled, and
colors come from the theme.
"""

from __future__ import annotations

_RULES = """
body { margin: 0; padding: 16px; background: GROUND; font-size: 13px; }
.jp-RenderedHTMLCommon { color: INK; font-size: 14px; line-height: 1.6; padding-right: 20px; }
.jp-RenderedHTMLCommon p { text-align: left; margin: 0 0 1em; }
.jp-RenderedHTMLCommon table { border-collapse: collapse; border: none; font-size: 12px;
  table-layout: fixed; margin: 0 auto 1em; }
.jp-RenderedHTMLCommon tr, .jp-RenderedHTMLCommon th, .jp-RenderedHTMLCommon td {
  vertical-align: middle; padding: .5em; line-height: normal; max-width: none; border: none;
  text-align: right; }
.jp-OutputArea-output dl, .jp-OutputArea-output dt, .jp-OutputArea-output dd { display: block; }
.jp-OutputArea-output dl { width: 100%; overflow: hidden; padding: 0; margin: 0; }
.jp-OutputArea-output dt { font-weight: bold; float: left; width: 20%; padding: 0; margin: 0; }
.jp-OutputArea-output dd { float: left; width: 80%; padding: 0; margin: 0; }
"""
_THEMES = {"light": ("#ffffff", "rgba(0, 0, 0, .87)"), "dark": ("#111111", "#ffffff")}


def lab_page(card: str, theme: str) -> str:
    """A page with one output.

    Parameters
    ----------
    theme : ``light`` or ``dark``.
    """
    ground, ink = _THEMES[theme]
    rules = _RULES.replace("GROUND", ground).replace("INK", ink)
    output = f'<div class="jp-OutputArea-output jp-RenderedHTMLCommon">{card}</div>'
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>output</title>'
        f"<style>{rules}</style><body>{output}</body></html>"
    )
