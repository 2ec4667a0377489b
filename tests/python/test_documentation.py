"""Every Python block of the README, docs/python.md, docs/recurrent.md and docs/alignment.md does what it claims."""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
from test_installed_library import build_against, prefix, run  # noqa: F401  prefix is a fixture

import cogwheel.bench.options

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / path).read_text(), re.MULTILINE | re.DOTALL)


def test_no_block_is_left_out():
    """Blocks of a language that no test below runs would be claims that nobody checks."""
    for page, expected in {"README.md": ["python"], "docs/command-line.md": ["sh", "sh"], "docs/cpp.md": ["cpp", "cpp"]}.items():
        assert re.findall(r"^```(\w*)\n(?:.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL) == expected, page


# Answers each line, a block, with what it printed. A block runs in a process of its own that need not import anything anew.
FORKING_PYTHON = """
import json, os, sys, traceback
import torch, cogwheel

def run(code, printed):
    os.dup2(printed, 1), os.dup2(printed, 2)
    try:
        exec(compile(code, "block", "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)

for line in sys.stdin:
    code, folder = json.loads(line)
    os.chdir(folder)
    printed = os.open("printed", os.O_RDWR | os.O_CREAT)
    child = os.fork()
    if child == 0:
        run(code, printed)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([status, open("printed").read()]), flush=True)
"""


@pytest.fixture(scope="module")
def run_block(cogwheel_executable):
    command = [sys.executable, "-W", "error", "-c", FORKING_PYTHON]
    path = f"{cogwheel_executable.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "PATH": path}
    with subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:

        def run(code, folder):
            process.stdin.write(json.dumps([code, str(folder)]) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield run
        process.stdin.close()


@pytest.mark.parametrize(
    "code",
    [
        block
        for document in ("README.md", "docs/python.md", "docs/recurrent.md", "docs/alignment.md")
        for block in blocks(document, "python")
    ],
    ids=lambda code: str(len(code)),
)
def test_python_blocks(code, tmp_path, run_block):
    status, printed = run_block(code, tmp_path)
    assert status == 0, printed
    if "|a| sums to" in code:
        assert "|a| sums to 1.0000" in printed and "cog · sign(s) exp|s| / Σ exp|s|" in printed


@pytest.mark.parametrize(
    "code",
    # The benchmarks of docs/performance.md are those of docs/command-line.md.
    [*blocks("docs/command-line.md", "sh"), *(pytest.param(code, marks=pytest.mark.slow) for code in blocks("docs/performance.md", "sh"))],
    ids=lambda code: " ".join(code.split()[:3]),
)
def test_shell_blocks(code, tmp_path, cogwheel_executable):
    environment = {**os.environ, "PATH": f"{cogwheel_executable.parent}{os.pathsep}{os.environ['PATH']}"}
    shorter = re.sub(r"--lengths [\d ]*\d", "--lengths 256", re.sub(r"--seconds \d+", "--seconds 0.1", code))
    printed = run("bash", "-euc", shorter, cwd=tmp_path, env=environment)
    assert "differential" in printed or "eager GPT" in printed
    for file in re.findall(r"--out (\S+)", code):
        written = {path.name for path in (tmp_path / file).iterdir() if path.is_file() and path.stat().st_size > 0}
        assert written >= ({"report.html", "results.json"} if "compare" in code else {"bench.html", "bench.json"})


def test_cpp_program(prefix, repository, tmp_path):  # noqa: F811
    program, _ = blocks("docs/cpp.md", "cpp")
    project = tmp_path / "project"
    shutil.copytree(repository / "examples/installed_library", project)
    (project / "cog_attention.cpp").write_text(program)
    build_against(prefix, project, tmp_path / "build")
    assert run(tmp_path / "build/cog_attention") == "-3\n"


# Uses the new mechanism through the kernel table, as any caller would, and checks it against its formula.
USE_THE_NEW_MECHANISM = """
#include <cogwheel/core/parallel.h>
#include <cogwheel/attention/kernels/pairwise/pairwise.h>
#include <cmath>
#include <cstdio>
int main() {
  constexpr int keys = 5, width = 8;
  double query[width] = {1}, key[keys * width] = {}, value[keys * width] = {}, output[width], shift, mass;
  double score[keys] = {-3, -1, -7, 0.5, -2}, total = 0, expected = 0;
  for (int j = 0; j < keys; ++j) {
    key[j * width] = score[j], value[j * width] = j + 1;
    total += std::abs(std::exp(score[j]) - 1), expected += std::fmax(std::exp(score[j]) - 1, 0) * (j + 1);
  }
  cogwheel::PairwiseForward<double> problem;
  problem.shape = {.queries = 1, .keys = keys, .head_dim = width, .value_dim = width};
  problem.visibility.rule = {.keys = keys};
  problem.query = {query, 0, 0, width}, problem.key = {key, 0, 0, width}, problem.value = {value, 0, 0, width};
  problem.output = {output, 0, 0, width}, problem.shift = &shift, problem.mass = &mass;
  const auto kernel = cogwheel::pairwise_kernel<double>("softpick");
  kernel.forward(problem, cogwheel::SerialExecutor());
  double gradient[width] = {1}, query_gradient[width], key_gradient[keys * width], value_gradient[keys * width];
  cogwheel::PairwiseBackward<double> backward{problem};
  backward.output = {output, 0, 0, width}, backward.output_gradient = {gradient, 0, 0, width};
  backward.shift = &shift, backward.mass = &mass;
  backward.query_gradient = {query_gradient, 0, 0, width}, backward.key_gradient = {key_gradient, 0, 0, width};
  backward.value_gradient = {value_gradient, 0, 0, width};
  kernel.backward(backward, cogwheel::SerialExecutor());
  double derivative = 0;  // of the output by the query: Σ (f′_j v_j − g′_j o) s_j / N
  for (int j = 0; j < keys; ++j)
    derivative += std::exp(score[j]) * (score[j] > 0 ? j + 1 - expected / total : expected / total) * score[j] / total;
  std::printf("%.1e %.1e\\n", std::abs(output[0] - expected / total), std::abs(query_gradient[0] - derivative));
}
"""


def test_adding_a_mechanism(repository, tmp_path, request):
    """The header of docs/cpp.md and its one line, in a copy of the kernels: it builds, and is right."""
    _, header = blocks("docs/cpp.md", "cpp")
    text = (repository / "docs/cpp.md").read_text()
    header_path = re.search(r"`(cogwheel/attention/mechanisms/pairwise/softpick\.h)`", text)[1]
    line = re.search(r"`(ROW_MAP\(softpick, \w+\))`", text)[1]

    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("CMakeLists.txt", "CMakePresets.json"):
        shutil.copy(repository / name, copy)
    shutil.copytree(repository / "cmake", copy / "cmake")
    for folder in ("core", "attention"):
        shutil.copytree(repository / "cogwheel" / folder, copy / "cogwheel" / folder)
    (copy / header_path).write_text(header)
    with (copy / "cogwheel/attention/mechanisms/mechanisms.def").open("a") as definitions:
        definitions.write(line + "\n")
    # ccache recognises what it has compiled before in spite of the new folder.
    environment = {**os.environ, "CCACHE_BASEDIR": str(copy), "CCACHE_NOHASHDIR": "1"}
    every = "ON" if request.config.getoption("--all") else "OFF"
    options = ["-DCOGWHEEL_TESTS=OFF", "-DCOGWHEEL_KERNELS_OF=softpick"]
    options += [f"-DCOGWHEEL_ALL_ISAS={every}", f"-DCOGWHEEL_PORTABLE_KERNELS={every}"]
    options += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "--preset", "kernels-only", *options, cwd=copy, env=environment)
    run("ninja", "-C", "build-kernels", "cogwheel_kernels", cwd=copy, env=environment)
    (copy / "use.cpp").write_text(USE_THE_NEW_MECHANISM)
    libraries = [copy / f"build-kernels/cogwheel/{name}" for name in
                 ("attention/kernels/libcogwheel_kernels.a", "attention/mechanisms/libcogwheel_mechanisms.a", "core/libcogwheel_core.a")]
    run("g++", "-std=c++20", "-I", copy, copy / "use.cpp", "-o", copy / "use", *libraries, "-lhwy")
    for isa in ("", "portable") if every == "ON" else ("",):
        errors = subprocess.run(
            [copy / "use"], env={**os.environ, "COGWHEEL_ISA": isa}, capture_output=True, text=True, check=True
        ).stdout.split()
        assert len(errors) == 2 and all(float(error) < 1e-14 for error in errors), errors


def pages():
    """Every Markdown file of the repository, by its path from the root."""
    folders = ("bench", "cogwheel", "docs", "examples", "experiments", "python", "tests")
    return ["README.md", "CONTRIBUTING.md"] + sorted(
        str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*.md") if "node_modules" not in path.parts
    )


def prose(path):
    """A page without its code, in which nothing is a link or a citation."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / path).read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"(?<=\n\n)(?: {4}.*\n+)+", "", text)
    return re.sub(r"`[^`\n]*`", "code", text)


def anchors(path):
    """The names that a link to a part of a page may have: of headings, as GitHub makes them, and of <a id>."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = "".join(c for c in heading.lower() if c.isalnum() or c in " -_").replace(" ", "-")
        assert name not in named, f"{path}: two headings {heading}"
        named.add(name)
    return named


@pytest.mark.parametrize("path", pages())
def test_links_lead_somewhere(path):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", prose(path)):
        if "://" in target:
            continue
        file = (ROOT / path).parent / target if target else ROOT / path
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), f"{target}#{anchor}"


def commands():
    """What pages tell to type, as {"inspect": {"--set": "docs/inspect.md"}}; of `bench` and `data` with the words after them."""
    told = {}
    for path in pages():
        text = (ROOT / path).read_text().replace("\\\n", " ")
        code = re.findall(r"`([^`\n]+)`", text) + re.findall(r"^(?: {4}|\s*(?=[\w./]*cogwheel ))(.*)$", text, re.MULTILINE)
        for line in code:
            for command, rest in re.findall(r"(?:^|[ /(])cogwheel ((?:bench |data (?:tokenizer )?)?[a-z]+)\b([^#|;]*)", line):
                rest = re.sub(r"'[^']*'|\"[^\"]*\"", "", rest)
                for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest):
                    told.setdefault(command, {})[option] = path
    return told


def help_of(executable, command):
    """What `cogwheel COMMAND --help` prints; of benchmarks, which are Python, without a process that imports torch for each."""
    words = command.split()
    if words[0] == "bench" and words[1] != "network":
        with contextlib.redirect_stdout(io.StringIO()) as shown, pytest.raises(SystemExit):
            cogwheel.bench.options.parser().parse_args([words[1], "--help"])
        return shown.getvalue()
    return run(executable, *words, "--help")


def test_commands_have_the_options_that_pages_use(cogwheel_executable):
    told = commands()
    assert {"compare", "train", "inspect", "sample", "bench attention"} <= set(told)
    for command, options in told.items():
        known = set(re.findall(r"--[a-z][a-z-]*", help_of(cogwheel_executable, command)))
        assert set(options) <= known, {option: path for option, path in options.items() if option not in known}


REFERENCE = re.compile(r'^\| <a id="([a-z0-9-]+)"></a>(.*?) \| (.*?) \| (.*?) \|$', re.MULTILINE)


def test_references_are_well_formed():
    """An id of arXiv once, with its link, of a month that has been; or none, and where the work is instead."""
    rows = REFERENCE.findall((ROOT / "docs/references.md").read_text())
    assert len(rows) > 40
    assert [row[1].lower() for row in rows] == sorted(row[1].lower() for row in rows)
    ids = []
    for anchor, citation, _, where in rows:
        (year,) = re.findall(r"\((\d{4})\)$", citation)
        assert anchor.startswith(re.split(r"[ ,]", citation.lower())[0]) and year in anchor, anchor
        if link := re.fullmatch(r"\[((\d\d)(\d\d)\.\d{4,5})\]\(https://arxiv\.org/abs/(.*)\)", where):
            id, short_year, month, linked = link.groups()
            assert id == linked and 1 <= int(month) <= 12 and len(id) == (9 if int(short_year) < 15 else 10)
            assert 0 <= int(year) - 2000 - int(short_year) <= 2, citation  # published later than put there, if ever
            ids.append(id)
        else:
            assert where.startswith("none; "), where
    assert len(set(ids)) == len(ids) and len({row[0] for row in rows}) == len(rows)


def test_every_citation_of_the_catalogue_is_a_reference():
    known = [row[1] for row in REFERENCE.findall((ROOT / "docs/references.md").read_text())]
    for entry in cogwheel.mechanisms():
        if entry["definition"] is None:
            for work in entry["citation"].split("; "):
                assert any(work.startswith(each) for each in known), work


@pytest.mark.parametrize("path", [path for path in pages() if path == "README.md" or path.startswith(("docs/", "examples/"))])
def test_citations_link_to_the_references(path):
    """Where a user reads an author and a year there is a link; and the name of an item of a source is one of docs/sources.md."""
    items = re.findall(r"^\| (S[0-4]-\d+) \|", (ROOT / "docs/sources.md").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bS[0-4]-\d+", (ROOT / path).read_text())) <= set(items)
    if path in ("docs/references.md", "docs/mechanisms.md"):  # the list itself; comments of headers, copied
        return
    without_links = re.sub(r"\[[^\]]*\]\([^)]*references\.md#[a-z0-9-]+\)", "", prose(path))
    cited = re.findall(r".*(?:et al\.|[a-z] \((?:19|20)\d\d\)|[A-Z]\w+ (?:19|20)\d\d\)).*", without_links)
    assert not cited, cited


def test_flex_attention_has_no_backward_on_cpus_as_the_readme_says():
    from torch.nn.attention.flex_attention import flex_attention

    assert "on CPUs it has no backward pass (torch 2.13)" in (ROOT / "README.md").read_text()
    query, key, value = (torch.randn(1, 2, 16, 16, requires_grad=True) for _ in range(3))
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex_attention(query, key, value)


@pytest.mark.parametrize("path", sorted((ROOT / "docs/results").glob("*.md")), ids=lambda path: path.stem)
def test_results_of_one_seed_say_so_in_their_heading(path):
    if "one seed" in path.read_text().splitlines()[0]:
        return
    for heading, body in re.findall(r"^(#+ .*)\n((?:(?!#+ ).*\n?)*)", path.read_text(), re.MULTILINE):
        single = re.search(r"\b[Oo]ne seed\b(?! in| of three)|\bseed 1(?:337)?[,;.]", body)
        if single and not re.search(r"\bseeds? (?:1, )?2\b|three seeds", body):
            assert "one seed" in heading, heading
