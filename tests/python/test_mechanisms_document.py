"""docs/mechanisms.md is what docs/generate_mechanisms.py makes of the catalogue and the headers."""

import os
import re
import subprocess
import sys

import pytest

import cogwheel


@pytest.fixture(scope="module")
def generated(repository, tmp_path_factory):
    target = tmp_path_factory.mktemp("docs") / "mechanisms.md"
    environment = {**os.environ, "PYTHONPATH": str(repository / "python")}
    subprocess.run([sys.executable, repository / "docs/generate_mechanisms.py", target], check=True, env=environment)
    return target.read_text()


def test_the_committed_document_is_current(repository, generated):
    committed = (repository / "docs/mechanisms.md").read_text()
    assert committed == generated, "stale: run .venv/bin/python docs/generate_mechanisms.py"


def test_it_says_of_every_mechanism_what_the_header_says(repository, generated):
    sections = dict(re.findall(r"^## [^\n]*: `(\w+)`\n(.*?)(?=^## |\Z)", generated, re.MULTILINE | re.DOTALL))
    for entry in [entry for entry in cogwheel.mechanisms() if entry["definition"] is None]:  # the built-in ones
        assert f"`{entry['name']}`" in generated
        assert entry["name"] in sections or entry["form"]
    assert len(sections) > 15
    for name in sections:
        comment = (repository / f"cogwheel/mechanisms/{name}.h").read_text().split("#pragma once")[0]
        for line in comment.splitlines():
            words = re.sub(r"^//\s*", "", line)
            assert words in sections[name].replace("\\", ""), f"{name}: {words}"


def test_links_of_the_table_lead_to_sections(generated):
    headings = {
        "".join(c for c in line[3:].lower() if c.isalnum() or c in " -_").replace(" ", "-")
        for line in generated.splitlines()
        if line.startswith("## ")
    }
    links = set(re.findall(r"\]\(#([^)]*)\)", generated))
    assert links == headings
