"""README and docs/microdata.md from top to bottom: ``python -m tests.docs.readme`` runs them.

It writes the actual output into the pages. Names of pages, as in ``README.md``, run these alone.

A comment before each block gives its kind:

``<!-- runnable -->``           Bash or Python, run in the order of the page, in one directory
``<!-- printed -->``            the output of the block before it
``<!-- psql: FIRST | LAST -->`` lines of examples/psql_session.out, from the one that starts with
                                FIRST to the one before that which starts with LAST
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dbanon.kernels import _kernels

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "README.md"
PAGES = (PAGE, ROOT / "docs" / "microdata.md")
SESSION = ROOT / "examples" / "psql_session.out"
BLOCK = re.compile(
    r"(<!-- (runnable|printed|psql)(?:: (.+?) \| (.+?))? -->\n```(\w+)\n)(.*?)(```)", re.S
)
# Readers see this warning, too: the example release has no privacy model.
_SEEN = 'ignore:Column "diagnosis" has one value'
PROGRAMS = {
    "python": (sys.executable, "-W", "error", "-W", _SEEN),
    "bash": ("bash", "-euo", "pipefail"),
}

# An editable install finds its own sources before it searches any path.
_SITE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if "dbanon" not in type(f).__module__]
"""


def clone(folder: Path) -> Path:
    """Copy the files that a commit of this tree would contain, and the compiled core."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    checkout = folder / "dbanon"
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    core = Path(_kernels.__file__)
    shutil.copy2(core, checkout / "dbanon" / "kernels" / core.name)
    return checkout


def run_page(text: str, checkout: Path, folder: Path) -> list[str]:
    """The output of each runnable block, run in a folder by the code of a checkout."""
    site_folder = checkout.parent / "site"
    site_folder.mkdir()
    (site_folder / "sitecustomize.py").write_text(_SITE)
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{site_folder}{os.pathsep}{checkout}",
        "COLUMNS": "100",
    }
    # The package is already built; everything else follows the Makefile.
    make = f'make() {{ command make VENV="{scripts.parent}"'
    make += f' -o "{scripts.parent}/.package" "$@"; }}\n'
    outputs = []
    for kind, language, code in ((b[2], b[5], b[6]) for b in BLOCK.finditer(text)):
        if kind != "runnable":
            continue
        script = make + code if language == "bash" else code
        done = subprocess.run(
            [*PROGRAMS[language], "-c", script],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        outputs.append(done.stdout.replace(f"{folder}{os.sep}", ""))
    return outputs


def session(first: str, last: str) -> str:
    """A part of the psql session."""
    lines = SESSION.read_text(encoding="utf-8").splitlines(keepends=True)
    start = next(index for index, line in enumerate(lines) if line.startswith(first))
    end = next(index for index, line in enumerate(lines) if line.startswith(last) and index > start)
    return "".join(lines[start:end]).rstrip("\n") + "\n"


def fill_page(text: str, outputs: list[str]) -> str:
    """The page with the actual output and the parts of the psql session."""
    left = iter(outputs)
    last = ""

    def fill(match: re.Match[str]) -> str:
        nonlocal last
        opening, kind, start, end, _, body, closing = match.groups()
        if kind == "runnable":
            last = next(left)
        elif kind == "psql":
            body = session(start, end)
        else:
            lines = [line.rstrip() for line in last.strip("\n").splitlines()]
            body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"
        return opening + body + closing

    return BLOCK.sub(fill, text)


def mask(text: str) -> str:
    """A page's words without those that differ between runs."""
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "RELEASE", text)
    words = " ".join(text.split())
    words = re.sub(r"\bof \d+\.\d+ s\b", "of SECONDS", words)
    return re.sub(
        r"\b(read|cluster|write|verify|digest|evaluate|export|total) \d+\.\d+", r"\1 SECONDS", words
    )


def run_and_fill(page: Path = PAGE) -> tuple[str, str]:
    """The page, and the page with the output of a run: README in a checkout, others elsewhere."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="dbanon-page-") as folder:
        checkout, empty = clone(Path(folder)), Path(folder) / "empty"
        empty.mkdir()
        where = checkout if page == PAGE else empty
        return text, fill_page(text, run_page(text, checkout, where))


if __name__ == "__main__":
    for _page in PAGES:
        if _page.name in sys.argv[1:] or not sys.argv[1:]:
            _page.write_text(run_and_fill(_page)[1], encoding="utf-8")
