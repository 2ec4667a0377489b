"""Several experiments at once: the index of what was found, and the list of what there is."""

import json
import re


def test_all_of_a_source_give_an_index(cogwheel_in, tmp_path):
    """Of labs that take no time: those that a folder has as they are asked for are not run again, one of another request is, and one without a
    result does not end the others."""
    slow = ["alignment", "copy", "forerunners", "handwriting", "hopfield", "jacobian", "key-value", "length", "linear-attention", "local-noise", "memory", "score-cost", "superposition", "transformer"]
    for name in slow:
        folder = tmp_path / "s2" / "s2" / name
        folder.mkdir(parents=True)
        (folder / ".cogwheel").write_text("reproduction\n")
        asked = {"seeds": 1, "steps": 3 if name == "jacobian" else 2} if name in {"alignment", "copy", "handwriting", "jacobian", "key-value", "length"} else {}
        (folder / "request.json").write_text(json.dumps({"experiment": f"s2/{name}", "scale": "desk", "seeds": 0, "steps": 0, "minutes": 0,
                                                         "text": [], "corpus": [], "set": [], **asked}))
        (folder / "results.json").write_text(json.dumps({
            "schema": 2, "experiment": f"s2/{name}", "section": "Section", "question": "?", "answer": "So it is.", "created": "2026-11-26T00:00:00Z", "seconds": 1,
            "findings": [{"what": f"finding of {name}", "whose": "a bound of ours" if name == "copy" else "the lecture's number", "relation": "above", "expected": 0, "agrees": name != "copy", "ours": 1.5},
                         {"what": f"draws of {name}", "relation": "above", "expected": 0, "agrees": None, "verdict": "cannot tell", "ours": 1.5,
                          "interval": 2.25, "p": 0.3}],
        }))  # fmt: skip
    (tmp_path / "s2/.cogwheel").write_text("reproductions\n")
    (tmp_path / "s2/s2/length/results.json").write_text("{}")
    done = cogwheel_in(tmp_path)("reproduce", "s2", "--out", "s2", "--models", "models", "--steps", 2, "--seeds", 1)
    assert done.returncode == 1
    text = (tmp_path / "s2/sources.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("| s2/")]
    verdicts = [line.rsplit("|", 2)[1].strip() for line in lines[: text.split("## Experiments")[0].count("\n| s2/")]]
    assert verdicts == sorted(verdicts, key=["contradicts", "cannot tell", "agrees"].index)  # what disagrees comes first
    assert any("finding of copy" in line and "contradicts" in line for line in lines) and {"contradicts", "cannot tell", "agrees"} <= set(verdicts)
    assert "| s2/hopfield | draws of hopfield | the source's | above 0 | 1.5 ± 2.25 | cannot tell |" in lines
    assert any("| s2/copy | finding of copy | ours |" in line for line in lines) and re.search(r"experiments, \d+ of them our own: ", text)
    assert not any("finding of jacobian" in line for line in lines) and any("| s2/jacobian |" in line for line in lines)
    assert sum("| s2/capacity |" in line for line in lines) >= 3
    assert any("s2/length" in line and "no result: " in line for line in lines)
    assert "What the sources claim, and what was found" in (tmp_path / "s2/report.html").read_text()


def test_the_list_says_what_each_experiment_answers_and_needs(cogwheel_in, tmp_path):
    def listed():
        lines = cogwheel_in(tmp_path)("list", "experiments").stdout.splitlines()
        return {line.split()[0]: line for line in lines}

    lines = listed()
    assert lines["name"].split() == ["name", "run", "by", "answers", "minutes", "state", "summary"]
    assert lines["s1/convergence"].split()[:5] == ["s1/convergence", "reproduce", "S1-45", "60", "ready"]
    assert " S1-16…22 " in lines["s1/ioi"] and " S1-9…10, S1-13 " in lines["s1/phi"]
    assert " needs tinyshakespeare.txt " in lines["nanogpt-shakespeare"] and " needs cifar10, a GPU " in lines["u-vit-cifar10"]
    (tmp_path / "tinyshakespeare.txt").touch()
    (tmp_path / "cifar10").mkdir()
    lines = listed()
    assert " ready " in lines["nanogpt-shakespeare"] and " needs a GPU " in lines["u-vit-cifar10"]
