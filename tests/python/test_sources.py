"""docs/sources.md has a row for every item of the sources and names only what there is; tables of experiments print the sources' numbers."""

import pathlib
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ITEMS = {"S0": 11, "S1": 60, "S2": 45, "S3": 8, "S4": 30}


def page():
    return (ROOT / "docs/sources.md").read_text()


def rows(text):
    """(section, item) of every row of a table, in order; all other rows of the page are heads of tables."""
    section, found = None, []
    for line in text.splitlines():
        if heading := re.match(r"## (\w+)", line):
            section = heading[1]
        elif line.startswith("|"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert len(cells) == 3 and all(cells), line
            if cells[0] != "item" and set(line) != set("|-"):
                found.append((section, cells[0]))
    return found


def test_every_item_has_its_row():
    assert rows(page()) == [(source, f"{source}-{number}") for source, count in ITEMS.items() for number in range(1, count + 1)]


def names_of_tests():
    """Of Python, test_… and file.py; of C++, Suite.Name."""
    names = set()
    for path in (ROOT / "tests/python").glob("test_*.py"):
        names |= {path.name, path.stem, *re.findall(r"^def (test_\w+)", path.read_text(), re.M)}
    for path in (ROOT / "tests/cpp").rglob("*.cpp"):
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", path.read_text(), re.M):
            names.add(f"{suite}.{name}")
    return names


def missing(text):
    """What a page names and there is not. Links and options of commands are in test_documentation.py."""
    tests, wrong = names_of_tests(), []
    for code in re.findall(r"`([^`]+)`", text):
        for name in re.findall(r"\bcogwheel reproduce ([a-z][\w/-]*)", code):
            wrong += [] if (ROOT / f"experiments/{name}.toml").is_file() else [f"experiment {name}"]
        for name in re.findall(r"\bcogwheel inspect ([a-z]\w*)", code):
            wrong += [] if (ROOT / f"cogwheel/research/inspect/{name}.cpp").is_file() else [f"study {name}"]
        if re.fullmatch(r"(s1|s2|s4)/[\w-]+", code):
            wrong += [] if (ROOT / f"experiments/{code}.toml").is_file() else [f"experiment {code}"]
        elif re.fullmatch(r"test_\w+(\.py)?", code) or re.fullmatch(r"[A-Z]\w+\.[A-Z]\w+", code):
            wrong += [] if code in tests else [f"test {code}"]
        elif re.fullmatch(r"[\w.-]+(/[\w.-]+)+/?", code):
            wrong += [] if (ROOT / code).exists() else [f"path {code}"]
        elif re.fullmatch(r"(cogformer|shakespeare|nanogpt|u-vit|text|multi30k|ioi)-[\w-]+", code):
            wrong += [] if (ROOT / f"experiments/{code}.toml").is_file() else [f"experiment {code}"]
    return wrong


def test_what_it_names_is_there():
    assert missing(page()) == []


def test_what_is_not_there_is_seen():
    for gone in (
        "`cogwheel reproduce s1/nothing`", "`s2/nothing`", "`cogwheel inspect nothing RUN`", "`test_of_nothing`", "`test_nothing.py`",
        "`Nothing.IsTested`", "`cogwheel/nothing.h`", "`cogformer-9b`",
    ):  # fmt: skip
        assert len(missing(gone)) == 1, gone
    text = page()
    row = re.search(r"^\| S1-3 \|.*\n", text, re.M)[0]
    assert rows(text.replace(row, "")) != rows(text) != rows(text.replace(row, row + row))


def requirements():
    """The text of each item by its name."""
    path = next((folder / "shared/requirements.md" for folder in ROOT.parents if (folder / "shared/requirements.md").is_file()), None)
    if path is None:
        pytest.skip("expected ../shared/requirements.md, got none")
    return items_of(path.read_text())


def items_of(text):
    parts = re.split(r"^(?=- \*\*[SX]\d?-\d+\b)|^(?=#|---)", text, flags=re.M)
    return {found[1]: part for part in parts if (found := re.match(r"- \*\*(S\d-\d+)\b", part))}


def numbers_of(text):
    text = re.sub(r"\b[SX]\d?-\d+", "", text)  # names of items are no numbers
    return {float(number.replace(",", "")) for number in re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)}


def strange_numbers(experiment, items):
    """Of the tables that an experiment prints as its source's, the numbers that none of its items has."""
    source = experiment.get("source", {})
    printed = [value for table in source.get("table", []) for row in table["rows"] for value in row["values"]]
    known = set().union(*(numbers_of(items[name]) for name in source.get("items", [])))
    return [value for value in printed if abs(value) not in known]


def test_tables_of_experiments_are_the_sources():
    items = requirements()
    assert {source: sum(name.startswith(source + "-") for name in items) for source in ITEMS} == ITEMS
    tables = 0
    for path in sorted((ROOT / "experiments").glob("s*/*.toml")):
        experiment = tomllib.loads(path.read_text())
        assert set(experiment.get("source", {}).get("items", [])) <= set(items), path.name
        assert strange_numbers(experiment, items) == [], path.name
        tables += len(experiment.get("source", {}).get("table", []))
    assert tables >= 3


def test_a_number_that_no_source_has_is_seen():
    items = items_of("- **S1-45 TAB** losses\n\n| Cog | 6.07 | 1,500 |\n\n- **S1-46** 9.99\n")
    table = {"rows": [{"values": [6.07, 1500, 6.08, 9.99]}]}
    assert strange_numbers({"source": {"items": ["S1-45"], "table": [table]}}, items) == [6.08, 9.99]
