"""docs/mechanisms.md and the table of laws are what docs/generate_mechanisms.py makes of the catalogue and the headers."""

import os
import re
import runpy
import subprocess
import sys

import pytest

import cogwheel


@pytest.fixture(scope="module")
def committed(repository):
    return (repository / "docs/mechanisms.md").read_text()


def test_the_committed_text_is_current(repository, committed):
    generator = runpy.run_path(str(repository / "docs/generate_mechanisms.py"), run_name="generator")
    without_cards = re.sub(r"\n\n\| numerics \| \|\n(\|.*\n)+", "\n", committed)
    assert without_cards == generator["document"](with_cards=False), "stale: run .venv/bin/python docs/generate_mechanisms.py"


def test_the_table_of_laws_is_current(repository):
    generator = runpy.run_path(str(repository / "docs/generate_mechanisms.py"), run_name="generator")
    page = (repository / "docs/recurrent.md").read_text()
    assert page == generator["with_law_table"](page), "stale: run .venv/bin/python docs/generate_mechanisms.py"


@pytest.mark.slow  # needs every portable kernel
def test_the_committed_cards_are_current(repository, committed, tmp_path):
    target = tmp_path / "mechanisms.md"
    subprocess.run([sys.executable, repository / "docs/generate_mechanisms.py", target], check=True, env=os.environ)
    assert committed == target.read_text(), "stale: run .venv/bin/python docs/generate_mechanisms.py"


def test_it_says_of_every_mechanism_what_the_header_says(repository, committed):
    sections = dict(re.findall(r"^## [^\n]*: `(\w+)`\n(.*?)(?=^## |\Z)", committed, re.MULTILINE | re.DOTALL))
    for entry in [entry for entry in cogwheel.mechanisms() if entry["definition"] is None]:  # the built-in ones
        assert f"`{entry['name']}`" in committed
        assert entry["name"] in sections or entry["form"]
        assert ("| numerics |" in sections.get(entry["name"], "")) == (entry["member"] == entry["name"])
    assert len(sections) > 15
    for name in sections:
        comment = next(repository.glob(f"cogwheel/attention/mechanisms/*/{name}.h")).read_text().split("#pragma once")[0]
        for line in comment.splitlines():
            words = re.sub(r"^//\s*", "", line)
            assert words in sections[name].replace("\\", ""), f"{name}: {words}"


def test_links_of_the_table_lead_to_sections(committed):
    headings = {
        "".join(c for c in line[3:].lower() if c.isalnum() or c in " -_").replace(" ", "-")
        for line in committed.splitlines()
        if line.startswith("## ")
    }
    links = set(re.findall(r"\]\(#([^)]*)\)", committed))
    assert links == headings
