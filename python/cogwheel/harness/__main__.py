"""What the executable asks for scores: REQUEST and ANSWER are files, both JSON (``cogwheel/compare/harness``).

The environment that keeps what lm-eval imports off the network is the executable's to set, for these packages read it once.
"""

import json
import logging
import os
import pathlib
import sys

import cogwheel
from cogwheel.harness.problems import said


def main(request: pathlib.Path, answer: pathlib.Path) -> None:
    given = json.loads(request.read_text(encoding="utf-8"))
    # What lm-eval prints is no answer, and what it warns of is decided here.
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    logging.getLogger("datasets").setLevel(logging.ERROR)
    sys.stdout = open(os.devnull, "w")
    try:
        from cogwheel.harness.scores import scores

        for definition in given["definitions"]:
            cogwheel.mechanism(**definition)
        for header in given["mechanism_files"]:
            cogwheel.load_mechanism(header)
        found = scores(given)
    except Exception as error:  # one line, whatever lm-eval and a task's own functions raise
        found = {"problem": said(error)}
    answer.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
