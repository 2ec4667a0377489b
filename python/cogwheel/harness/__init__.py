"""Scores of tasks by lm-eval, the LM Evaluation Harness: what ``cogwheel evaluate --harness`` runs.

    model = cogwheel.harness.HarnessModel("runs/latest")
    lm_eval.simple_evaluate(model, tasks=["my_task"], task_manager=lm_eval.tasks.TaskManager(include_path="my-tasks"))

``pip install 'cogwheel[evaluate]'`` brings lm-eval, without which importing this is an ImportError.
"""

import importlib.metadata

_oldest = (0, 4, 13)  # as pyproject.toml has it: older ones lack modules that are used here


def _expect_lm_eval() -> None:
    wanted = f"lm-eval {'.'.join(map(str, _oldest))} or newer, which `pip install 'cogwheel[evaluate]'` installs"
    try:
        found = importlib.metadata.version("lm-eval")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    numbers = [int(part) if part.isdigit() else 0 for part in found.split(".")]
    if numbers < list(_oldest):
        raise ImportError(f"cogwheel.harness: expected {wanted}, got {found}")


_expect_lm_eval()

from cogwheel.harness.model import HarnessModel  # noqa: E402

__all__ = ["HarnessModel"]
