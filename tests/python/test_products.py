"""How bfloat16 is multiplied: chosen by rate, the same in every process, forced by the environment, and kept by a run."""

import json
import os
import subprocess
import sys

import pytest

PRODUCTS = {"attention": {"pairs", "amx", "widened"}, "layers": {"native", "widened"}}


def products_of(**environment):
    """What another process says of itself."""
    made = subprocess.run(
        [sys.executable, "-c", "import cogwheel, json; print(json.dumps(cogwheel.bfloat16_products()))"],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return {each["where"]: each for each in json.loads(made.stdout)}


@pytest.fixture(scope="module", autouse=True)
def nothing_forced():
    """Whatever product these tests were started under."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COGWHEEL_PRODUCT", raising=False)
        yield


@pytest.fixture(scope="module")
def here(nothing_forced):
    """What a process chooses, by place."""
    return products_of()


@pytest.fixture(scope="module")
def another(here):
    """A product of attention that this machine has but does not choose."""
    others = set(here["attention"]["flops"]) - {here["attention"]["product"]}
    return min(others) if others else pytest.skip("this machine multiplies bfloat16 in one way")


def test_a_choice_is_the_fastest_or_no_tenth_behind(here):
    for where, each in here.items():
        assert each["product"] in each["flops"] and set(each["flops"]) <= PRODUCTS[where] and each["reason"]
        assert all(rate > 0 for rate in each["flops"].values())


def assert_alike_beside_a_busy_core(starts, here):
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        chosen = [products_of() for _ in range(starts)]
    finally:
        busy.kill()
        busy.wait()
    for where in PRODUCTS:
        assert {each[where]["product"] for each in chosen} == {here[where]["product"]}


def test_processes_choose_alike(here):
    assert_alike_beside_a_busy_core(3, here)


@pytest.mark.slow
def test_a_hundred_processes_choose_alike(here):
    assert_alike_beside_a_busy_core(100, here)


def test_the_environment_decides(another):
    forced = products_of(COGWHEEL_PRODUCT=another)
    assert forced["attention"]["product"] == another
    assert forced["layers"]["product"] == ("widened" if another == "widened" else "native")
    assert {each["reason"] for each in forced.values()} == {"COGWHEEL_PRODUCT"}


def test_a_product_that_the_machine_lacks_is_refused_in_a_line(cogwheel_in, tmp_path):
    result = cogwheel_in(tmp_path, COGWHEEL_PRODUCT="abacus")("list", "kernels")
    (line,) = result.stderr.splitlines()
    assert result.returncode == 2
    assert line.startswith("cogwheel: COGWHEEL_PRODUCT: expected ") and line.endswith(", got abacus")
    forced = cogwheel_in(tmp_path, COGWHEEL_PRODUCT="pairs", COGWHEEL_ISA="portable")("list", "kernels")
    assert "expected widened (what this machine multiplies bfloat16 by with COGWHEEL_ISA=portable), got pairs" in forced.stderr


def test_the_list_of_kernels_shows_rates_and_choice(cogwheel_in, tmp_path, here):
    note = cogwheel_in(tmp_path)("list", "kernels").stdout.splitlines()[-2:]
    for line, where in zip(note, PRODUCTS, strict=True):
        assert line.strip().startswith(f"in {where}: {here[where]['product']} (")
        assert all(f"{product} " in line for product in here[where]["flops"])


@pytest.fixture(scope="module")
def interrupted_run(cogwheel_in, tmp_path_factory, another):
    """A run in bf16 by the product that would not be chosen, and a copy of what it left halfway."""
    folder = tmp_path_factory.mktemp("products")
    (folder / "text.txt").write_text("one two three four five six seven " * 200)
    (folder / "run.toml").write_text(
        '[data]\ntext = ["text.txt"]\n[model]\ncontext = 8\nlayers = 1\nheads = 1\nwidth = 16\n'
        '[training]\nsteps = 4\nbatch = 2\ncheckpoint_every = 2\nprecision = "bf16"\n'
    )
    trained = cogwheel_in(folder, COGWHEEL_PRODUCT=another)("train", "run.toml", "--out", "run")
    assert trained.returncode == 0, trained.stderr
    return folder


def state_of(run):
    """The training state in the header of a checkpoint."""
    content = (run / "checkpoint.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(header["__metadata__"]["state"])


def test_a_run_records_its_products(interrupted_run, another):
    assert state_of(interrupted_run / "run")["products"] == {
        "attention": another,
        "layers": "widened" if another == "widened" else "native",
    }


def test_a_run_that_goes_on_keeps_its_products(interrupted_run, cogwheel_in, another):
    resumed = cogwheel_in(interrupted_run)("resume", "run")
    assert resumed.returncode == 0 and "may differ" not in resumed.stderr, resumed.stderr
    assert state_of(interrupted_run / "run")["products"]["attention"] == another


def test_a_run_says_where_the_environment_asks_for_another_product(interrupted_run, cogwheel_in, here, another):
    chosen = here["attention"]["product"]
    resumed = cogwheel_in(interrupted_run, COGWHEEL_PRODUCT=chosen)("resume", "run")
    assert resumed.returncode == 0
    assert f"the checkpoint's attention multiplied bfloat16 by {another}, COGWHEEL_PRODUCT asks for {chosen}" in resumed.stderr


def test_a_run_says_where_its_product_is_missing(interrupted_run, cogwheel_in, here):
    product = max(set(here["attention"]["flops"]) - {"widened"})
    run = cogwheel_in(interrupted_run, COGWHEEL_PRODUCT=product)("train", "run.toml", "--out", product)
    assert run.returncode == 0
    resumed = cogwheel_in(interrupted_run, COGWHEEL_ISA="portable")("resume", product)
    assert resumed.returncode == 0
    assert (
        f"the checkpoint's attention multiplied bfloat16 by {product}, which this process lacks: it goes on by widened, and the bits"
        " may differ" in resumed.stderr
    )
