"""BLEU and chrF of translations, by sacrebleu, with 95 % intervals of its bootstrap.

The executable runs the text of this file by itself, without the package: `python -c TEXT FILE` prints the scores as JSON.
"""

import json
import statistics
import sys
import types

RESAMPLES = 1000


def scored(metric, hypotheses, references):
    """A metric's score of a corpus with its interval: {"score", "low", "high", "signature"}."""
    score = metric.corpus_score(hypotheses, [references], n_bootstrap=RESAMPLES)
    told = json.loads(score.format(width=4, signature=metric.get_signature().format(), is_json=True))
    mean, half_width = told.get("confidence_mean", 0.0), told.get("confidence_var", 0.0)  # left out where the mean is 0
    return {"score": score.score, "low": mean - half_width, "high": mean + half_width, "signature": told["signature"]}


def translation_scores(references, hypotheses, groups=()):
    """Of all sentences, and BLEU of each group: {"bleu", "chrf", "groups"}. A group is a list of indices."""
    import sacrebleu.metrics.base
    from sacrebleu.metrics import BLEU, CHRF

    # Resamples without a match score Python's 0.0 and others NumPy's floats (2.6.0), a mixture that statistics.mean refuses.
    sacrebleu.metrics.base.statistics = types.SimpleNamespace(mean=statistics.fmean)

    def of(sentences, group):
        return [sentences[index] for index in group]

    return {
        "bleu": scored(BLEU(), hypotheses, references),
        "chrf": scored(CHRF(), hypotheses, references),
        "groups": [scored(BLEU(), of(hypotheses, group), of(references, group)) for group in groups],
    }


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        given = json.load(file)
    try:
        result = translation_scores(**given)
    except ModuleNotFoundError as error:
        result = {"missing": error.name, "python": sys.executable}
    print(json.dumps(result))
