"""The wheel's requirement of torch, for pyproject.toml: the very release that the operators are built with.

C++ libraries of torch fit one release only. In an isolated build torch is not among the importable packages, but it is
what cmake/FindTorchWheel.cmake finds, and so does this: in the environment itself.
"""

import subprocess
import sys


def dynamic_metadata(field: str, settings: dict | None = None, project: dict | None = None) -> list[str]:
    if field != "dependencies":
        raise ValueError(f"torch_requirement: field: expected dependencies, got {field}")
    find = "import importlib.metadata; print(importlib.metadata.version('torch'))"
    found = subprocess.run([sys.executable, "-I", "-c", find], capture_output=True, text=True)
    if found.returncode != 0:
        raise RuntimeError(f"torch: expected in the environment of {sys.executable}, got none; install torch first")
    return [f"torch=={found.stdout.strip().split('+')[0]}"]
