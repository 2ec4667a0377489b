"""Whether the record of a comparison is enough to go on from it."""

import json


def expect_continues(cogwheel, folder, mechanism, *flags):
    """Adds a mechanism to the comparison in the folder, whose command names its data by the flags."""
    command = json.loads((folder / "results.json").read_text())["command"]
    assert all(f" {flag} " in command for flag in flags) and "--tokenizer" not in command, command
    added = cogwheel("compare", "--add", mechanism, folder)
    assert added.returncode == 0, added.stderr
    assert mechanism in [run["mechanism"] for run in json.loads((folder / "results.json").read_text())["runs"]]
