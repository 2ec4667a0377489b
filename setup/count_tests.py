"""Adds up JUnit files: prints a table of suites, the failed tests by name, and the total on the last line.

usage: count_tests.py SUITE=FILE[+FOLDER]...

FOLDER holds GoogleTest's reports, <name>.xml, of executables that ctest runs as a whole: their tests are counted, not
the executable. A suite without a readable file counts as one failure: it ended before it could report. The exit status is 1
on any failure.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcomes(path, folder=None):
    """(name, "passed", "failed" or "skipped") of every test of one JUnit file."""
    found = []
    for case in ElementTree.parse(path).iter("testcase"):
        name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
        # ctest marks a test that could not run only by its status; GoogleTest uses another element for a skipped one.
        if case.find("failure") is not None or case.find("error") is not None or case.get("status") == "fail":
            outcome = "failed"
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            outcome = "skipped"
        else:
            outcome = "passed"
        within = folder / f"{case.get('name')}.xml" if folder else None
        if within is None or not within.is_file():
            found.append((name, outcome))
            continue
        tests = outcomes(within)
        found += tests
        if outcome == "failed" and all(each != "failed" for _, each in tests):
            found.append((f"{name} itself", "failed"))
    return found


def main():
    totals = [0, 0, 0]
    for argument in sys.argv[1:]:
        suite, path = argument.split("=", 1)
        path, _, folder = path.partition("+")
        try:
            tests = outcomes(pathlib.Path(path), pathlib.Path(folder) if folder else None)
        except (OSError, ElementTree.ParseError):
            tests = [(f"{suite} itself: it ended without a report", "failed")]
        if not tests:
            tests = [(f"{suite} itself: it found no tests", "failed")]
        numbers = [sum(outcome == each for _, outcome in tests) for each in ("passed", "failed", "skipped")]
        totals = [total + number for total, number in zip(totals, numbers)]
        print("  {:<8} {:>5} passed, {} failed, {} skipped".format(suite, *numbers))
        for name, outcome in tests:
            if outcome == "failed":
                print(f"    failed: {name}")
    print()
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
