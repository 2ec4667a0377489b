"""Rules of the repository: format, a README in each folder, who may include whom, which documents there are."""

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
    for build in (repository / "cogwheel").glob("*/*/CMakeLists.txt"):
        assert build.with_name("README.md").is_file(), build.parent


class House:
    """Rooms (folders of cogwheel/ with a library of their own, a subject of tasks/ among tasks/) and who includes whom."""

    def __init__(self, repository, files):
        self.library = repository / "cogwheel"
        build = (repository / "CMakeLists.txt").read_text()
        self.order = re.findall(r"^add_subdirectory\(cogwheel/([\w/]+)\)", build, re.M)
        self.order += re.search(r"foreach\(folder (.*)\)", build)[1].split()
        self.sources = {}  # by name in cogwheel/: the names that it includes
        for path in files:
            if self.library in path.parents and path.suffix in (".h", ".cpp", ".in", ".def"):
                included = re.findall(r'#include "cogwheel/([^"]+)"', path.read_text())
                self.sources[path.relative_to(self.library).as_posix()] = included

    def room(self, name):
        return next((room for room in self.order if name.startswith(room + "/")), None)

    def arrows(self, place):
        """(from, to) of the includes between places, with an example."""
        arrows = {}
        for source, included in self.sources.items():
            for there in included:
                if place(source) != place(there):
                    arrows.setdefault((place(source), place(there)), f"{source} includes {there}")
        return arrows


@pytest.fixture(scope="module")
def house(repository, files):
    return House(repository, files)


def circle(arrows):
    """Places that include each other in a circle; none: empty."""
    after = {}
    for here, there in arrows:
        after.setdefault(here, set()).add(there)
    left = set(after)
    while free := {place for place in left if not after[place] & left}:
        left -= free
    return left


def floors(arrows):
    after = {}
    for here, there in arrows:
        after.setdefault(here, set()).add(there)

    def floor(place):
        return 1 + max(map(floor, after.get(place, ())), default=0)

    return max(map(floor, after))


def test_folders_include_only_those_above_them(repository, house):
    # CMakeLists.txt says the order: what it adds folder by folder, then the loop over those that need libtorch.
    assert {name.split("/")[0] for name in house.sources} == {room.split("/")[0] for room in house.order}
    assert all(house.room(source) for source in house.sources)
    row = re.search(r"^\| `cogwheel/` \|.*$", (repository / "CONTRIBUTING.md").read_text(), re.M)[0]
    named = [re.sub(r".*/", "", room) for room in house.order]
    assert [name for name in re.findall(r"`(\w+)`", row) if name not in ("attention", "research")] == named
    for (here, there), example in house.arrows(house.room).items():
        assert house.order.index(there) < house.order.index(here), example


def test_the_house_is_at_most_twelve_floors_high(house):
    arrows = house.arrows(house.room)
    assert not circle(arrows)
    assert floors(arrows) <= 12


def test_no_folder_is_in_a_circle(house):
    # attention/ has its circles within an engine: a contract and the folder of those that follow it.
    outside = {arrow: example for arrow, example in house.arrows(lambda name: name.rsplit("/", 1)[0]).items()
               if not all(place.startswith("attention/") for place in arrow)}
    in_circle = circle(outside)
    assert not in_circle, [example for (here, there), example in outside.items() if {here, there} <= in_circle]


def test_no_folder_has_more_than_25_sources(house):
    sources = {re.sub(r"(\.cpp|\.h|\.def)?(\.in)?$", "", name) for name in house.sources}
    for folder in {name.rsplit("/", 1)[0] for name in sources}:
        count = sum(name.rsplit("/", 1)[0] == folder for name in sources)
        assert count <= 25, f"{folder}: {count}"


def namespace_of(room):
    """What users include is in cogwheel itself."""
    place = re.sub(r"^(attention|research)/", "", room)
    return "cogwheel" if place in ("core", "mechanisms", "kernels") else "cogwheel::" + place.replace("/", "::")


def test_a_room_is_a_namespace(house):
    # The namespaces of other rooms that a file defines something in, which is more than the name of a class.
    guests = {
        "tasks/tasks.cpp": {"cogwheel::runs"},  # the lists that runs declares and only what stands above can define
        "compare/record/results_json.cpp": {"cogwheel::runs", "cogwheel::nn"},  # looked up where the type stands
    }
    rooms = set(map(namespace_of, house.order))
    for name in house.sources:
        own = namespace_of(house.room(name))
        text = (house.library / name).read_text()
        for opened, content in re.findall(r"^namespace (cogwheel[\w:]*) \{\n(.*?)^\}  // namespace \1$", text, re.M | re.S):
            declared = re.fullmatch(r"\n*((class|struct|enum class) \w+( : [\w:]+)?;( *//.*)?\n+)+", content)
            inside = opened == own or opened.startswith(own + "::") and opened not in rooms
            assert inside or declared or opened in guests.get(name, ()), f"{name}: expected namespace {own}, got {opened}"
        assert not re.search(r"^using namespace cogwheel", text, re.M), name


def test_readme_counts_the_mechanisms(repository):
    named = [each for each in cogwheel.mechanisms() if each["form"] in (None, each["name"]) and each["definition"] is None]
    assert f"| {len(named)} mechanisms and their forms" in (repository / "README.md").read_text()


def test_every_document_is_in_the_table_of_contents(repository):
    contents = (repository / "docs/README.md").read_text()
    for page in [*(repository / "docs").glob("*.md"), *(repository / "docs/results").glob("*.md")]:
        name = page.relative_to(repository / "docs").as_posix()
        assert name == "README.md" or f"]({name})" in contents, name
    assert "(docs/README.md)" in (repository / "README.md").read_text()
