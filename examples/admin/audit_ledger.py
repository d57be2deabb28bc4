"""Audit the ledger: which releases there are, with which k, and which of them still verify.

    python -m examples.admin.audit_ledger URL [--format csv]

Each release that can be seen is counted again, whoever made it. What was dropped or replaced is
listed as that. The exit code is 0 when all are as released, 6 when one is not: it was changed, or
its relation is there and cannot be counted.
"""

from __future__ import annotations

import argparse
import csv
import sys

import dbanon

FIELDS = ("output", "state", "created_at", "method", "k_requested", "k_achieved", "verified")


def audited(url: str) -> list[dict[str, object]]:
    """A row of ``FIELDS`` for each release, newest first; ``verified`` is empty, yes, or a code."""
    rows = []
    for one in dbanon.releases(url):
        verified = ""
        if one.state == "current":
            try:
                found = dbanon.verify(url, one.output)
                verified = "yes" if found.unchanged else "not comparable"
            except dbanon.DbanonError as error:
                verified = error.code
        rows.append({name: getattr(one, name, verified) for name in FIELDS})
    return rows


def main(words: list[str] | None = None) -> int:
    """Print the audit; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("url")
    parser.add_argument("--format", choices=["text", "csv"], default="text")
    given = parser.parse_args(words)
    rows = audited(given.url)
    if given.format == "csv":
        table: csv.DictWriter[str] = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    else:
        for row in rows:
            print(
                f"{row['output']}: {row['state']}, {row['created_at']}, {row['method']},"
                f" k {row['k_requested']} requested, {row['k_achieved']} counted;"
                f" verified: {row['verified'] or '-'}"
            )
    wrong = [row for row in rows if row["verified"] not in ("", "yes", "not comparable")]
    print(f"{len(rows)} releases, {len(wrong)} not as released", file=sys.stderr)
    return 6 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
