"""Rules of the repository: format, a README in each folder, the table of mechanisms."""

import re
import shutil
import subprocess

import pytest

import cogwheel


@pytest.fixture(scope="module")
def files(repository):
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=repository, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("not a git clone")
    return [path for path in (repository / name for name in listed.stdout.split("\0") if name) if path.is_file()]


def test_cpp_is_formatted(repository, files):
    formatter = shutil.which("clang-format-14")
    assert formatter, "expected clang-format-14, got none; ./run-tests installs it"
    sources = [path for path in files if path.suffix in (".h", ".cpp")]
    assert len(sources) > 20
    result = subprocess.run(
        [formatter, "--dry-run", "--Werror", "--style=file", *sources], cwd=repository, capture_output=True, text=True
    )
    assert result.returncode == 0, "\n".join(sorted(set(re.findall(r"^(.*?):\d+:\d+: error", result.stderr, re.MULTILINE))))


def test_every_folder_of_the_library_says_what_it_is(repository):
    for folder in (repository / "cogwheel").iterdir():
        if folder.is_dir():
            assert (folder / "README.md").is_file(), folder


def test_folders_include_only_those_above_them(repository, files):
    # CMakeLists.txt says the order: what it adds folder by folder, then the loop over those that need libtorch.
    build = (repository / "CMakeLists.txt").read_text()
    order = re.findall(r"^add_subdirectory\(cogwheel/(\w+)\)", build, re.M)
    order += re.search(r"foreach\(folder (.*)\)", build)[1].split()
    library = repository / "cogwheel"
    assert {folder.name for folder in library.iterdir() if folder.is_dir()} <= set(order)
    row = re.search(r"^\| `cogwheel/` \|.*$", (repository / "README.md").read_text(), re.M)[0]
    assert re.findall(r"`(\w+)`", row) == order
    for path in files:
        if library not in path.parents or path.suffix not in (".h", ".cpp"):
            continue
        here = path.relative_to(library).parts[0]
        for there in re.findall(r'#include "cogwheel/(\w+)/', path.read_text()):
            assert order.index(there) <= order.index(here), f"{path} includes {there}"


def test_readme_names_every_mechanism_as_the_catalogue_does(repository):
    readme = re.sub(r"\[([^\]]*)\]\(docs/references\.md#[^)]*\)", r"\1", (repository / "README.md").read_text())
    for mechanism in cogwheel.mechanisms():
        if mechanism["form"] not in (None, mechanism["name"]) or mechanism["definition"] is not None:
            continue  # a form over another map: the form and the map stand there; or one that a test has defined
        assert f"| `{mechanism['name']}` |" in readme
        assert mechanism["citation"].split(" (shared")[0] in readme, mechanism["citation"]
