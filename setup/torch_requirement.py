"""The wheel's requirement of torch, for pyproject.toml: exactly the release that the operators are built with.

The C++ libraries of torch are compatible with one release only. In an isolated build torch cannot be imported, so
this looks in the environment itself, as cmake/FindTorchWheel.cmake does.
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
