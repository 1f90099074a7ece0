"""Programs of the starter's grammar, run in this process."""

import contextlib
import random
import re
from dataclasses import replace

from trl_mle.prompts import extract_code
from trl_mle.starter.grammar import Sketcher


QUICK = ("a small tree", "naive Bayes", "logistic regression", "least squares", "ridge regression")


def score(program, comp, folder):
    """Runs a program in this process (it is our own) and grades its submission; `None` if it fails."""
    folder.mkdir()
    (folder / "input").symlink_to(comp.public_dir)
    with contextlib.chdir(folder), contextlib.suppress(Exception):
        exec(compile(program, "solution.py", "exec"), {})
    submission = folder / "submission.csv"
    return comp.grade(submission).value if submission.exists() else None


def quick_programs(competition, n, part=None, has="", seed=1):
    """Programs without slips that fit one quick model once: on a task and its `part`, if given, and with the text `has`."""
    sketcher = Sketcher(competition, random.Random(seed), slip_rate=0)
    if part is not None:
        sketcher.tasks = [replace(part[0], parts=part[1:])]
    programs = []
    while len(programs) < n:
        completion = sketcher.sketch()
        slow = re.search("GridSearchCV|cross_val_score", completion)
        if re.match(rf"Plan: \w+ ({'|'.join(QUICK)}) on ", completion) and has in completion and not slow:
            programs.append(extract_code(completion))
    return programs
