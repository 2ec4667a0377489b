"""Models of other programs, which are themselves as runs here, and back."""

import json
import struct

import pytest
import small_runs
import torch
from foreign_models import Bert, Vit
from pictures import png
from small_runs import expect_close, normal, whole
from tensor_files import read_tensors, write_tensors

import cogwheel


@pytest.fixture(scope="module")
def program(cogwheel_executable, tmp_path_factory):
    return small_runs.Program(cogwheel_executable, tmp_path_factory.mktemp("foreign"))


def test_a_foreign_vit_is_itself_here_and_back(program):
    vit = Vit()
    for number, name in enumerate(vit.weights):  # each type that files may hold
        vit.weights[name] = vit.weights[name].to([torch.float32, torch.float16, torch.bfloat16][number % 3])
    there, run, back = (program.work / f"vit-{place}" for place in ("there", "run", "back"))
    vit.write(there)
    said = program("import", there, "--out", run).stdout
    assert "ViTForImageClassification" in said and "a run of the task images" in said
    vit.weights = {name: tensor.float() for name, tensor in vit.weights.items()}
    images = normal(2, 3, 16, 16)
    expect_close(cogwheel.load(run)(images), vit.logits(images))

    for key, said in (("nonsense=1", "got nonsense"), ("sentences=a.tsv", "got sentences"), ("size=x", "task.size")):
        done = program("import", there, "--set", f"task.{key}", "--out", program.work / "never", fails=True)
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    program("import", there, "--set", "task.size=16", "--set", "training.batch=8", "--out", "sized")

    # Measured on images whose labels are numbers of classes; training on is refused.
    for classes in (5, 6):
        labelled = {"images": normal(40, 3, 16, 16), "labels": torch.arange(40) % classes}
        write_tensors(labelled, program.work / f"{classes}.safetensors")
    done = program("import", there, "--images", "6.safetensors", "--out", program.work / "never", fails=True)
    assert "6.safetensors: classes: expected classes of the model: class 0, class 1" in done.stderr
    done = program("import", there, "--images", "5.safetensors", "--out", "measured")
    assert "note: 5.safetensors: the numbers that the data call classes by are taken as places" in done.stderr
    program("evaluate", "measured")
    evaluation = json.loads((program.work / "measured/evaluation.json").read_text())
    assert evaluation["steps"] is None and evaluation["seed"] is None
    assert "imported weights" in (program.work / "measured/evaluation.html").read_text()
    assert json.loads((program.work / "measured/evaluation.json").read_text())
    assert "expected a checkpoint of a training run, got weights alone" in program("resume", "measured", fails=True).stderr

    program("export", run, "--out", back)
    exported = read_tensors(back / "model.safetensors")
    assert exported.keys() == vit.weights.keys()
    assert all(torch.equal(exported[name], tensor) for name, tensor in vit.weights.items())
    written = json.loads((back / "config.json").read_text())
    assert {key: written[key] for key in vit.config} == vit.config
    assert "expected a new or empty folder" in program("export", run, "--out", back, fails=True).stderr


def test_weights_in_parts(program):
    """As transformers writes models that one file would not hold: an index, and the files that it names."""
    vit = Vit()
    whole_folder, there = program.work / "vit-whole", program.work / "vit-parts"
    vit.write(whole_folder)
    vit.write(there)
    (there / "model.safetensors").unlink()
    parts = {f"model-0000{part}-of-00003.safetensors": sorted(vit.weights)[part - 1 :: 3] for part in (1, 2, 3)}
    for name, tensors in parts.items():
        write_tensors({tensor: vit.weights[tensor] for tensor in tensors}, there / name)
    size = sum(4 * tensor.numel() for tensor in vit.weights.values())
    index = {"metadata": {"total_size": size}, "weight_map": {tensor: name for name, tensors in parts.items() for tensor in tensors}}
    file = there / "model.safetensors.index.json"

    def imported(**changed):
        file.write_text(json.dumps(index | changed))
        return program("import", there, "--out", "parts", "--overwrite", fails=bool(changed)).stderr

    imported()
    program("import", whole_folder, "--out", "whole")
    assert all(torch.equal(tensor, read_tensors(program.work / "whole/checkpoint.safetensors")[name])
               for name, tensor in read_tensors(program.work / "parts/checkpoint.safetensors").items())  # fmt: skip

    map, first = index["weight_map"], sorted(vit.weights)[0]
    assert "index.json: weight_map: expected an object of names" in imported(weight_map=3)
    said = imported(weight_map=map | {first: "../vit-whole/model.safetensors"})
    assert f"index.json: weight_map: {first}: expected the name of a file beside it" in said
    said = imported(weight_map=map | {first: "model-00003-of-00003.safetensors"})
    assert f"model-00001-of-00003.safetensors: expected the tensors of its index, got another, {first}" in said
    said = imported(weight_map=map | {"more": "model-00001-of-00003.safetensors"})
    assert "model-00001-of-00003.safetensors: expected more, as its index says, got no such tensor" in said
    said = imported(weight_map=map | {"more": "model-00004-of-00003.safetensors"})
    assert "model-00004-of-00003.safetensors" in said and said.count("\n") == 1
    said = imported(weight_map={tensor: part for tensor, part in map.items() if tensor != first})
    assert f"expected the tensors of its index, got another, {first}" in said
    assert "index.json: metadata: expected an object, got 3" in imported(metadata=3)
    said = imported(metadata={"total_size": size + 4})
    assert f"index.json: metadata: total_size: expected {size}, the bytes of its tensors, got {size + 4}" in said
    said = imported(weight_map=map | {"a\nb": "model-00001-of-00003.safetensors"})
    assert 'index.json: expected names of tensors without control characters, got "a\\nb"' in said and said.count("\n") == 1
    file.unlink()
    said = program("import", there, "--out", "parts", "--overwrite", fails=True).stderr
    assert "expected model.safetensors, or parts with model.safetensors.index.json, got neither" in said


def test_classes_of_one_name_are_exported(program):
    """As the two cranes of ImageNet: numbers have names, and names no numbers."""
    vit = Vit()
    vit.config["id2label"] = {"0": "crane", "1": "ant", "2": "crane", "3": "bee", "4": "owl"}
    vit.write(program.work / "cranes")
    program("import", "cranes", "--out", "cranes-run")
    program("export", "cranes-run", "--out", "cranes-back")
    written = json.loads((program.work / "cranes-back/config.json").read_text())
    assert written["id2label"] == vit.config["id2label"] and "label2id" not in written


def test_imported_runs_are_not_resumed(program):
    """Whatever the task would want first, such as a vocabulary or images."""
    for name, foreign in (("vit", Vit()), ("bert", Bert(True)), ("words", Bert(False))):
        foreign.write(program.work / f"resumed-{name}")
        program("import", f"resumed-{name}", "--out", f"resumed-{name}-run")
        said = program("resume", f"resumed-{name}-run", fails=True).stderr
        assert "checkpoint.safetensors: expected a checkpoint of a training run, got weights alone" in said
        assert said.count("\n") == 1


@pytest.mark.parametrize("classes", [False, True])
def test_a_foreign_bert_is_itself_here(program, classes):
    bert = Bert(classes)
    there, run = (program.work / f"bert-{classes}-{place}" for place in ("there", "run"))
    bert.write(there)
    program("import", there, "--out", run)
    model, tokens, segments = cogwheel.load(run), whole(20, 2, 7), whole(2, 2, 7)
    expect_close(model(tokens, segments), bert.logits(tokens, segments))
    # What lies behind the end of a sequence is not seen.
    lengths = torch.tensor([4, 7])
    short = model(tokens, segments, lengths)[0].detach()
    alone = bert.logits(tokens[:1, :4], segments[:1, :4])[0]
    expect_close(short if classes else short[:4], alone)


def permuted(foreign, folder):
    """The same model, whose classes stand in another order."""
    names = list(foreign.config["id2label"].values())
    order = [*range(1, len(names)), 0]
    weights, config = dict(foreign.weights), dict(foreign.config)
    for part in ("weight", "bias"):
        foreign.weights[f"classifier.{part}"] = weights[f"classifier.{part}"][order].clone()
    foreign.config["id2label"] = {str(place): names[label] for place, label in enumerate(order)}
    foreign.write(folder)
    foreign.weights, foreign.config = weights, config


def accuracy(program, run):
    program("evaluate", run)
    return json.loads((program.work / run / "evaluation.json").read_text())["measures"]["accuracy"]


def test_a_classifier_of_sentences_is_scored_by_the_names_of_its_classes(program):
    bert = Bert(True)
    texts = [" ".join(f"{a}{b}c"[:3]) for a in "abcdefghij" for b in "abcdefghij"]
    rows = torch.tensor([[2, *(5 + ord(word) - ord("a") for word in text.split()), 3] for text in texts])
    logits = bert.logits(rows, torch.zeros_like(rows))
    bert.weights["classifier.bias"] -= logits.mean(0)  # so that no class takes all
    labels = bert.logits(rows, torch.zeros_like(rows)).argmax(-1).tolist()
    assert len(set(labels)) == 3
    names = list(bert.config["id2label"].values())
    for name, said in (("named", names), ("upper", [each.upper() for each in names]), ("other", ["x", "y", "z"])):
        lines = [f"{text}\t{said[label]}" for text, label in zip(texts, labels, strict=True)]
        (program.work / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    bert.write(program.work / "bert-in-order")
    permuted(bert, program.work / "bert-permuted")
    for order in ("in-order", "permuted"):
        for name in ("named", "upper"):
            run, data = f"bert-run-{order}-{name}", f"task.sentences={name}.tsv"
            program("import", f"bert-{order}", "--set", data, "--out", run)
            assert accuracy(program, run) == 1
    done = program("import", "bert-permuted", "--set", "task.sentences=other.tsv", "--out", "never", fails=True)
    assert done.stderr.count("\n") == 1 and not (program.work / "never").exists()
    assert "other.tsv: labels: expected classes of the model: class 1, class 2, class 0, got x" in done.stderr


def test_a_classifier_of_images_is_scored_by_the_names_of_its_classes(program):
    vit = Vit()
    pictures = torch.randint(0, 256, (60, 16, 16, 3), generator=torch.Generator().manual_seed(3), dtype=torch.uint8)
    images = pictures.permute(0, 3, 1, 2) * (2 / 255) - 1
    vit.weights["classifier.bias"] -= vit.logits(images).mean(0)
    labels = vit.logits(images).argmax(-1).tolist()
    assert len(set(labels)) == 5
    for number, label in enumerate(labels):
        folder = program.work / "by-class" / f"class_{label}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.png").write_bytes(png(pictures[number].numpy().tobytes(), 16))
    permuted(vit, program.work / "vit-permuted")
    for number, words in enumerate((["--images", "by-class"], ["--set", "task.images=by-class"])):
        program("import", "vit-permuted", *words, "--out", f"vit-run-{number}")
        assert accuracy(program, f"vit-run-{number}") == 1


def test_what_the_command_line_refuses(program):
    config = small_runs.TRAIN.format(task="images", data="size = 16", mechanism="cog", layers=3, width=32, model="patch = 4")
    vision_run = program.train("vision", config)
    vit, there, never = Vit(), program.work / "refused", program.work / "never"
    vit.write(there)
    done = program("import", there, "--set", "model.heads=4", "--out", never, fails=True)
    assert done.returncode == 2 and "import: --set: expected a key of the task" in done.stderr
    (there / "config.json").write_text(json.dumps({**vit.config, "hidden_act": "relu"}))
    done = program("import", there, "--out", never, fails=True)
    assert done.returncode == 1 and 'hidden_act: expected "gelu"' in done.stderr and done.stderr.count("\n") == 1
    done = program("export", vision_run, "--out", never, fails=True)
    assert done.returncode == 1
    assert "expected softmax, the only attention of ViTForImageClassification, got cog" in done.stderr
    assert not never.exists()


def bert_in_parts(program, name):
    """A run of some size, and its export in parts."""
    bert = Bert(True)
    bert.write(program.work / f"{name}-there")
    program("import", f"{name}-there", "--out", f"{name}-run")
    program("export", f"{name}-run", "--out", f"{name}-back", "--shard-bytes", "20000")
    return bert, program.work / f"{name}-back"


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_parts_and_types_are_exported_as_the_package_reads_them(program):
    safetensors = pytest.importorskip("safetensors.torch")
    bert, back = bert_in_parts(program, "parts-out")
    index = json.loads((back / "model.safetensors.index.json").read_text())
    files = sorted(file.name for file in back.glob("model-*"))
    assert sorted(set(index["weight_map"].values())) == files and files[0] == f"model-00001-of-{len(files):05}.safetensors" and len(files) >= 3
    read = {name: tensor for file in files for name, tensor in safetensors.load_file(back / file).items()}
    assert index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in read.values())
    assert read.keys() == bert.weights.keys() == index["weight_map"].keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in bert.weights.items())
    program("import", "parts-out-back", "--out", "parts-out-again")
    again, first = (read_tensors(program.work / f"parts-out-{run}/checkpoint.safetensors") for run in ("again", "run"))
    assert all(torch.equal(again[name], tensor) for name, tensor in first.items())

    for dtype, kind in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        program("export", "parts-out-run", "--out", "parts-out-back", "--dtype", dtype, "--overwrite")
        assert not list(back.glob("model-*")) and not (back / "model.safetensors.index.json").exists()
        read = safetensors.load_file(back / "model.safetensors")
        assert all(torch.equal(read[name], tensor.to(kind)) for name, tensor in bert.weights.items())
        assert json.loads((back / "config.json").read_text())["torch_dtype"] == str(kind).removeprefix("torch.")
    assert "--shard-bytes: expected at least 1" in program("export", "parts-out-run", "--out", "x", "--shard-bytes", "0", fails=True).stderr
    assert "dtype: expected one of fp32, bf16, fp16, got int4" in program("export", "parts-out-run", "--out", "x", "--dtype", "int4", fails=True).stderr


def test_a_disk_that_fills_leaves_the_older_export_whole(program):
    """Of whatever size a file may be, the export fails in one line, and neither it nor an import leaves half of anything."""
    _, back = bert_in_parts(program, "full")
    before = contents(back)
    size = max(len(file) for file in before.values())
    for limit in (100, size - 1):
        options = {"file_bytes": limit, "fails": True}
        done = program("export", "full-run", "--out", "full-back", "--overwrite", "--shard-bytes", "20000", **options)
        assert "expected a file that can be written, got File too large" in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert contents(back) == before
        done = program("export", "full-run", "--out", f"full-{limit}", "--shard-bytes", "20000", **options)
        assert [file.name for file in (program.work / f"full-{limit}").iterdir()] == [".cogwheel"]
        done = program("import", "full-back", "--out", f"full-in-{limit}", **options)
        assert done.stderr.count("\n") == 1 and not (program.work / f"full-in-{limit}/checkpoint.safetensors").exists()
    program("export", "full-run", "--out", "full-100", "--overwrite")


def test_damaged_folders_are_refused_in_one_line(program):
    bert, back = bert_in_parts(program, "bad")
    first = sorted(back.glob("model-*"))[0]
    whole, config = first.read_bytes(), json.loads((back / "config.json").read_text())
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    name, entry = next((name, entry) for name, entry in header.items() if name != "__metadata__")

    def refused(*expected):
        done = program("import", "bad-back", "--out", "bad-never", fails=True)
        assert all(text in done.stderr for text in expected) and done.stderr.count("\n") == 1, done.stderr
        assert not (program.work / "bad-never").exists()

    def with_header(changed, numbers=whole[8 + length :]):
        text = json.dumps(changed).encode()
        first.write_bytes(struct.pack("<Q", len(text)) + text + numbers)

    first.write_bytes(struct.pack("<Q", 1 << 62) + whole[8:])
    refused(first.name, f"a header of {1 << 62} bytes in a file of {len(whole)}")
    with_header(header | {name: entry | {"data_offsets": [0, 1 << 60], "shape": [1 << 58]}})
    refused(first.name, "an impossible offsets")
    with_header(header | {"again": entry})
    refused(first.name, "of the numbers instead of")
    with_header(header | {name: entry | {"dtype": "F4"}})
    refused(first.name, "an impossible type F4")
    first.write_bytes(whole[: len(whole) // 2])
    refused(first.name)
    first.write_bytes(b"\x80\x02}q\x00.")
    refused(first.name, "expected a safetensors file, got a pickle")
    first.unlink()
    refused(first.name, "No such file or directory")
    first.write_bytes(whole)
    for changed, text in (({"architectures": ["GPT9"]}, "architectures: expected one of"), ({"architectures": None}, "expected a list of one name, got none"),
                          ({"hidden_size": 1 << 20}, "expected"), ({"num_hidden_layers": 10_000}, "no such tensor")):  # fmt: skip
        (back / "config.json").write_text(json.dumps(config | changed))
        refused(text)
    (back / "config.json").unlink()
    refused("config.json: expected a file that can be read, got No such file or directory")
