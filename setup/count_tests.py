"""Adds up JUnit files: a table of suites, the failed tests by name, and the sum alone on the last line.

usage: count_tests.py SUITE=FILE...

A suite without a readable file counts as one failure: it died before it could report. Exit status 1 on any failure.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count(path):
    """(passed, failed, skipped, names of the failed) of one JUnit file."""
    passed = skipped = 0
    failed_names = []
    for case in ElementTree.parse(path).iter("testcase"):
        # ctest marks a test that could not run by its status alone.
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            failed_names.append(".".join(filter(None, [case.get("classname"), case.get("name")])))
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, len(failed_names), skipped, failed_names


def main():
    totals = [0, 0, 0]
    for argument in sys.argv[1:]:
        suite, path = argument.split("=", 1)
        try:
            *numbers, failed_names = count(pathlib.Path(path))
        except (OSError, ElementTree.ParseError):
            numbers, failed_names = [0, 1, 0], [f"{suite} itself: it ended without a report"]
        if sum(numbers) == 0:
            numbers, failed_names = [0, 1, 0], [f"{suite} itself: it found no tests"]
        totals = [total + number for total, number in zip(totals, numbers)]
        print("  {:<8} {:>5} passed, {} failed, {} skipped".format(suite, *numbers))
        for name in failed_names:
            print(f"    failed: {name}")
    print()
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
