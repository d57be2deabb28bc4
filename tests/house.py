"""Code quality metrics: ``python -m tests.house`` prints them. A test checks that none
gets worse.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dbanon"

# The one file that may know which guarantee applies.
GUARANTEE = {PACKAGE / "job" / f"{name}.py" for name in ("guarantee", "guarantee_names")}
# The rooms that work on blocks, in this process and on a cluster.
BLOCKS = {PACKAGE / "partitioning", PACKAGE / "extensions" / "spark"}
# Properties of methods that only some guarantees have; an array of persons is not an option.
RESULTS = {"Partition", "AttributePartition", "Levels"}
# Noise and linear programs are imported lazily by the functions that use them.
WHEN_USED = {
    ("dbanon.extensions.synthesis.noise", "opendp"),
    ("dbanon.extensions.bounds.program", "highspy"),
}
OF_SOME = {"entity", "k_rows", ".entity", ".k_rows", ".persons"}

LONGEST_FUNCTION = 80
LONGEST_FILE = 700

# The location of requests before they had their own folder.
_DOORS = re.compile(
    r"doors/|(api|frame|plpython\w*|stored_hierarchies|install|sql_script|cli\w*)\.py|stores/frame/"
)


@dataclass(frozen=True)
class House:
    """The metrics, as lists of the violations."""

    at_the_root: list[str]
    layers: list[str]
    upward: list[str]
    long_functions: list[str]
    long_files: list[str]
    spellings: list[str]
    spelled_below: list[str]
    foreign: list[str]
    guarantee_branches: list[str]

    def rows(self) -> Iterator[tuple[str, list[str]]]:
        """Every metric with its description."""
        yield "modules at the package's root", self.at_the_root
        yield "layers", self.layers
        yield "imports that point up, those for types included", self.upward
        yield f"functions over {LONGEST_FUNCTION} lines without the docstring", self.long_functions
        yield f"files over {LONGEST_FILE} lines", self.long_files
        yield "files of doors and sql/ that spell block_size", self.spellings
        yield "other files outside the rooms of blocks that spell it", self.spelled_below
        yield "packages but numpy that the core or a backend imports", self.foreign
        yield "branches on the guarantee outside job/guarantee.py", self.guarantee_branches


def house() -> House:
    """Compute the metrics."""
    files = sorted(PACKAGE.rglob("*.py"))
    layers = rooms_from_above()
    long_functions: list[str] = []
    guarantee_branches: list[str] = []
    for file in files:
        nodes = [*ast.walk(ast.parse(file.read_text(encoding="utf-8")))]
        long_functions += _long_functions(file, nodes)
        guarantee_branches += [] if file in GUARANTEE else _guarantee_branches(file, nodes)
    return House(
        at_the_root=[file.stem for file in sorted(PACKAGE.glob("*.py")) if file.stem != "__init__"],
        layers=[" | ".join(sorted(names)) for names in layers],
        upward=_upward(layers),
        long_functions=sorted(long_functions),
        long_files=[
            f"{file.relative_to(ROOT)}: {lines}"
            for file in [*files, *sorted((ROOT / "tests").rglob("*.py"))]
            if (lines := len(file.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
        ],
        spellings=_spellings([*filter(_is_door, files), *sorted((ROOT / "sql").rglob("*.sql"))]),
        spelled_below=_spellings(
            [f for f in files if not _is_door(f) and not BLOCKS & set(f.parents)]
        ),
        foreign=_foreign(),
        guarantee_branches=sorted(guarantee_branches),
    )


def rooms_from_above() -> list[set[str]]:
    """The rooms from above, as listed in pyproject; tomllib needs Python 3.11.

    Entries in parentheses are no rooms: an installed package has them, a checkout does not.
    """
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r"^layers = \[\n(.*?)^\]", text, re.M | re.S)
    assert match, "pyproject.toml has no layers"
    return [
        {name.strip() for name in re.split(r"[|:]", line)}
        for line in re.findall(r'"([^"]+)"', match[1])
        if not line.startswith("(")
    ]


def _upward(layers: list[set[str]]) -> list[str]:
    """Imports from a higher room, for types or not, except by the table of public names."""
    height = {name: -i for i, names in enumerate(layers) for name in names}
    graph = grimp.build_graph("dbanon", exclude_type_checking_imports=False, cache_dir=None)
    imports = []
    for importer in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            a, b = (name.split(".")[1:2] for name in (importer, imported))
            both_in_layers = a and b and {a[0], b[0]} <= set(height)
            if both_in_layers and height[b[0]] > height[a[0]]:
                imports.append(f"{importer} -> {imported}")
    return imports


def _long_functions(file: Path, nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = _line_count(node)
            docstring = node.body[0] if ast.get_docstring(node) is not None else None
            # Documentation makes no function hard to read, and neither do options of a command.
            lines -= 0 if docstring is None else _line_count(docstring)
            if lines > LONGEST_FUNCTION:
                yield f"{file.relative_to(PACKAGE)}: {node.name}, {lines}"


def _line_count(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _guarantee_branches(file: Path, nodes: list[ast.AST]) -> Iterator[str]:
    """Expressions that test for a guarantee or a kind of result."""
    # Assertions do not branch.
    asserted = {
        id(node)
        for statement in nodes
        if isinstance(statement, ast.Assert)
        for node in ast.walk(statement)
    }
    for node in nodes:
        if isinstance(node, ast.expr) and id(node) not in asserted and _asks(node):
            yield f"{file.relative_to(PACKAGE)}:{node.lineno}: {ast.unparse(node)}"


def _asks(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "per_attribute"
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
        return bool(RESULTS & {name.id for name in ast.walk(node) if isinstance(name, ast.Name)})
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    names = {side.id for side in sides if isinstance(side, ast.Name)}
    names |= {f".{side.attr}" for side in sides if isinstance(side, ast.Attribute)}
    missing = any(isinstance(side, ast.Constant) and side.value is None for side in sides)
    return bool(names & (RESULTS | {"PER_ATTRIBUTE"}) or (missing and names & OF_SOME))


def _is_door(file: Path) -> bool:
    return bool(_DOORS.match(file.relative_to(PACKAGE).as_posix()))


def _spellings(files: list[Path]) -> list[str]:
    spellings = []
    for file in files:
        # PostgreSQL has a setting with this name.
        text = re.sub(r"current_setting\('block_size'\)", "", file.read_text(encoding="utf-8"))
        if times := len(re.findall(r"block[_-]size", text)):
            spellings.append(f"{file.relative_to(ROOT)}: {times}")
    return spellings


def _foreign() -> list[str]:
    """Packages imported by rooms below the stores, or by modules that a backend loads."""
    graph = grimp.build_graph(
        "dbanon",
        include_external_packages=True,
        exclude_type_checking_imports=False,
        cache_dir=None,
    )
    # Public names, loaded on first use.
    for imported in graph.find_modules_directly_imported_by("dbanon"):
        graph.remove_import(importer="dbanon", imported=imported)
    above, light = (
        (
            "sessions",
            "ledger",
            "stores",
            "run",
            "sklearn",
            "spark",
            "doors",
            "extensions",
            "share",
        ),
        set(),
    )
    if "dbanon.doors" in graph.modules:
        light = {m for m in graph.modules if m.split(".")[1:2] and m.split(".")[1] not in above}
    for backend in {"dbanon.plpython", "dbanon.doors.plpython"} & graph.modules:
        light |= graph.find_upstream_modules(backend)
    modules = {module for module in light if module.split(".")[0] == "dbanon"}
    allowed = {"dbanon", "numpy", *sys.stdlib_module_names}
    return sorted(
        f"{importer} -> {imported}"
        for importer in modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if imported.split(".")[0] not in allowed and (importer, imported) not in WHEN_USED
    )


def lines_of_stores() -> dict[str, int]:
    """Lines of Python specific to each database."""
    return {
        name: sum(len(file.read_text().splitlines()) for file in (PACKAGE / name).glob("*.py"))
        for name in ("stores/postgresql", "stores/duckdb", "stores/sqlite", "extensions/mariadb")
    }


if __name__ == "__main__":
    for store, lines in lines_of_stores().items():
        print(f"lines of {store}: {lines}")
    for title, counted in house().rows():
        print(f"{title}: {len(counted)}")
        if title != "layers":
            print("".join(f"    {violation}\n" for violation in counted), end="")
