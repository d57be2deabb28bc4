"""Hints that say in words or commands what to do: the case that raises each, and its ways out."""

from __future__ import annotations

import gzip
import itertools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dbanon
from dbanon.errors import DbanonError
from tests.doors.hint_doors import run_command

_NUMBERS = itertools.count()


class CommandRefusedError(Exception):
    """A command ended with an error; its hint."""


@dataclass(frozen=True)
class World:
    """A folder of a database, a view, releases and files."""

    path: Path

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}/people.sqlite"

    def new(self, ending: str = "") -> str:
        """A name that nothing has."""
        return f"n{next(_NUMBERS)}{ending}"

    def cli(self, line: str) -> object:
        """Run a command; {url} and {new} stand for the database and a new name."""
        words = shlex.split(line.format(url=self.url, new=self.new(), path=self.path))
        hint = run_command(*words)
        if hint is not None:
            raise CommandRefusedError(hint)
        return True

    def file(self, name: str, content: str | bytes = "", **options: Any) -> object:
        """Anonymize the rows of a file that is written first, unless it is there."""
        place = self.path / name
        if content:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.rows(f"file:{place}", **options)

    def rows(self, url: str, **options: Any) -> object:
        """Anonymize the rows of files."""
        asked: dict[str, Any] = {
            "table": "rows", "output": self.new(), "quasi_identifiers": ["age"], "k": 2,
            "target": f"sqlite:///{self.path}/target.sqlite", "releases": "independent",
        }  # fmt: skip
        return dbanon.anonymize(
            url, **{n: v for n, v in (asked | options).items() if v is not None}
        )

    def table(self, **options: Any) -> object:
        """Anonymize the table."""
        asked: dict[str, Any] = {
            "table": "people", "output": self.new(), "quasi_identifiers": ["age"], "k": 4,
            "releases": "independent",
        }  # fmt: skip
        return dbanon.anonymize(self.url, **asked | options)


Act = Callable[[World], object]


@dataclass(frozen=True)
class Steps:
    """A hint, what raises it, and what a user does who follows it."""

    hint: str
    wrong: Act
    right: Sequence[Act] = ()


def hint_of(act: Act, world: World) -> str:
    """The hint of the error that an act ends with."""
    try:
        act(world)
    except DbanonError as error:
        return error.hint or "(no hint)"
    except CommandRefusedError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def cli(line: str) -> Act:
    return lambda world: world.cli(line)


def csv(text: str | bytes, name: str = "", **options: Any) -> Act:
    return lambda w: w.file(name or w.new(".csv"), text, **options)


_RNG = np.random.default_rng(2)
_N = 40
FRAME = pd.DataFrame({
    "age": _RNG.integers(20, 60, _N), "size": _RNG.normal(170, 9, _N),
    "town": _RNG.choice(list("abc"), _N), "id": np.arange(_N),
})  # fmt: skip
ARRAY = FRAME[["age", "size"]].to_numpy(float)
MEASURES = pd.DataFrame(ARRAY, columns=["a", "b"])


def frame(data: Any = FRAME, **options: Any) -> Act:
    asked: dict[str, Any] = {"quasi_identifiers": ["age", "size"], "k": 4}
    return lambda _: dbanon.anonymize_frame(data, **(asked | options))


def column(values: Any, **options: Any) -> Act:
    """A frame with such a column as a quasi-identifier."""
    return frame(
        FRAME.assign(age=pd.Series(values)), quasi_identifiers=["age"],
        recoding="representative", method="kmember", **options,
    )  # fmt: skip


def classes(data: Any, k: int = 4, **options: Any) -> Act:
    return lambda _: dbanon.partition(data, k, **options)


def release(**options: Any) -> tuple[Any, Any]:
    """A frame as it was released, and its report."""
    asked: dict[str, Any] = {"quasi_identifiers": ["age", "size"], "k": 4, "keep": ["id"]}
    frame, report = dbanon.anonymize_frame(FRAME, **(asked | options))
    return frame, report


def evaluate(original: Any = FRAME, **options: Any) -> Act:
    def act(_: World) -> object:
        released, report = release()
        given = {
            n: report if isinstance(v, str) and v == "report" else v for n, v in options.items()
        }
        asked: dict[str, Any] = {"quasi_identifiers": ["age", "size"], **given}
        return dbanon.evaluate(original, asked.pop("released", released), **asked)

    return act


def tree(spec: Any, **options: Any) -> Act:
    """A hierarchy of the towns."""
    asked: dict[str, Any] = {
        "quasi_identifiers": ["age", "town"], "k": 4, "method": "gaa_cp", "hierarchies":
        {"town": spec},
    }  # fmt: skip
    return lambda _: dbanon.anonymize_frame(FRAME, **(asked | options))


def days(spec: Any) -> Act:
    """A hierarchy of days."""
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(_N) // 3, unit="D")
    return frame(
        FRAME.assign(day=day.date), quasi_identifiers=["age", "day"], method="gaa_cp",
        hierarchies={"day": spec}, recoding="generalization",
    )  # fmt: skip


def noisy(data: Any = MEASURES, epsilon: float = 98.0, **options: Any) -> Act:
    """Synthetic rows."""
    asked: dict[str, Any] = {
        "method": "dp_ranks", "budget": dbanon.Budget(99.0), "epsilon": epsilon,
        "bounds": {"a": (0, 100), "b": (100, 250)}, "types": "number",
    }  # fmt: skip
    return lambda _: dbanon.synthesize(data, **(asked | options))


# Advice on few trials.
_FEW: dict[str, Any] = {"k": (4,), "methods": ("mdav",)}
_ROWS = "".join(f"{20 + i},{'ab'[i % 2]}\n" for i in range(12))
CSV = "age,x\n" + _ROWS

# A release of the table, in the chain that is open; what makes a chain.
PEOPLE = "anonymize {url} --table people -q age --k 4 --output {new}"
OPEN = "--chain open --entity id --chain-key file:{path}/people.key"
_SHOW = "--entity id --changes show --key-out {path}/{new}.key"

COMMANDS = (
    Steps("Name it: --chain NAME.", cli("anonymize {url} --table people -q age --k 4"
          " --output {new} --max-exposed 3")),
    Steps("Say where it is: --chain-key file:PATH or env:NAME.",
          cli(f"{PEOPLE} --chain open --entity id"), [cli(f"{PEOPLE} {OPEN}")]),
    Steps("Choose another name.", cli(f"chain create {{url}} open --table people {_SHOW}"),
          [cli(f"chain create {{url}} others --table plain {_SHOW}")]),
    Steps("Go on with it. Or close it, and",
          cli(f"chain create {{url}} wider --table wide {_SHOW}"),
          [cli("chain close {url} wide"), cli("chain create {url} wider --table wide --entity id"
               " --changes show --new-chain-from wide --chain-key file:{path}/wide.key")]),
    Steps("Begin another one.", cli("anonymize {url} --table few -q age --k 4 --output {new}"
          " --chain closed --entity id --chain-key file:{path}/closed.key"),
          [cli(f"{PEOPLE} {OPEN}")]),
    Steps("What a chain's releases have in common stays.",
          cli(f"{PEOPLE} {OPEN}".replace("-q age", "-q size")),
          [cli(f"chain create {{url}} fourth --table seen {_SHOW}"), cli(f"{PEOPLE} {OPEN}")]),
    Steps("dbanon chain list shows them.", cli("chain show {url} nobody"),
          [cli("chain list {url}"), cli("chain show {url} open")]),
    Steps("With another key everyone would look",
          cli(f"{PEOPLE} {OPEN}".replace("people.key", "key")), [cli(f"{PEOPLE} {OPEN}")]),
    Steps("A key is never written over another file.", cli("chain create {url} fifth --table extra"
          " --entity id --changes show --key-out {path}/key"),
          [cli(f"chain create {{url}} fifth --table extra {_SHOW}")]),
    Steps("Choose a name such as patients.",
          cli(f"chain create {{url}} 'a b' --table extra2 {_SHOW}"),
          [cli(f"chain create {{url}} patients --table extra2 {_SHOW}")]),
    Steps("dbanon chain create writes a key to a file.",
          cli(f"{PEOPLE} --chain open --entity id --chain-key hush"),
          [cli("chain create {url} key --table fewer --entity id --changes show"
               " --key-out {path}/key2"),
           cli("anonymize {url} --table fewer -q age --k 4 --output {new} --chain key --entity id"
               " --chain-key file:{path}/key2")]),
    Steps("Name one chain, without --k and --sensitive.",
          cli("chain measure {url} open --chain-key file:{path}/people.key --k 4"),
          [cli("chain measure {url} open --chain-key file:{path}/people.key")]),
    Steps("Leave out --chain-key or --entity.",
          cli("chain measure {url} open --chain-key file:{path}/people.key --entity id"),
          [cli("chain measure {url} open --chain-key file:{path}/people.key")]),
    Steps("Name the database that its releases go to, and the file",
          cli(f"chain create file:{{path}}/rows.csv c --table rows {_SHOW}"),
          [cli("chain create {url} of_file --source file:{path}/rows.csv --table rows --entity x"
               " --changes show --key-out {path}/rows.key")]),
    Steps("Name the column of the person that each of these",
          cli("chain measure {url} taken taken2 --k 4"),
          [cli("chain measure {url} with_id with_id2 --k 4 --entity id")]),
    Steps("Add --original TABLE.", cli("evaluate {url} taken --changed-source"),
          [cli("evaluate {url} taken --changed-source --original people")]),
    Steps("Name the relation that the release was made from", cli("evaluate {url} taken"
          " --original cast_copy"), [cli("evaluate {url} taken --original people")]),
    Steps("To compare it all the same: `changed_source`.", cli("evaluate {url} taken"
          " --original fewer"), [cli("evaluate {url} taken --original fewer --changed-source")]),
    Steps("Name a .html file.", cli("report {url} taken -o {path}/r.json --for Ann"),
          [cli("report {url} taken -o {path}/r.html --for Ann")]),
    Steps("Name a .json, .html or .txt file in a", cli("report {url} taken -o {path}/no/r.html"),
          [cli("report {url} taken -o {path}/r2.json"),
           cli("report {url} taken -o {path}/r3.txt")]),
    Steps("The collector ignores other files.", cli("run {path}/job.yaml --metrics {path}/x.txt"),
          [cli("run {path}/job.yaml --metrics {path}/x.prom")]),
    Steps("Choose another one (--directory), or remove it yourself.",
          cli("tutorial --yes --directory {path}/full")),
    Steps("Write values as a,b,c, or one in each line of a file.", cli("anonymize {url} --table"
          " people -q age,town --k 4 --output {new} --order town=a,,b --recoding median"),
          [cli("anonymize {url} --table people -q age,town --k 4 --output {new} --order"
               " town=a,b,c,d,e --recoding median")]),
    Steps("Name a file that exists, in UTF-8.", cli("anonymize {url} --table people -q age,town"
          " --k 4 --output {new} --order-file town={path}/none.txt --recoding median"),
          [cli("anonymize {url} --table people -q age,town --k 4 --output {new}"
               " --order-file town={path}/order.txt --recoding median")]),
    Steps("recursive_cl takes l=NUMBER", cli("anonymize {url} --table people -q age --k 4 --output"
          " {new} -s ill --model ill=distinct_l:2:l=3"),
          [cli("anonymize {url} --table people -q age --k 4 --output {new} -s ill --model"
               " ill=recursive_cl:3:l=2"),
           cli("anonymize {url} --table people -q age --k 4 --output {new} -s ill --model"
               " ill=t_closeness:0.9:distance=equal")]),
    Steps("Known: {}.", cli("anonymize {url} --table people -q age --k 4 --output {new} -s ill"
          " --model ill=closeness:2"), [cli("anonymize {url} --table people -q age --k 4 --output"
          " {new} -s ill --model ill=distinct_l:2")]),
    Steps("dbanon releases lists all releases with their current state.",
          cli("refresh {url} nothing"), [cli("releases {url}"), cli("refresh {url} taken")]),
    Steps("dbanon explain lists all codes.", cli("explain zzzzzz"),
          [cli("explain"), cli("explain invalid_parameter")]),
    Steps("dbanon drops only what it made: {}", cli("drop {url} strange"),
          [cli("releases {url}")]),
    Steps("Add `k`.", cli("verify {url} people -q town"), [
          cli("verify {url} people -q town --k 2")]),
    Steps("Compare it with the ledger of its release: name its",
          cli("verify {path}/rows.csv"), [
          cli("verify file:{path}/rows.csv rows -q x --k 2")]),
    Steps("Write duckdb:///{} or sqlite:///{}.", lambda w: dbanon.releases(w.path / "none"),
          [cli("releases {url}")]),
    Steps("Write sqlite:///file.db: a database in memory", cli("releases sqlite://"),
          [cli("releases {url}")]),
    Steps("Write duckdb:///file.duckdb; in Python a", cli("releases duckdb://"),
          [cli("releases duckdb:///{path}/x.duckdb")]),
    Steps("Write duckdb:///file.duckdb: a file is opened", cli("releases"
          " duckdb:///{path}/x.duckdb?read_only=1"), [cli("releases duckdb:///{path}/x.duckdb")]),
    Steps("Write {}:///{}.", cli("releases duckdb:///{path}/people.sqlite"),
          [cli("releases sqlite:///{path}/people.sqlite")]),
    Steps("Name a database file.", cli("releases sqlite:///{path}"), [cli("releases {url}")]),
    Steps("Remove it, so that a database can be made there", cli("releases"
          " duckdb:///{path}/empty.sqlite"), [cli("releases {url}")]),
    Steps("Name a database file, as in", cli("anonymize {url} --table people -q age --k 4 --output"
          " {new} --target sqlite:///{path}/out.csv"),
          [cli("anonymize {url} --table people -q age --k 4 --output {new} --releases independent"
               " --target sqlite:///{path}/out.db")]),
    Steps("Write postgresql://user@host/name", cli("releases 'a:b:c//x'"), [cli("releases duckdb:///{path}/x.duckdb"),
          cli("releases {url}")]),
    Steps("Use PostgreSQL, MariaDB, DuckDB or SQLite", cli("releases oracle://u@h/d"),
          [cli("releases {url}")]),
    Steps("Leave out --declare, and name the columns in the call.",
          cli("advise file:{path}/rows.csv --table rows --declare"),
          [cli("advise file:{path}/rows.csv --table rows")]),
    Steps("Write a JSON object, in UTF-8, as in", cli("declare {url} {path}/rows.csv"
          " --table people")),
    Steps("Common choices are 3, 5 and 10.", cli("plan {url} --table people -q age --k 1 --output"
          " {new}"), [cli("plan {url} --table people -q age --k 3 --output {new}")]),
)  # fmt: skip

FILES = (
    Steps("Name a target, or a file: `exports`.", csv(CSV, target=None),
          [csv(CSV), lambda w: w.file(w.new(".csv"), CSV, target=None, exports=[
              {"path": str(w.path / w.new(".parquet"))}])]),
    Steps("Write file:people.csv or file:/data", csv(CSV, "rows.dat"), [csv(CSV, "dat/rows.csv"),
          lambda w: w.rows(f"file:{w.path}/dat/"), lambda w: w.rows(f"file:{w.path}/dat/*.csv")]),
    Steps("A folder, or a pattern as in file:data/*.parquet",
          lambda w: w.rows(f"file:{w.path}/none/*.csv"),
          [lambda w: w.rows(f"file:{w.path}/dat/*.csv")]),
    Steps("Read a pattern, which leaves it out", lambda w: w.rows(f"file:{w.path}/mix/"), [
          lambda w: w.rows(f"file:{w.path}/mix/**/*.csv")]),
    Steps("Read one kind:", lambda w: (
          w.file("kinds/a.csv", CSV), FRAME.to_parquet(w.path / "kinds/b.parquet"),
          w.rows(f"file:{w.path}/kinds/"))[-1],
          [lambda w: w.rows(f"file:{w.path}/kinds/**/*.parquet")]),
    Steps("Put the folder itself there, or remove the link.",
          lambda w: w.rows(f"file:{w.path}/link/"),
          [lambda w: w.rows(f"file:{w.path}/link/", foreign_files="links"),
           lambda w: w.rows(f"file:{w.path}/dat/")]),
    Steps("All files of a table have the same columns", lambda w: (
          w.file("differ/a.csv", CSV), w.file("differ/b.csv", CSV.replace("x", "y")),
          w.rows(f"file:{w.path}/differ/"))[-1], [
          lambda w: w.rows(f"file:{w.path}/differ/a*.csv")]),
    Steps("All files of a table lie equally deep", lambda w: (
          w.file("deep/y=1/a.csv", CSV), w.file("deep/b.csv", CSV),
          w.rows(f"file:{w.path}/deep/"))[-1], [lambda w: w.rows(f"file:{w.path}/deep/y=*/*.csv")]),
    Steps("Rename one of them, or read the folders one by one.", lambda w: (
          w.file("part/x=1/a.csv", CSV), w.rows(f"file:{w.path}/part/"))[-1],
          [lambda w: w.rows(f"file:{w.path}/part/x=1/a.csv")]),
    Steps("Say `encoding=", csv(b"\xff\xfe" + CSV.encode("utf-16-le")),
          [csv(b"\xff\xfe" + CSV.encode("utf-16-le"), encoding="utf-16")]),
    Steps("Files were put one behind the other", csv(CSV + CSV), [csv(CSV)]),
    Steps("Say how it is read: {}. As text: {}.", csv("age,x\n" + "".join(
          f'"1,{i:03}",a\n' for i in range(20))), [
          csv("age,x\n" + "".join(f'"1,{i:03}",a\n' for i in range(20)), decimal=","),
          csv("age,x\n" + "".join(f'"1,{i:03}",a\n' for i in range(20)), thousands=","),
          csv("age,x\n" + "".join(f'"1,{i:03}",a\n' for i in range(20)), types={"age": "text"},
              recoding="representative")]),
    Steps("It may be cut off: write it anew.", csv(b"nothing", "cut.csv.gz"),
          [csv(gzip.compress(CSV.encode()), "whole.csv.gz")]),
    Steps("Choose another name, write {release} in it, or", lambda w: w.file(w.new(".csv"), CSV,
          target=None, exports=[{"path": str(w.path / "mix/a.csv")}]), [
          lambda w: w.file(w.new(".csv"), CSV, target=None,
                           exports=[{"path": f"{w.path}/{w.new()}.csv"}]),
          lambda w: w.file(w.new(".csv"), CSV, target=None,
                           exports=[{"path": f"{w.path}/x-{{release}}.csv"}])]),
    Steps("Choose another place, or remove it.", lambda w: w.table(
          if_exists="replace", exports=[{"path": str(w.path / "mix/a.csv")}]),
          [lambda w: w.table(exports=[{"path": str(w.path / w.new(".csv"))}])]),
    Steps("Set formulas of the export to escape", lambda w: w.table(quasi_identifiers=["size"],
          keep=["sums"], exports=[{"path": str(w.path / w.new(".csv"))}]), [
          lambda w: w.table(quasi_identifiers=["size"], keep=["sums"], exports=[
              {"path": str(w.path / w.new(".csv")), "formulas": "escape"}]),
          lambda w: w.table(quasi_identifiers=["size"], keep=["sums"], exports=[
              {"path": str(w.path / w.new(".csv")), "formulas": "keep"}]),
          lambda w: w.table(quasi_identifiers=["size"], keep=["sums"], exports=[
              {"path": str(w.path / w.new(".parquet"))}])]),
    Steps('With decimal "," set separator to ";" or tab.', lambda w: w.table(exports=[
          {"path": str(w.path / w.new(".csv")), "decimal": ","}]), [
          lambda w: w.table(exports=[
              {"path": str(w.path / w.new(".csv")), "decimal": ",", "separator": ";"}]),
          lambda w: w.table(exports=[
              {"path": str(w.path / w.new(".csv")), "decimal": ",", "separator": "tab"}])]),
    Steps("Known keys: {}", lambda w: w.table(exports=[{"place": "x.csv"}]),
          [lambda w: w.table(exports=[{"path": str(w.path / w.new(".csv"))}])]),
    Steps("Take it out of `types`.", csv(CSV, types={"zzzzz": "text"}), [csv(CSV)]),
)  # fmt: skip

_NOBODY: Any = [None, *["a", "b", "c"] * 13]

FRAMES = (
    Steps("Extract the values that you need into columns", column([[1, 2]] * _N),
          [column([1, 2] * (_N // 2))]),
    Steps("Make them text: frame[", column([b"a", b"b"] * (_N // 2)), [
          column(pd.Series([b"a", b"b"] * (_N // 2)).map(bytes.hex, na_action="ignore"))]),
    Steps("Give real and imaginary parts as columns of their own.", column([1j] * _N),
          [column(np.real([1j] * _N).tolist())]),
    Steps("Use float32 or float64.", column(np.ones(_N, np.float16)),
          [column(np.ones(_N, np.float32)), column(np.ones(_N, np.float64))]),
    Steps("Name them first: frame.columns", frame(FRAME.set_axis([0, 1, 2, 3], axis=1),
          quasi_identifiers=[0]), [frame(FRAME.set_axis(list("abcd"), axis=1),
          quasi_identifiers=["a"])]),
    Steps("Take the usual order, which is random", frame(rows="input", strict=True),
          [frame(strict=True), frame(rows="input")]),
    Steps("Write series.to_frame().", frame(FRAME.age, quasi_identifiers=["age"]),
          [frame(FRAME.age.to_frame(), quasi_identifiers=["age"])]),
    Steps("Every column is a list", frame({"age": [1, 2], "size": [3]}),
          [frame({"age": [1, 2] * 9, "size": [3] * 18})]),
    Steps("Exclude these rows in a view, or set them to NULL", frame(FRAME.assign(age=np.inf)),
          [frame(FRAME.assign(age=np.where(FRAME.index < 4, np.nan, FRAME.age)),
                 nulls="category")]),
    Steps("Nobody knows whose these rows are", frame(FRAME.assign(p=_NOBODY),
          entity="p", k=2), [
          frame(FRAME.assign(p=_NOBODY).dropna(), entity="p", k=2),
          frame(FRAME.assign(p=["z"] + ["a", "b", "c"] * 13), entity="p", k=2)]),
    Steps("Write `{}=[", frame(quasi_identifiers="age"), [frame(quasi_identifiers=["age"])]),
    # Arrays.
    Steps("A single attribute is data.reshape(-1, 1).", classes(ARRAY[:, 0]),
          [classes(ARRAY[:, 0].reshape(-1, 1))]),
    Steps("Give real and imaginary parts as columns of their own.", classes(ARRAY * 1j),
          [classes(np.column_stack([(ARRAY * 1j).real, (ARRAY * 1j).imag]))]),
    Steps("Other columns can only be taken from tables", classes([["a", "b"]] * 9),
          [classes(pd.DataFrame([["a", "b"]] * 9, columns=["a", "b"]), method="kmember",
                   recoding="representative")]),
    Steps("Leave out `standardize`.", classes(ARRAY, method="individual_ranking",
          standardize="mahalanobis"), [classes(ARRAY, method="individual_ranking")]),
    Steps("Give what dbanon.partition gave, or its labels.", evaluate(
          ARRAY, released=ARRAY, quasi_identifiers=None, classes="x"), [
          evaluate(ARRAY, released=ARRAY * 0, quasi_identifiers=None,
                   classes=np.zeros(_N, np.int32))]),
    Steps("dbanon.synthesize and dbanon.anonymize have it", classes(ARRAY, method="dp_ranks"),
          [noisy()]),
    # Evaluations.
    Steps("Give the `report` of the same call", evaluate(), [
          evaluate(key="id"), evaluate(report="report"),
          lambda _: dbanon.evaluate(FRAME, release(rows="input")[0],
                                    quasi_identifiers=["age", "size"])]),
    Steps("Rows are paired by their places; name a `key`", evaluate(released=FRAME[:30]),
          [evaluate(released=FRAME[:30], key="id")]),
    Steps("Both keys must have the same type", evaluate(released=FRAME.assign(id=FRAME.id + 99),
          key="id"), [evaluate(key="id")]),
    Steps("Leave `classes` out: rows that are released alike", evaluate(ARRAY, released=ARRAY,
          quasi_identifiers=None, classes=np.zeros(_N, np.int32)),
          [evaluate(ARRAY, released=ARRAY, quasi_identifiers=None)]),
    Steps("Give both frames as they were then, or", evaluate(FRAME[::-1], report="report"),
          [evaluate(report="report"), evaluate(FRAME[::-1], key="id")]),
    Steps("Such as [['age', 'sex'], ['zip']]", lambda _: dbanon.attack(FRAME, release()[0],
          quasi_identifiers=["age", "size"], linked=[["age"]], control=FRAME),
          [lambda _: dbanon.attack(FRAME, release()[0], quasi_identifiers=["age", "size"],
                                   linked=[["age"], ["size"]], control=FRAME)]),
    Steps("Give a database with a table, or a data frame alone.",
          lambda _: dbanon.advise(FRAME, "people"), [lambda _: dbanon.advise(
          MEASURES, **_FEW), lambda w: dbanon.advise(w.url, "plain", **_FEW)]),
    Steps("What others may know of a person is a quasi-identifier.", lambda w: dbanon.advise(
          w.url, "plain", quasi_identifiers=["age"], sensitive=["age"]),
          [lambda w: dbanon.advise(w.url, "plain", quasi_identifiers=["age"], **_FEW)]),
    Steps("Leave it out of `quasi_identifiers`, or state its order", lambda w: dbanon.certificate(
          w.url, 4, table="people", quasi_identifiers=["age", "town"], seconds=0.1), [
          lambda w: dbanon.certificate(w.url, 4, table="people", quasi_identifiers=["age"],
                                       seconds=0.1),
          lambda w: dbanon.certificate(w.url, 4, table="people", quasi_identifiers=["age", "town"],
                                       seconds=0.1, orders={"town": ["a", "b", "c", "d", "e"]})]),
    # Hierarchies.
    Steps("Write [\"week\"] or", tree({"dates": ["week", "month"]}), [
          days({"dates": ["week"]}), days({"dates": ["day", "week"]})]),
    Steps("A stored hierarchy is written name:NAME", tree("towns"), [
          lambda w: dbanon.load_hierarchy(w.url, "name:towns")]),
    Steps("Give each value a row of its own", tree({"tree": {"*": ["a", "b"]}}),
          [tree({"tree": {"*": ["a", "b", "c"]}})]),
    Steps("Load it first, and give it as a Hierarchy.", tree({"name": "towns"}), [
          lambda w: tree(dbanon.load_hierarchy(w.url, "name:towns"))(w)]),
    Steps("Choose another name, or replace it.", lambda w: dbanon.store_hierarchy(
          w.url, "towns", {"tree": {"*": ["a"]}}), [
          lambda w: dbanon.store_hierarchy(w.url, w.new(), {"tree": {"*": ["a"]}}),
          lambda w: dbanon.store_hierarchy(
              w.url, "towns", {"tree": {"*": ["a", "b", "c"]}}, replace=True)]),
    Steps("Known keys: {}.", tree({"mask": [1], "zzz": 2}), [tree({"mask": [1]})]),
    # Synthetic rows.
    Steps("Make one for all releases of these rows, once", noisy(budget=None), [noisy()]),
    Steps("Leave both out, or use method dp_marginals", noisy(delta=1e-9), [
          noisy(), noisy(method="dp_marginals", budget=dbanon.Budget(99.0, delta=1e-6),
                         delta=1e-9, accounting="zcdp")]),
    Steps("Make one: numpy.array(...)", noisy([1, 2]), [noisy(MEASURES)]),
    Steps("{}Its options: {}.", noisy(degreee=2), [noisy()]),
    Steps("Known: {}.", noisy(method="zzz"), [noisy()]),
    Steps("Use method dp_ranks, or", lambda _: dbanon.synthesize(ARRAY, method="dcmdp", k=4,
          epsilon=1.0), [noisy(), lambda _: dbanon.synthesize(ARRAY, method="dcmdp", k=4,
          epsilon=1.0, guarantee="as_published")]),
    Steps("What was released stays released", noisy(budget=dbanon.Budget(0.5)),
          [noisy()]),
    Steps("It would do: `epsilon`", noisy(epsilon=0.3), [noisy()]),
)  # fmt: skip
