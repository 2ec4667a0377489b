"""The licence, and how to cite: what the files say agrees, and a citation can be read by those who make lists of them."""

import hashlib
import re
import tomllib

import pytest

# SHA-256 of the text as the Apache Software Foundation publishes it and Debian has it in /usr/share/common-licenses.
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


@pytest.fixture
def citation(repository):
    """CITATION.cff, whose YAML here is `key: value` and lists of such or of words: keys in their order, of strings and lists."""
    read = {}
    for line in (repository / "CITATION.cff").read_text().splitlines():
        if item := re.fullmatch(r"  - (.+)", line):
            read[key].append(item[1])
            continue
        key, value = re.fullmatch(r"([a-z-]+):(?: (\S.*))?", line).groups()
        assert key not in read
        quoted = re.fullmatch(r'"([^"\\]*)"', value or "")
        assert quoted or not re.search(r": |#|^[\[{>|&*!%@`'\"]", value or ""), line  # else YAML reads more than a string
        read[key] = [] if value is None else quoted[1] if quoted else value
    return read


def test_the_licence_is_apache_2_unaltered(repository):
    assert hashlib.sha256((repository / "LICENSE").read_bytes()).hexdigest() == APACHE_2


def test_every_file_names_the_same_licence_and_version(repository, citation):
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    (version,) = re.findall(r"^project\(cogwheel VERSION (\S+)", (repository / "CMakeLists.txt").read_text(), re.MULTILINE)
    assert citation["version"] == project["version"] == version
    assert citation["license"] == project["license"] == "Apache-2.0"
    assert project["license-files"] == ["LICENSE"]
    assert "[LICENSE](LICENSE)" in (repository / "README.md").read_text()


def test_the_citation_has_what_its_format_asks_for(citation):
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert citation["title"] == "Cogwheel" and citation["message"]
    assert citation["authors"] == ["name: The Cogwheel authors"]


def test_the_citation_is_valid_for_cffconvert(repository):
    cffconvert = pytest.importorskip("cffconvert")
    cffconvert.Citation((repository / "CITATION.cff").read_text()).validate()
