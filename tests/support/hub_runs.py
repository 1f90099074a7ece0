"""
`hub_runs.py REQUESTS RESULTS` runs the training script several times in one process, because imports take longer than
the runs. REQUESTS has a list of `{"arguments": [...], "token": "..."}`, RESULTS gets exit codes and stderr.
"""

import contextlib
import io
import json
import os
import runpy
import signal
import sys
from pathlib import Path


SCRIPT = str(Path(__file__).parents[2] / "recipes" / "train_mle.py")


def run(arguments, token):
    sys.argv = [SCRIPT, *arguments]
    os.environ.pop("HF_TOKEN", None)
    if token is not None:
        os.environ["HF_TOKEN"] = token
    errors, code = io.StringIO(), 0
    with contextlib.redirect_stderr(errors):
        try:
            runpy.run_path(SCRIPT, run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return code, errors.getvalue()


if __name__ == "__main__":
    requests, results = map(Path, sys.argv[1:])
    results.write_text(json.dumps([run(**options) for options in json.loads(requests.read_text())]))
