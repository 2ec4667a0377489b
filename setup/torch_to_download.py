"""Prints which torch pip would install, from pip's report on standard input: "<version> cuda" or "<version> cpu"."""

import json
import sys

for package in json.load(sys.stdin)["install"]:
    metadata = package["metadata"]
    if metadata["name"] == "torch":
        # A CUDA build requires NVIDIA's libraries as packages.
        needs_cuda = any(name.startswith(("nvidia-", "cuda-")) for name in metadata.get("requires_dist", []))
        print(metadata["version"], "cuda" if needs_cuda else "cpu")
