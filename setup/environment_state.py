"""Prints what an environment holds that Cogwheel needs, as shell words.

usage: environment_state.py REPOSITORY PACKAGE...

Looks at metadata only: importing torch would take seconds on every start.
"""

import importlib.metadata
import json
import pathlib
import shlex
import sys
import urllib.parse
import urllib.request


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def installed_from(package):
    """The folder of an editable installation, or None."""
    try:
        text = importlib.metadata.distribution(package).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return None
    if not text:
        return None
    url = urllib.parse.urlparse(json.loads(text)["url"])
    return pathlib.Path(urllib.request.url2pathname(url.path)).resolve()


repository = pathlib.Path(sys.argv[1]).resolve()
torch = version("torch")
release = tuple(int(part) for part in torch.split("+")[0].split(".")[:2]) if torch else ()

for name, value in {
    "torch_version": torch,
    "torch_is_new_enough": "yes" if release >= (2, 11) else "",
    "missing_python": " ".join(package for package in sys.argv[2:] if not version(package)),
    "cogwheel_installed": "yes" if installed_from("cogwheel") == repository else "",
    "environment_bin": str(pathlib.Path(sys.executable).parent),
}.items():
    print(f"{name}={shlex.quote(value)}")
