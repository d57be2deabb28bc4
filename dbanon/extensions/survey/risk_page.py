"""The page of the disclosure risk of a sample: one file for its owner, not for publication."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from markupsafe import Markup

from dbanon.doors.html.card import to_sentence
from dbanon.doors.html.page import (
    create_environment,
    report_content_security_policy,
    report_style,
)
from dbanon.extensions.survey.risk_html import RiskView, draw_pictures
from dbanon.version import version


def render_risk_page(view: RiskView) -> str:
    """Render the disclosure risk as one self-contained HTML page, without scripts and requests."""
    template = create_environment(Path(__file__).parent).get_template("risk.html.j2")
    return template.render(
        **describe_section(view),
        measured_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        dbanon_version=version(),
        style=Markup(report_style()),
        content_security_policy=report_content_security_policy(),
    )


def describe_section(view: RiskView) -> dict[str, object]:
    """Return the values of a page's sections about the disclosure risk."""
    return {
        "view": view,
        "pictures": draw_pictures(view),
        "notes": [to_sentence(note) for note in view.notes],
    }
