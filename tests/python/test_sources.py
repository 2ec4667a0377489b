"""docs/sources.md has a row for every item of the sources and cites only what exists; experiments print the sources' numbers."""

import functools
import itertools
import math
import pathlib
import re
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/sources.md"
LAST_ITEMS = {"S0": 11, "S1": 60, "S2": 45, "S3": 8, "S4": 30}
NUMBER = re.compile(r"(?<![\w.,])[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w,]*\d)")


@functools.cache
def page():
    return (ROOT / PAGE).read_text()


def rows():
    """Of each item its cells, in order."""
    found = []
    for line in page().splitlines():
        if line.startswith("| S"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            assert len(cells) == 3 and all(cells), line
            found.append(cells)
    return found


def experiments(of="source"):
    """Of those that train, or with "lab" of those that compute, by name: `s1/phi`."""
    found = {}
    for path in sorted((ROOT / "experiments").glob("s*/*.toml")):
        read = tomllib.loads(path.read_text())
        if of in read:
            found[path.relative_to(ROOT / "experiments").with_suffix("").as_posix()] = read
    return found


def test_every_item_has_one_row_in_order():
    expected = [f"{source}-{number}" for source, last in LAST_ITEMS.items() for number in range(1, last + 1)]
    assert [cells[0] for cells in rows()] == expected


@functools.cache
def names_of_tests():
    """Of each file below tests its tests: `test_cog_layer`, `UVit.IsItsFormula`."""
    found = {}
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix == ".py":
            found[path.relative_to(ROOT).as_posix()] = set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))
        elif path.suffix == ".cpp":
            tests = re.findall(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+),\s*(\w+)\)", path.read_text(), re.MULTILINE)
            found[path.relative_to(ROOT).as_posix()] = {".".join(test) for test in tests}
    return found


def names_in(path, pattern):
    return set(re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE))


def problem_of_command(words):
    verb, *rest = words
    if verb not in names_in("cogwheel/cli/verbs.def", r"^VERB\((\w+)\)"):
        return "no subcommand"
    name = rest[0] if rest and not rest[0].startswith("-") else None
    if verb == "reproduce" and name not in (None, "all"):
        place = ROOT / "experiments" / name
        return None if place.with_suffix(".toml").is_file() or place.is_dir() else "no experiment"
    if verb == "train":
        return None if name and (ROOT / f"experiments/{name}.toml").is_file() else "no experiment"
    if verb == "inspect":
        return None if name in names_in("cogwheel/research/inspect/studies.def", r"^STUDY\((\w+)\)") else "no study"
    return None


def problem_of(code):
    """Why what stands in backticks does not exist, or None."""
    tests = names_of_tests()
    if code.startswith("cogwheel "):
        return problem_of_command(code.split()[1:])
    if code.startswith("--set "):
        return problem_of(code.split()[1].partition("=")[0])
    if "::" in code:
        file, _, name = code.partition("::")
        return None if name in tests.get(file, ()) else "no such test there"
    if "/" in code:
        return None if (ROOT / code).exists() else "no such path"
    if code.startswith("test_") or re.fullmatch(r"[A-Z]\w+\.[A-Z]\w+", code):
        return None if any(code in names for names in tests.values()) else "no such test"
    if re.fullmatch(r"(?:model|task|data|training)\.\w+", code):
        return None if f"`{code}`" in (ROOT / "docs/configuration.md").read_text() else "no key of a configuration"
    pages = ("docs/mechanisms.md", "docs/alignment.md", "docs/recurrent.md", "docs/tasks.md")
    if any(code in names_in(each, r"`(\w+)`") for each in pages):
        return None
    kind, _, suffix = code.partition("_local_")  # alignment.md lists luong_…_local_m
    if suffix in ("m", "p") and kind in names_in("docs/alignment.md", r"`(luong_\w+)`"):
        return None
    return "neither a command, a path, a test, a key, a mechanism nor a task"


def test_what_is_cited_exists():
    text = re.sub(r"^- Names such as .*\n", "", page(), flags=re.MULTILINE)
    codes = [code for code in re.findall(r"`([^`\n]+)`", text) if code not in ("cogwheel reproduce", "items")]
    assert len(codes) > 150
    problems = {code: problem for code in codes if (problem := problem_of(code))}
    assert not problems
    for target, _ in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        assert "://" in target or (ROOT / "docs" / target).exists(), target


@pytest.mark.parametrize(
    "code",
    ["cogwheel reproduce s9/none", "cogwheel inspect none", "cogwheel train none", "cogwheel none", "test_none_of_all", "UVit.IsNone",
     "tests/python/test_sources.py::test_none", "docs/none.md", "model.none", "--set model.none=1", "none_local_m"],
)  # fmt: skip
def test_what_does_not_exist_is_noticed(code):
    assert problem_of(code)


@pytest.mark.parametrize("name", [*experiments(), *experiments("lab")])
def test_items_of_an_experiment_name_it(name):
    read = {**experiments(), **experiments("lab")}[name]
    source = read.get("source") or {"document": name[:2].upper(), "items": read["items"]}  # a lab's is its folder's
    answers = {cells[0]: cells[2] for cells in rows()}
    assert source["document"] in LAST_ITEMS and all(re.fullmatch(rf"{source['document']}-\d+", item) for item in source["items"])
    assert source["items"]
    for item in source["items"]:
        assert f"`cogwheel reproduce {name}`" in answers[item], item


def printed_numbers(source):
    """Of the tables of a source, by row, measure and share of the steps; of numbers by layer their mean and rise too."""
    printed, by_layer = {}, {}
    for table in source.get("table", []):
        for row in table["rows"]:
            for column, value in enumerate(row["values"]):
                measure, share = table.get("measures", [None] * 99)[column], table.get("at", [1] * 99)[column]
                if (row.get("variant"), measure, share) in printed:
                    continue  # another list, or mode, of the same number
                printed[row.get("variant"), measure, share] = value
                if measure and "_of_layer@" in measure:
                    by_layer.setdefault((row.get("variant"), measure.partition("_of_layer@")[0]), []).append(value)
    for (row, measure), values in by_layer.items():
        printed[row, measure, 1] = sum(values) / len(values)
        printed[row, f"{measure}_rise", 1] = values[-1] - values[0]
    return printed


@pytest.mark.parametrize("name", experiments())
def test_printed_numbers_of_claims_are_those_of_the_printed_tables(name):
    read = experiments()[name]
    printed = printed_numbers(read["source"])
    for claim in read["claim"]:
        if "printed" not in claim:
            continue
        of_row, against = [printed.get((claim.get(key), claim.get("measure"), claim.get("at", 1))) for key in ("row", "against")]
        assert of_row is not None and (against is not None or "against" not in claim), claim["id"]
        is_mean = (claim["row"], f"{claim.get('measure')}_of_layer@0", 1) in printed  # which is written with three digits
        assert claim["printed"] == pytest.approx(of_row - (against or 0), abs=5e-4 if is_mean else 1e-9), claim["id"]


def numbers(text):
    return [float(number.replace(",", "").replace("−", "-")) for number in NUMBER.findall(text)]


def sections(text):
    """What is written of each item, up to the next one or a heading."""
    parts = re.split(r"^- \*\*(S[0-4]-\d+)\b|^#.*$|^---$", text, flags=re.MULTILINE)
    return {item: body for item, body in zip(parts[1::2], parts[2::2]) if item}


def table_rows(section):
    """Of each row of a table, the numbers of its cells after the first."""
    found = []
    for line in re.findall(r"^\|(.*)\|$", section, re.MULTILINE):
        if not re.fullmatch(r"[-| :]+", line):
            found.append([number for cell in line.split("|")[1:] for number in numbers(cell)])
    return found


def written_columns(lines):
    """Of rows with as many numbers that follow each other, their columns."""
    return [list(column) for _, rows in itertools.groupby(lines, len) for column in zip(*rows)]


def prose(text):
    """Of what is no table, the numbers of each sentence."""
    return [numbers(sentence) for sentence in re.split(r"[;:](?=\s)|\. ", re.sub(r"^\|.*$", "", text, flags=re.MULTILINE))]


def contains(series, part):
    return any(series[at : at + len(part)] == part for at in range(len(series)))


def printed_part(table):
    """Without the columns of which the source prints nothing."""
    kept = [place for place in range(len(table["columns"])) if not all(math.isnan(row["values"][place]) for row in table["rows"])]
    rows = [row | {"values": [row["values"][place] for place in kept]} for row in table["rows"]]
    return table | {"columns": [table["columns"][place] for place in kept], "rows": rows if kept else []}


def problems_of_tables(source, written):
    """Where the tables of an experiment differ from what is written of its items."""
    text = "\n".join(written[item] for item in source["items"])
    known, lines, problems = set(numbers(text)), table_rows(text), []
    for table in map(printed_part, source.get("table", [])):
        values = [row["values"] for row in table["rows"]]
        problems += [f"{table['caption']}: {value}" for row in values for value in row if float(value) not in known]
        if len(table["columns"]) == 1 and len(values) > 1:  # a row, a column, or one after the other in a sentence
            only = [value for row in values for value in row]
            if not any(contains(series, only) for series in [*lines, *written_columns(lines), *prose(text)]):
                problems.append(f"{table['caption']}: in another order")
        if len(table["columns"]) > 1:  # whole rows, in the order in which they are written, below their header
            columns = [number for column in table["columns"] for number in numbers(column)]
            expected = ([columns] if columns else []) + values
            if all(any(contains(series, row) for series in [*written_columns(lines), *prose(text)]) for row in values):
                continue  # written as columns, or one after the other in a sentence
            if len(values) > 1 and list(itertools.chain(*values)) in lines:
                continue  # written as one row, whose cells have a number of each column
            if not any(lines[at : at + len(expected)] == expected for at in range(len(lines))):
                problems.append(f"{table['caption']}: other rows")
    return problems


WRITTEN = """# S9
- **S1-1 TAB** of losses

| Model | 500 | 1,500 |
|---|---|---|
| one, 3 layers | 6.14 | 4.74 |
| two | 0.18/0.08 | −3 |
| three | 1/2 | 3/4 |

- **S1-2** 9.9
"""


def test_numbers_that_are_not_written_are_noticed():
    def source(columns, *values):
        return {"items": ["S1-1"], "table": [{"caption": "c", "columns": columns, "rows": [{"values": row} for row in values]}]}

    written = sections(WRITTEN)
    assert set(written) == {"S1-1", "S1-2"} and "9.9" not in written["S1-1"]
    assert table_rows(written["S1-1"]) == [[500, 1500], [6.14, 4.74], [0.18, 0.08, -3], [1, 2, 3, 4]]
    assert not problems_of_tables(source(["500", "1,500"], [6.14, 4.74]), written)
    assert not problems_of_tables(source(["training"], [500], [6.14]), written) and problems_of_tables(source(["training"], [6.14], [500]), written)
    assert problems_of_tables(source(["training"], [9.9]), written)
    assert not problems_of_tables(source(["a", "b"], [500, 6.14]), written) and problems_of_tables(source(["a", "b"], [6.14, 500]), written)
    assert problems_of_tables(source(["a", "b"], [6.14, 0.18]), written)
    assert not problems_of_tables(source(["a", "b"], [1, 2], [3, 4]), written)
    assert problems_of_tables(source(["a", "b"], [2, 1], [4, 3]), written)
    assert problems_of_tables(source(["500", "1,500"], [4.74, 6.14]), written)
    assert problems_of_tables(source(["500", "2,500"], [6.14, 4.74]), written)
    nothing = math.nan  # is ours alone
    assert not problems_of_tables(source(["500", "ours"], [6.14, nothing]), written) and problems_of_tables(source(["500", "ours"], [9.9, nothing]), written)
    assert not problems_of_tables(source(["a", "b"], [nothing, nothing]), written) and problems_of_tables(source(["a", "b"], [6.14, nothing], [nothing, nothing], [4.74, 6.14]), written)


@pytest.fixture(scope="module")
def written():
    requirements = ROOT.parent / "shared/requirements.md"
    if not requirements.is_file():
        pytest.skip("expected ../shared/requirements.md, got none")
    return sections(requirements.read_text())


def test_every_item_that_is_written_has_a_row(written):
    assert {cells[0] for cells in rows()} == set(written)


@pytest.mark.parametrize("name", experiments())
def test_numbers_of_the_sources_are_as_written(name, written):
    """Of tables, by their places; of the source's cost, somewhere in what is written of that source."""
    source = experiments()[name]["source"]
    assert problems_of_tables(source, written) == []
    of_source = "".join(text for item, text in written.items() if item.startswith(source["document"]))
    for number in numbers(source.get("cost", "")):
        assert number in numbers(of_source), number


@pytest.mark.parametrize("name", experiments("lab"))
def test_numbers_of_labs_are_as_written(name, written):
    """Labs have the source's numbers in C++. The page of results, which a lab's own test holds to them, says which they are."""
    of_items = [number for item in experiments("lab")[name]["items"] for number in numbers(written[item])]
    page = (ROOT / f"docs/results/{name[:2]}.md").read_text()
    for line in page.split(f"\n## {name}\n")[1].split("\n## ")[0].splitlines():
        if line.startswith("| ") and "'s number |" in line:
            what, expected, *_ = re.split(r"(?<!\\)\|", line)[1:-1]
            assert numbers(expected)[0] in of_items, what
