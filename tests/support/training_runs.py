"""Output folders as training leaves them, written by the same classes; only the programs are not run."""

import json
import random
from statistics import fmean

from trl_mle.competitions import Score, load_competition
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards import BestSolutions, Evaluation, ProgramLog
from trl_mle.solutions.pool import Solution, SolutionPool
from trl_mle.trainer.batch import Completion
from trl_mle.trainer.program_metrics import program_metrics


ERRORS = (
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/{}.csv'",
    "ValueError: could not convert string to float: 'x{}'",
    "KeyError: 'column_{}'",
)
PROGRAM = "import pandas as pd\nmodel = Forest(n_estimators={})\nmodel.fit(X, y)\n"


def make_run(folder, steps=10, programs=16, competitions=("wine",), finished=True, holdout=False):
    """
    Writes a run whose policy gets better, on competitions that are solved in turn. A run that is not `finished` has no
    metrics; with `holdout` programs score worse on the rows held out.
    """
    rng = random.Random(0)
    loaded = [load_competition(name) for name in competitions]
    log, best = ProgramLog(folder / "executions" / "rank-0.jsonl"), BestSolutions(folder / "best_solutions")
    pool = SolutionPool({comp.id: comp for comp in loaded})
    history = []
    for step in range(1, steps + 1):
        skill = step / steps
        rows = []
        for i in range(programs):
            comp = loaded[i % len(loaded)]
            kind = "improve" if step > 2 and i % 4 == 0 else "scratch"
            valid = rng.random() < 0.2 + 0.6 * skill
            score = round(0.4 + 0.5 * skill + 0.1 * rng.random(), 5) if valid else None
            reached = MILESTONES if valid and rng.random() < 0.9 else MILESTONES[: rng.randrange(5)]
            outcome = "ok" if valid else rng.choice(["error"] * 5 + ["timeout", "ok", "out_of_memory"])
            detail = "" if valid else rng.choice(ERRORS).format(rng.randrange(9)) if outcome == "error" else ""
            seconds = 0.1 + 3 * skill * rng.random()
            source = PROGRAM.format(rng.randrange(10_000))
            others = {"held_out": score - 0.2, "full": score - 0.1} if holdout and valid else {}
            evaluation = Evaluation(
                score if valid else -10 + 0.1 * len(reached), seconds, Score(score, True, **others) if valid else None, outcome,
                tuple(reached), detail=detail, cpu_s=0.1, queue_wait_s=0.0, reused=False,
            )  # fmt: skip
            rows.append((comp.id, kind, evaluation))
            log.append(comp.id, evaluation)
            if valid:
                ranked = pool.ranked(comp.id)
                parent = ranked[0].id if kind == "improve" and ranked else None
                pool.observe([Solution(comp.id, source, "out", score, step, parent)])
                best.offer(comp, source, b"id\n", evaluation.score)
        metrics = {"step": step, "step_time": 2.0, "reward": fmean(evaluation.reward for _, _, evaluation in rows)}
        for kind in ("", "scratch", "improve"):
            of_kind = [row for row in rows if kind in row[1]]
            metrics |= {f"mle/{kind}/{key}".replace("//", "/"): value for key, value in _metrics(of_kind).items()}
        if step > 2:
            metrics["mle/improve/beats_parent_rate"] = rng.random() / 2
        history.append(metrics)
    if finished:
        (folder / "metrics.jsonl").write_text("".join(json.dumps(metrics) + "\n" for metrics in history))
    return folder


def _metrics(rows):
    completions = [Completion(*row[:2], None, None, row[2], weight=1.0) for row in rows]
    return program_metrics(completions, higher_is_better=True, instrumented=True)
