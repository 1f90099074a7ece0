"""Programs of the starter's grammar, run in this process."""

import contextlib
import random

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


def quick_programs(competition, n):
    sketcher = Sketcher(competition, random.Random(1), slip_rate=0)
    programs = []
    while len(programs) < n:
        program = extract_code(sketcher.sketch())
        slow = sketcher.choices["partner"] or sketcher.choices.get("tuning") or sketcher.choices["check"]
        if sketcher.choices["estimator"] in QUICK and not slow:
            programs.append(program)
    return programs
