"""Cards with JupyterLab's styles in a real browser: no text of a card covers another."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doors.html.lab import lab_page
from tests.doors.test_cards import KINDS, results

pytestmark = pytest.mark.slow

# Text boxes in a card's figures that overlap or leave their frame.
_MISPLACED = """() => {
  const found = [];
  for (const frame of document.querySelectorAll('.dbanon-card .figures > div')) {
    const outer = frame.getBoundingClientRect();
    const texts = [...frame.querySelectorAll('dt, strong, span')].map(
      one => [one.textContent, one.getBoundingClientRect()]);
    texts.forEach(([a, p], i) => {
      if (p.left < outer.left - 1 || p.right > outer.right + 1 || p.bottom > outer.bottom + 1)
        found.push(a + ' is outside');
      texts.slice(i + 1).forEach(([b, q]) => {
        if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1
            && q.top < p.bottom - 1) found.push(a + ' | ' + b);
      });
    });
  }
  return found;
}"""
_FLOATING = """() => [...document.querySelectorAll('.dbanon-card dt, .dbanon-card dd')]
  .filter(one => getComputedStyle(one).float !== 'none'
    || one.offsetWidth < one.parentElement.clientWidth * .6).length"""


# A theme brings colors: each width with one of them, with both in campaigns.
@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (420, "light"),
        (1000, "dark"),
        pytest.param(420, "dark", marks=pytest.mark.campaign),
        pytest.param(1000, "light", marks=pytest.mark.campaign),
    ],
)
def test_figures_do_not_meet_in_jupyterlab(browser: Any, theme: str, width: int) -> None:
    context = browser.new_context(
        color_scheme=theme, viewport={"width": width, "height": 900}, bypass_csp=False
    )
    for kind in KINDS:
        page = context.new_page()
        page.set_content(lab_page(results()[kind]._repr_html_(), theme))
        assert page.evaluate(_MISPLACED) == [], kind
        assert page.evaluate(_FLOATING) == 0, kind
        assert page.evaluate("document.documentElement.scrollWidth") <= width, kind
        page.close()
    context.close()
