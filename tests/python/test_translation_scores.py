"""The program that scores translations by sacrebleu."""

import json
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "python/cogwheel/translation_scores.py"
REFERENCES = ["the cat sat on a mat today", "The dog runs in a park now", "two men were here with hats"] * 4
HYPOTHESES = ["the cat sat on the mat today", "the dog runs in the park now", ""] * 4


def answer(tmp_path, *options, **given):
    file = tmp_path / "given.json"
    file.write_text(json.dumps(given))
    run = subprocess.run([sys.executable, *options, "-c", SCRIPT.read_text(), file], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def test_scores_are_those_of_sacrebleu(tmp_path):
    sacrebleu = pytest.importorskip("sacrebleu")
    told = answer(tmp_path, references=REFERENCES, hypotheses=HYPOTHESES, groups=[[0, 3], [1, 4, 7]])
    assert told == answer(tmp_path, references=REFERENCES, hypotheses=HYPOTHESES, groups=[[0, 3], [1, 4, 7]])
    assert told["bleu"]["score"] == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score)
    assert told["chrf"]["score"] == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert "case:mixed" in told["bleu"]["signature"] and "tok:13a" in told["bleu"]["signature"]
    assert "|bs:1000|" in told["bleu"]["signature"]
    first, second = told["groups"]
    assert first["score"] == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES[:1] * 2, [REFERENCES[:1] * 2]).score)
    assert second["score"] == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES[1:2] * 3, [REFERENCES[1:2] * 3]).score)
    assert first["low"] == pytest.approx(first["high"])  # every sentence is the same
    assert told["bleu"]["low"] < told["bleu"]["score"] < told["bleu"]["high"]


def test_translations_without_a_match_have_scores_too(tmp_path):
    pytest.importorskip("sacrebleu")
    some = answer(tmp_path, references=["the cat sat", "a dog"], hypotheses=["the cat sat", "x"])  # some resamples score 0
    assert some["chrf"]["low"] < some["chrf"]["score"] < some["chrf"]["high"]
    none = answer(tmp_path, references=REFERENCES, hypotheses=[""] * 12, groups=[[0]])
    for each in (none["bleu"], none["chrf"], none["groups"][0]):
        assert (each["score"], each["low"], each["high"]) == (0, 0, 0)


def test_says_what_is_missing(tmp_path):
    # Without the packages of the environment.
    told = answer(tmp_path, "-I", "-S", references=["a"], hypotheses=["a"])
    assert told == {"missing": "sacrebleu", "python": sys.executable}
