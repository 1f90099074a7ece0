"""Output folders as training leaves them, written by the same classes; only the programs are not run."""

import json
import random

from trl_mle.competitions import Score, load_competition
from trl_mle.instrumentation import MILESTONES
from trl_mle.rewards import BestSolutions, Evaluation, ExecutionLog
from trl_mle.solutions.pool import Solution, SolutionPool
from trl_mle.trainer.batch import Completion
from trl_mle.trainer.program_metrics import program_metrics


ERRORS = (
    "FileNotFoundError: [Errno 2] No such file or directory: 'data/{}.csv'",
    "ValueError: could not convert string to float: 'x{}'",
    "KeyError: 'column_{}'",
)
PROGRAM = "import pandas as pd\nmodel = Forest(n_estimators={})\nmodel.fit(X, y)\n"


def make_run(
    folder, seed=0, steps=10, programs=16, competitions=("wine",), finished=True, improve=True, holdout=False
):
    """
    Writes a run whose policy gets better.

    Args:
        folder (`Path`):
            Output folder.
        seed (`int`, *optional*, defaults to `0`):
            Runs with different seeds differ.
        steps (`int`, *optional*, defaults to `10`):
            Training steps.
        programs (`int`, *optional*, defaults to `16`):
            Programs per step.
        competitions (`tuple[str, ...]`, *optional*, defaults to `("wine",)`):
            Competitions that are solved in turn.
        finished (`bool`, *optional*, defaults to `True`):
            Whether there is a checkpoint; otherwise only the files that are written while programs run.
        improve (`bool`, *optional*, defaults to `True`):
            Whether there are improve prompts.
        holdout (`bool`, *optional*, defaults to `False`):
            Whether rows are held out; programs score worse on them.
    """
    rng = random.Random(seed)
    loaded = [load_competition(name) for name in competitions]
    log, best = ExecutionLog(folder / "executions" / "rank-0.jsonl"), BestSolutions(folder / "best_solutions")
    pool = SolutionPool({comp.id: comp for comp in loaded})
    history = []
    for step in range(1, steps + 1):
        skill = step / steps
        rows = []
        for i in range(programs):
            comp = loaded[i % len(loaded)]
            kind = "improve" if improve and step > 2 and i % 4 == 0 else "scratch"
            valid = rng.random() < 0.2 + 0.6 * skill
            score = round(0.4 + 0.5 * skill + 0.1 * rng.random(), 5) if valid else None
            reached = MILESTONES if valid and rng.random() < 0.9 else MILESTONES[: rng.randrange(5)]
            outcome = "ok" if valid else rng.choice(["error"] * 5 + ["timeout", "ok", "out_of_memory"])
            detail = "" if valid else rng.choice(ERRORS).format(rng.randrange(9)) if outcome == "error" else ""
            row = {
                "competition": comp.id, "outcome": outcome, "duration_s": 0.1 + 3 * skill * rng.random(),
                "milestones": list(reached), "score": score, "prompt_kind": kind,
            }  # fmt: skip
            rows.append(row)
            source = PROGRAM.format(rng.randrange(10_000))
            others = (
                {"held_out": score - 0.2, "full": score - 0.1}
                if holdout and valid
                else {"held_out": None, "full": score}
            )
            log.append(
                source, **others, reused=False, detail=detail, cpu_s=0.1, max_rss_mb=80.0, exit_code=0, queue_wait_s=0.0, slot=0,
                reward=score if valid else -10 + 0.1 * len(reached), **{k: v for k, v in row.items() if k != "prompt_kind"},
            )  # fmt: skip
            if valid:
                ranked = pool.ranked(comp.id)
                parent = ranked[0].id if kind == "improve" and ranked else None
                pool.observe([Solution(comp.id, source, "out", score, step, parent)])
                best.offer(comp, source, b"id\n", score, **(others if holdout else {}))
        metrics = {
            "step": step,
            "step_time": 2.0,
            "reward": sum(-10 if r["score"] is None else r["score"] for r in rows) / len(rows),
        }
        metrics |= {f"mle/{key}": value for key, value in _metrics(rows).items()}
        for kind in {row["prompt_kind"] for row in rows} if improve else ():
            found = _metrics([row for row in rows if row["prompt_kind"] == kind])
            metrics |= {f"mle/{kind}/{key}": value for key, value in found.items()}
        if improve and step > 2:
            metrics["mle/improve/beats_parent_rate"] = rng.random() / 2
            metrics["mle/improve/beats_parent_chance"] = rng.random() / 4
        if step > 1:  # not known for the first step
            seconds = {"training": 4.0, "sync": 0.5, "generation_wait": 1.0, "wait": 2.0 * rng.random()}
            seconds |= {"generation": 5.0 + rng.random(), "execution": 6.0 - 3 * skill}
            metrics |= {f"mle/async/{name}_s": value for name, value in seconds.items()}
        history.append(metrics)
    if finished:
        checkpoint = folder / f"checkpoint-{steps}"
        checkpoint.mkdir()
        state = {"generation": steps, "solutions": pool.state_dict()}
        (checkpoint / "solution_pool.json").write_text(json.dumps(state))
        (checkpoint / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    log.close()
    return folder


def _metrics(rows):
    mean = sum(row["duration_s"] for row in rows) / len(rows)
    completions = [
        Completion(
            row["competition"], row["prompt_kind"], None, None,
            Evaluation(
                None, row["duration_s"], None if row["score"] is None else Score(row["score"], True), row["outcome"],
                tuple(row["milestones"]),
            ),
            weight=row["duration_s"] / mean,
        )
        for row in rows
    ]  # fmt: skip
    return program_metrics(completions, higher_is_better=True, instrumented=True)
