"""Generated rows in the columns that the hub has of seven tasks, and tasks of one's own in lm-eval's YAML."""

import json
import random

WORDS = "the quick brown fox jumps over the lazy dog and a cat sat on the mat while old men sold cold gold in bold folds".split()

CLOZE = """
task: cloze
dataset_path: json
test_split: test
output_type: loglikelihood
doc_to_text: "{{text}}"
doc_to_target: "{{last}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
  - metric: perplexity
    aggregation: perplexity
    higher_is_better: false
"""

ROLLING = """
task: rolling
dataset_path: json
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list:
  - metric: word_perplexity
    aggregation: weighted_perplexity
    higher_is_better: false
  - metric: bits_per_byte
    aggregation: bits_per_byte
    higher_is_better: false
"""

GENERATED = """
task: generated
dataset_path: json
test_split: test
output_type: generate_until
doc_to_text: "{{text}}"
doc_to_target: "{{last}}"
generation_kwargs:
  until: [" the", "."]
  max_gen_toks: 12
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""


def some_words(draw, count):
    return " ".join(draw.choices(WORDS, k=count))


def rows_of(task, count, seed):
    """As the hub names and types them."""
    draw = random.Random(f"{task} {seed}")
    for _ in range(count):
        words = lambda least, most: some_words(draw, draw.randint(least, most))  # noqa: E731
        if task.startswith("arc"):
            choices = draw.choice((3, 4, 4, 5))
            labels = draw.choice(("ABCDE", "12345"))[:choices]
            yield {"id": str(draw.random()), "question": words(5, 12), "choices": {"text": [words(1, 4) for _ in labels], "label": list(labels)}, "answerKey": draw.choice(labels)}
        elif task == "piqa":
            yield {"goal": words(4, 9), "sol1": words(3, 8), "sol2": words(3, 8), "label": draw.randint(0, 1)}
        elif task == "social_iqa":
            answers = {f"answer{letter}": words(1, 4) for letter in "ABC"}
            yield {"context": words(5, 9), "question": words(3, 6), **answers, "label": str(draw.randint(1, 3))}
        elif task == "mrpc":
            yield {"sentence1": words(5, 9), "sentence2": words(5, 9), "label": draw.randint(0, 1), "idx": 0}
        elif task == "sst2":
            yield {"idx": 0, "sentence": words(4, 12), "label": draw.randint(0, 1)}
        elif task == "mnli":
            yield {"premise": words(5, 9), "hypothesis": words(4, 8) + draw.choice(("", ".")), "label": draw.randint(0, 2), "idx": 0}


# By task: the split on which it is evaluated.
SPLITS = {"arc_easy": "test", "arc_challenge": "test", "piqa": "validation", "social_iqa": "validation", "mrpc": "validation", "sst2": "validation", "mnli": "validation_matched"}  # fmt: skip


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_named_tasks(folder, count):
    """Files of all seven, one of them in parquet."""
    for task, split in SPLITS.items():
        ending = "parquet" if task == "mrpc" else "jsonl"
        write_rows(folder / task / f"{split}.{ending}", rows_of(task, count, split))
        write_rows(folder / task / f"train.{ending}", rows_of(task, 5, "train"))


def write_own_tasks(folder, data, count):
    """A cloze, texts of which the first are longer than a context, and what a model generates."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random("own")
    for name, yaml in (("cloze", CLOZE), ("rolling", ROLLING), ("generated", GENERATED)):
        (folder / f"{name}.yaml").write_text(yaml)
        rows = [{"text": some_words(draw, 60 if name == "rolling" and place < 2 else draw.randint(2, 9)), "last": " " + draw.choice(WORDS)} for place in range(count)]
        if name == "rolling":
            rows.append({"text": rows[0]["text"][:63], "last": ""})
        write_rows(data / name / "test.jsonl", rows)
