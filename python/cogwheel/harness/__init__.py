"""Scores of tasks by lm-eval, the LM Evaluation Harness: what ``cogwheel evaluate --harness`` runs.

    model = cogwheel.harness.HarnessModel("runs/latest")
    lm_eval.simple_evaluate(model, tasks=["arc_easy"])

``pip install 'cogwheel[evaluate]'`` brings lm-eval, without which importing this is an ImportError.
"""

try:
    import lm_eval  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"cogwheel.harness: expected Python's lm-eval, which `pip install lm-eval` installs, got no module {error.name}") from None

from cogwheel.harness.model import HarnessModel

__all__ = ["HarnessModel"]
