"""The tasks images and diffusion on the command line: training, resuming, samples, comparisons, and what is refused."""

import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess

import pytest
import torch

from comparison_records import expect_continues
from pictures import png
from resumed_runs import expect_resumes_bit_for_bit, metrics
from tensor_files import read_tensors, write_tensors

import cogwheel as package

CONFIG = """
name = "shapes"
[task]
name = "{task}"
size = 16
[model]
width = 16
heads = 2
layers = 3
patch = 8
[training]
steps = 6
batch = 4
warm_up = 2
curve_tokens = 16
evaluate_every = 3
report_every = 1
checkpoint_every = 3
{more}
"""


def size_of_png(path):
    head = path.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    return struct.unpack(">II", head[16:24])


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    (folder / "images.toml").write_text(CONFIG.format(task="images", more=""))
    (folder / "diffusion.toml").write_text(CONFIG.format(task="diffusion", more="ema = 0.5"))
    record = bytes([3]) + bytes(range(256)) * 12
    (folder / "cifar").mkdir()
    (folder / "cifar/data_batch_1.bin").write_bytes(b"".join(bytes([label]) + record[1:] for label in range(10)) * 2)
    (folder / "cifar/test_batch.bin").write_bytes(b"".join(bytes([label]) + record[1:] for label in range(10)))
    (folder / "broken.bin").write_bytes(record[:-1])
    for name, shade in [("dark", 20), ("light", 230)]:
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(12):
            pixels = bytes([shade + number]) * (3 * 16 * 16)
            (folder / "pictures" / name / f"{number}.png").write_bytes(png(pixels, 16))
    return folder


@pytest.fixture(scope="module")
def cogwheel(cogwheel_in, work):
    return cogwheel_in(work)


@pytest.fixture(scope="module")
def trained(cogwheel, work):
    def train(name, config, *words):
        done = cogwheel("train", config, *words, "--out", name)
        assert done.returncode == 0, done.stderr
        return work / name

    return {
        "images": train("images-run", "images.toml"),
        "diffusion": train("diffusion-run", "diffusion.toml", "--set", "task.condition=class"),
        "unconditional": train("unconditional-run", "diffusion.toml"),
        "cifar": train("cifar-run", "images.toml", "--images", "cifar", "--set", "task.size=0"),
        "pictures": train("pictures-run", "images.toml", "--images", "pictures", "--set", "task.flip=true"),
    }


def test_trains_on_shapes_cifar_and_folders(trained):
    for name, run in trained.items():
        last = metrics(run)[-1]
        assert last["step"] == 6 and math.isfinite(last["held_out_loss"]), name
        assert ("accuracy" in last) == (name not in ("diffusion", "unconditional"))
    assert json.loads((trained["cifar"] / "classes.json").read_text())[3] == "cat"
    assert json.loads((trained["pictures"] / "classes.json").read_text()) == ["dark", "light"]
    assert "image_size = 32" in (trained["cifar"] / "config.toml").read_text()


def test_a_run_knows_its_pictures_by_their_content(cogwheel, trained, work):
    """Another picture of the same name and length is other data."""
    first, second = (work / "pictures/dark" / f"{number}.png" for number in (0, 1))
    kept = first.read_bytes(), second.read_bytes()
    assert len(kept[0]) == len(kept[1])
    first.write_bytes(kept[1]), second.write_bytes(kept[0])
    done = cogwheel("evaluate", trained["pictures"])
    first.write_bytes(kept[0]), second.write_bytes(kept[1])
    assert done.returncode == 1 and "data.sha256 of pictures: expected" in done.stderr, done.stderr
    assert cogwheel("evaluate", trained["pictures"]).returncode == 0


def test_links_and_names_in_folders(cogwheel, work):
    shutil.copytree(work / "pictures", work / "linked")
    for link in ("linked/self", "linked/dark/self.png"):
        (work / link).symlink_to((work / link).name)
    (work / "linked/above").symlink_to("..")
    (work / "linked/dark/above").symlink_to("..")
    os.rename(os.fsencode(work / "linked/dark/0.png"), os.fsencode(work / "linked/dark") + b"/\xff.png")
    words = ["train", "images.toml", "--images", "linked", "--out"]
    done = cogwheel(*words, "linked-run")
    assert done.returncode == 0 and "images: 3 files of other kinds" in done.stderr, done.stderr
    os.rename(os.fsencode(work / "linked/light"), os.fsencode(work / "linked") + b"/\xfflight")
    done = cogwheel(*words, "never")
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "expected the name of a class in UTF-8, got byte 0xFF at offset 0" in done.stderr
    done = cogwheel("compare", "--task", "images", "--images", b"linked\xff", "--attention", "softmax", "--out", "never")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "task.images: expected text in UTF-8, got byte 0xFF" in done.stderr
    (work / "alone/only").mkdir(parents=True)
    for number in range(3):
        shutil.copy(work / f"pictures/dark/{number}.png", work / "alone/only")
    done = cogwheel("train", "images.toml", "--images", "alone", "--out", "never")
    assert (done.returncode, done.stderr) == (1, "cogwheel: alone: expected images of two classes at least, got only only\n")
    assert not (work / "never").exists()


def test_evaluation_shows_what_was_learned(cogwheel, trained):
    for name in ("images", "diffusion"):
        done = cogwheel("evaluate", trained[name])
        assert done.returncode == 0, done.stderr
        page = (trained[name] / "evaluation.html").read_text()
        assert page.count("data:image/png;base64,") == 24
        assert ("By class" if name == "images" else "Whether the asked shape was drawn") in page


def test_losses_by_time_are_parts_of_the_held_out_loss(trained):
    evaluation = json.loads((trained["diffusion"] / "evaluation.json").read_text())
    (table,) = (table for table in evaluation["tables"] if table["title"] == "Held-out loss by time")
    assert [row[0] for row in table["rows"]] == ["0.0 to 0.2", "0.2 to 0.4", "0.4 to 0.6", "0.6 to 0.8", "0.8 to 1.0"]
    images, losses = ([float(row[column]) for row in table["rows"]] for column in (1, 2))
    assert sum(images) == evaluation["evaluated_tokens"] and max(images) - min(images) <= 2
    mean = sum(count * loss for count, loss in zip(images, losses)) / sum(images)
    assert mean == pytest.approx(evaluation["measures"]["held_out_loss"], abs=1e-4)


def test_classifies_pictures(cogwheel, trained):
    done = cogwheel("sample", trained["pictures"], "--input", "pictures/dark")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 12 and lines[0].split()[0] == "0.png"
    assert {"dark", "light"} == {word for word in lines[0].split() if word.isalpha()}


def test_generates_images_that_a_seed_repeats(cogwheel, trained, work):
    def draw(name, *words):
        done = cogwheel("sample", trained["diffusion"], "--count", 4, "--sampler-steps", 3, "--out", name, *words)
        assert done.returncode == 0, done.stderr
        return (work / name).read_bytes()

    first = draw("a.png", "--seed", 5)
    assert size_of_png(work / "a.png") == (34, 34)
    assert draw("b.png", "--seed", 5) == first
    others = [
        draw("c.png", "--seed", 6),
        draw("d.png", "--seed", 5, "--class", "red square"),
        draw("e.png", "--seed", 5, "--guidance", 3),
        draw("f.png", "--seed", 5, "--sampler", "ddim", "--eta", 1),
        draw("g.png", "--seed", 5, "--interpolate"),
        draw("h.png", "--seed", 5, "--unclipped"),
    ]
    assert len({first, *others}) == 7
    done = cogwheel("sample", trained["diffusion"], "--count", 3, "--sampler-steps", 2, "--out", "many")
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (work / "many").iterdir()) == ["00000.png", "00001.png", "00002.png", "grid.png"]
    assert cogwheel("sample", trained["diffusion"], "--count", 2, "--sampler-steps", 2).returncode == 0
    assert (trained["diffusion"] / "samples.png").exists()


def test_images_do_not_depend_on_how_many_are_drawn(cogwheel, trained, work):
    for name, count in (("few", 2), ("more", 5)):
        words = ["--count", count, "--class", "red square", "--sampler", "ddpm", "--sampler-steps", 3]
        done = cogwheel("sample", trained["diffusion"], *words, "--out", f"{name}.safetensors")
        assert done.returncode == 0, done.stderr
    few, more = (read_tensors(work / f"{name}.safetensors")["images"] for name in ("few", "more"))
    assert few.shape == (2, 3, 16, 16)
    torch.testing.assert_close(more[:2], few, rtol=1e-4, atol=1e-4)


def test_measures_drawn_images_as_a_whole(cogwheel, trained):
    words = ["--samples", 20, "--sampler-steps", 2, "--classifier-steps", 3]
    done = cogwheel("evaluate", trained["diffusion"], *words)
    assert done.returncode == 0, done.stderr
    assert (trained["diffusion"] / "classifier.safetensors").exists()
    page = (trained["diffusion"] / "evaluation.html").read_text()
    assert "classifier distance" in page and "SHA-256" in page
    assert "fewer" in page  # samples than features
    assert "by 2 steps of dpm_solver, seed" in page and "--samples 20 --sampler-steps 2 --classifier-steps 3" in page
    again = cogwheel("evaluate", trained["diffusion"], *words[:4])
    assert again.returncode == 0 and "training a classifier" not in again.stderr
    anew = cogwheel("evaluate", trained["diffusion"], *words[:4], "--classifier-steps", 4)
    assert anew.returncode == 0 and "training a classifier" in anew.stderr
    distance = re.search(r"classifier distance.*?class=\"[^\"]*num[^\"]*\">([0-9.]+)", page, re.DOTALL)
    assert distance and float(distance[1]) > 0
    refused = cogwheel("evaluate", trained["images"], "--samples", 20)
    assert refused.returncode == 2 and "--samples" in refused.stderr
    refused = cogwheel("evaluate", trained["diffusion"], "--samples", 20, "--inception", "images.toml")
    assert refused.returncode == 1 and "images.toml" in refused.stderr


def test_pictures_beside_each_other_are_measured_as_one_alone(cogwheel, trained, work):
    settings = [word for each in ("samples=20", "sampler_steps=2", "classifier_steps=3", "seed=5") for word in ("--set", each)]
    done = cogwheel("inspect", "pictures", trained["diffusion"], trained["unconditional"], *settings, "--out", "beside")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((work / "beside/results.json").read_text())["numbers"]
    assert found["name"] == "classifier_distance" and found["values"][0] != found["values"][1]
    for run, value in zip(("diffusion", "unconditional"), found["values"], strict=True):
        # Their data differ by the condition, so each has its own classifier, of as many steps.
        alone = cogwheel("evaluate", trained[run], "--samples", 20, "--sampler-steps", 2, "--seed", 5, "--out", "alone")
        assert alone.returncode == 0 and "training a classifier" not in alone.stderr, alone.stderr
        tables = json.loads((work / "alone/evaluation.json").read_text())["tables"]
        (cells,) = [row for table in tables for row in table["rows"] if row[0] == "classifier distance"]
        assert float(cells[1]) == pytest.approx(value, rel=1e-3)
    page = (work / "beside/report.html").read_text()
    assert page.count("diffusion-run: ") >= 1 and "unconditional-run: " in page and "no FID" in page
    refused = cogwheel("inspect", "pictures", trained["images"], "--out", "refused")
    assert refused.returncode == 2 and "expected a run that draws images, got one of the task images" in refused.stderr


def test_captions_say_what_is_drawn(cogwheel, work):
    (work / "words.toml").write_text(
        '[task]\nname = "masked_words"\ntoy = "captions"\n'
        "[model]\nwidth = 16\nheads = 2\nlayers = 1\ncontext = 24\n[training]\nsteps = 3\nbatch = 4\nevaluate_every = 0\n"
    )
    done = cogwheel("train", "words.toml", "--out", "words-run")
    assert done.returncode == 0, done.stderr
    words = ["--set", "task.condition=context", "--set", f"task.encoder={work / 'words-run'}", "--set", "training.steps=3"]
    done = cogwheel("train", "diffusion.toml", *words, "--set", "task.prediction=velocity", "--out", "captions-run")
    assert done.returncode == 0, done.stderr
    drawn = []
    for prompt in ("a red circle", "a blue square"):
        words = ["--prompt", prompt, "--count", 2, "--sampler-steps", 2, "--guidance", 1, "--out", "prompt.png"]
        done = cogwheel("sample", "captions-run", *words)
        assert done.returncode == 0, done.stderr
        drawn.append((work / "prompt.png").read_bytes())
    assert drawn[0] != drawn[1]
    done = cogwheel("evaluate", "captions-run")
    assert done.returncode == 0 and "Whether the asked shape was drawn" in (work / "captions-run/evaluation.html").read_text()

    (work / "lines.txt").write_text("a red circle\na large blue square\n")
    done = cogwheel("embed", "words-run", "--input", "lines.txt", "--tokens", 16, "--out", "lines.safetensors")
    assert done.returncode == 0, done.stderr
    contexts = read_tensors(work / "lines.safetensors")["contexts"]
    assert contexts.shape == (2, 16, 16) and contexts[0, 10:].abs().max() == 0
    assert torch.equal(contexts[:, 0], read_tensors(work / "lines.safetensors")["vectors"])
    done = cogwheel("sample", "captions-run", "--context", "lines.safetensors", "--count", 2, "--out", "context.png")
    assert done.returncode == 0, done.stderr
    refused = cogwheel("embed", "images-run", "--prompt", "a", "--out", "x.safetensors")
    assert refused.returncode == 1 and "a run of the task sentences or masked_words" in refused.stderr


def test_latents_and_contexts_of_a_file(cogwheel, work):
    torch.manual_seed(1)
    tensors = {"images": torch.randn(40, 4, 8, 8), "contexts": torch.randn(40, 3, 5)}
    write_tensors(tensors, work / "latents.safetensors")
    words = ["--images", "latents.safetensors", "--set", "task.size=0", "--set", "task.condition=context"]
    done = cogwheel("train", "diffusion.toml", *words, "--out", "latents-run")
    assert done.returncode == 0, done.stderr
    assert "condition_width = 5" in (work / "latents-run/config.toml").read_text()
    write_tensors({"contexts": tensors["contexts"][:2]}, work / "contexts.safetensors")
    words = ["--context", "contexts.safetensors", "--count", 3, "--sampler-steps", 2]
    done = cogwheel("sample", "latents-run", *words, "--out", "drawn.safetensors")
    assert done.returncode == 0, done.stderr
    done = cogwheel("sample", "latents-run", *words)
    assert done.returncode == 2 and "a .safetensors file for images of 4 channels" in done.stderr


@pytest.mark.parametrize("task", ["images", "diffusion"])
def test_resumes_bit_for_bit(cogwheel, cogwheel_executable, work, task):
    words = [f"{task}.toml", "--set", "training.steps=12", "--set", "task.crop_padding=2", "--set", "model.dropout=0.1"]
    expect_resumes_bit_for_bit(cogwheel, cogwheel_executable, work, words, task)


@pytest.mark.parametrize(("task", "layers"), [("images", 1), ("diffusion", 3)])
def test_compares_mechanisms(cogwheel, work, task, layers):
    done = cogwheel(
        "compare", "--task", task, "--preset", task, "--attention", "softmax,cog,polynomial", "--seeds", 2,
        "--steps", 2, "--set", f"model.layers={layers}", "--set", "model.width=16", "--set", "model.heads=2",
        "--out", f"compared-{task}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads((work / f"compared-{task}/results.json").read_text())
    assert results["task"]["measures"][0]["name"] == ("accuracy" if task == "images" else "held_out_loss")
    assert len(results["runs"]) == 6
    report = (work / f"compared-{task}/report.html").read_text()
    assert '"whole":true' in report and "data:image/png;base64," in report


@pytest.mark.parametrize(("task", "images"), [("images", "pictures"), ("diffusion", "cifar")])
def test_continues_a_comparison_on_files(cogwheel, work, task, images):
    done = cogwheel(
        "compare", "--task", task, "--images", images, "--attention", "softmax", "--seeds", 1, "--steps", 1,
        "--out", f"files-{task}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expect_continues(cogwheel, work / f"files-{task}", "cog", f"--images {images}")


@pytest.mark.parametrize(
    ("task", "words", "code", "said"),
    [
        ("images", ["--images", "nowhere"], 1, "nowhere"),
        ("images", ["--images", "broken.bin", "--set", "task.size=0"], 1, "3,073"),
        ("images", ["--images", "cifar"], 2, "task.size"),
        ("images", ["--images", "images.toml", "--set", "task.size=0"], 1, "images.toml"),
        ("images", ["--set", "model.patch=5"], 2, "model.patch"),
        ("images", ["--set", "model.image_size=24"], 2, "model.image_size"),
        ("images", ["--set", "model.vocabulary=4"], 2, "model.vocabulary"),
        ("images", ["--set", "model.mechanism=gla"], 2, "has a state"),
        ("images", ["--set", "model.pooling=max"], 2, "model.pooling"),
        ("images", ["--set", "task.condition=class"], 2, "condition"),
        ("images", ["--strokes", "pictures"], 2, "strokes"),
        ("diffusion", ["--set", "model.layers=4"], 2, "odd number"),
        ("diffusion", ["--set", "task.condition=context"], 2, "task.condition"),
        ("diffusion", ["--set", "task.guidance=2"], 2, "task.guidance"),
        ("diffusion", ["--set", "task.schedule=cosine"], 2, "task.schedule"),
        ("diffusion", ["--set", "task.prediction=speed"], 2, "task.prediction"),
        ("diffusion", ["--set", "task.flip=3"], 2, "true or false"),
        ("images", ["--set", "task.crop_padding=17"], 2, "crop padding"),
    ],
)
def test_train_refuses_in_one_line(cogwheel, work, task, words, code, said):
    done = cogwheel("train", f"{task}.toml", "--out", "refused", *words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert said in line and "expected" in line, line
    assert not (work / "refused").exists()


@pytest.mark.parametrize(
    ("run", "words", "code", "said"),
    [
        ("diffusion", ["--class", "red cirle"], 2, "red circle"),
        ("diffusion", ["--context", "images.toml"], 2, "--context"),
        ("diffusion", ["--count", "0"], 2, "--count"),
        ("diffusion", ["--sampler-steps", "0"], 2, "--sampler-steps"),
        ("diffusion", ["--sampler", "euler"], 2, "--sampler"),
        ("diffusion", ["--prompt", "cat"], 2, "--prompt"),
        ("diffusion", ["--eta", "0.5"], 2, "--sampler ddim"),
        ("diffusion", ["--interpolate", "--count", "1"], 2, "--interpolate"),
        ("diffusion", ["--out", "shapes.jpg"], 2, "shapes.jpg"),
        ("diffusion", ["--out", "pictures"], 2, "empty folder"),
        ("diffusion", ["--out", "diffusion-run/checkpoint.safetensors"], 2, "a place of its own"),
        ("unconditional", ["--guidance", "2"], 2, "without a condition"),
        ("pictures", ["--prompt", "cat"], 2, "--prompt"),
        ("pictures", ["--input", "images.toml"], 1, "images.toml"),
        ("pictures", ["--input", "nowhere.png"], 1, "nowhere.png"),
        ("pictures", [], 2, "--input"),
        ("pictures", ["--count", "2"], 2, "--count"),
    ],
)
def test_sample_refuses_in_one_line(cogwheel, trained, run, words, code, said):
    done = cogwheel("sample", trained[run], *words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert said in line and "expected" in line, line


def test_a_finished_run_survives_what_is_refused(cogwheel, trained, work):
    before = (trained["images"] / "checkpoint.safetensors").read_bytes()
    done = cogwheel("train", "images.toml", "--set", "task.crop_padding=17", "--out", "images-run", "--overwrite")
    assert done.returncode == 2 and (trained["images"] / "checkpoint.safetensors").read_bytes() == before


def test_trains_on_bytes_in_safetensors(cogwheel, work):
    pixels = torch.arange(40 * 3 * 16 * 16).remainder(251).to(torch.uint8).view(40, 3, 16, 16)
    write_tensors({"images": pixels, "labels": torch.arange(40) % 2}, work / "bytes.safetensors")
    done = cogwheel("train", "images.toml", "--images", "bytes.safetensors", "--set", "task.size=0",
                    "--set", "task.flip=true", "--out", "bytes")  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_latents_are_neither_pictures_nor_clipped(cogwheel, work):
    write_tensors({"images": 4 * torch.randn(40, 3, 16, 16)}, work / "latents.safetensors")
    done = cogwheel("train", "diffusion.toml", "--images", "latents.safetensors", "--set", "task.size=0", "--out", "latents")
    assert done.returncode == 0, done.stderr
    refused = cogwheel("sample", "latents", "--count", "2")
    assert refused.returncode == 2 and "latents, which are no pictures" in refused.stderr
    done = cogwheel("sample", "latents", "--count", "4", "--sampler-steps", "5", "--out", "drawn.safetensors")
    assert done.returncode == 0, done.stderr
    assert read_tensors(work / "drawn.safetensors")["images"].abs().max() > 1
    late = cogwheel("train", "diffusion.toml", "--images", "latents.safetensors", "--set", "task.size=0",
                    "--set", "task.flip=true", "--out", "flipped")  # fmt: skip
    assert late.returncode == 2 and "none of latents" in late.stderr and not (work / "flipped").exists()


def test_a_velocity_is_told_as_noise(cogwheel, cogwheel_executable, work):
    done = cogwheel("train", "diffusion.toml", "--set", "task.prediction=velocity", "--out", "velocity")
    assert done.returncode == 0, done.stderr
    refused = cogwheel("export", "velocity", "--out", "exported")
    assert refused.returncode == 1 and "task.prediction noise" in refused.stderr and not (work / "exported").exists()
    shutil.copytree(work / "velocity", work / "as-noise")
    config = (work / "as-noise/config.toml").read_text()
    (work / "as-noise/config.toml").write_text(config.replace('prediction = "velocity"', 'prediction = "noise"'))
    torch.manual_seed(1)
    x, t = torch.randn(3, 3, 16, 16), torch.tensor([0.05, 0.4, 0.9])
    log_alpha = -0.25 * t**2 * (20 - 0.1) - 0.5 * t * 0.1
    alpha, sigma = (part.view(-1, 1, 1, 1) for part in (log_alpha.exp(), (1 - (2 * log_alpha).exp()).sqrt()))
    with torch.no_grad():
        told, network = (package.load(work / name)(x, 999 * t) for name in ("velocity", "as-noise"))
    assert (told - (sigma * x + alpha * network)).abs().max() < 1e-4


def test_another_encoder_is_told(cogwheel, work):
    (work / "words.toml").write_text(
        '[task]\nname = "masked_words"\ntoy = "captions"\n[model]\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 16\n'
        "[training]\nsteps = 2\nbatch = 4\n"
    )
    train = ["train", "words.toml", "--out", "words"]
    assert cogwheel(*train).returncode == 0
    words = ["--set", "task.condition=context", "--set", "task.encoder=words", "--set", "task.caption_tokens=8"]
    done = cogwheel("train", "diffusion.toml", *words, "--out", "told")
    assert done.returncode == 0, done.stderr
    draw = ["sample", "told", "--prompt", "a red circle", "--count", "1", "--sampler-steps", "2", "--out", "told.png"]
    assert cogwheel(*draw).returncode == 0
    nothing = {"contexts": torch.full((1, 8, 16), math.nan)}
    write_tensors(nothing, work / "nothing.safetensors")
    refused = cogwheel("sample", "told", "--context", "nothing.safetensors", "--count", "1", "--out", "none.png")
    assert refused.returncode == 1 and "finite numbers" in refused.stderr
    assert cogwheel(*train, "--overwrite", "--set", "training.seed=2").returncode == 0
    for command in (draw, ["evaluate", "told"]):
        refused = cogwheel(*command)
        assert refused.returncode == 1 and "the encoder that the run learned with" in refused.stderr, refused.stderr


def test_what_was_drawn_stays_when_drawing_is_interrupted(cogwheel_executable, trained, work):
    (work / "precious.png").write_bytes(b"precious")
    command = [str(cogwheel_executable), "sample", "diffusion-run", "--count", "100000", "--out", "precious.png"]
    process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0 and (work / "precious.png").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--samples", "1"], "--samples"),
        (["--samples", "-5"], "--samples"),
        (["--sampler-steps", "0", "--samples", "4"], "--sampler-steps"),
        (["--sampler", "ddim"], "--samples with it"),
        (["--classifier-steps", "5"], "--samples with it"),
        (["--samples", "4", "--references", "images.toml"], "images.toml"),
    ],
)
def test_evaluate_refuses_before_it_draws(cogwheel, trained, words, said):
    done = cogwheel("evaluate", "diffusion-run", *words)
    assert done.returncode != 0 and said in done.stderr.splitlines()[-1], done.stderr
    assert "drawing images" not in done.stderr


def test_references_are_read_before_anything_takes_long(cogwheel, work, trained):
    """Neither training of the classifier nor drawing comes before a file that is refused."""
    shutil.copytree(trained["diffusion"], work / "measured", ignore=shutil.ignore_patterns("classifier*", "evaluation*"))
    words = ["evaluate", "measured", "--samples", "2", "--sampler-steps", "1", "--classifier-steps", "2", "--references", "moments.safetensors"]
    write_tensors({"mu": torch.zeros(3)}, work / "moments.safetensors")
    done = cogwheel(*words)
    assert done.returncode == 1 and "moments.safetensors: expected" in done.stderr and "classifier" not in done.stderr, done.stderr
    write_tensors({"mu": torch.zeros(3, dtype=torch.float64), "sigma": torch.eye(3, dtype=torch.float64)}, work / "moments.safetensors")
    done = cogwheel(*words)
    assert re.search(r"moments.safetensors: expected \d+ features, as of the samples, got 3", done.stderr), done.stderr
    assert "drawing images" not in done.stderr
