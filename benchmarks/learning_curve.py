"""
What the programs of each training step are worth on the hidden rows that training did not see, for a picture of learning.

    python benchmarks/learning_curve.py

Runs the valid programs of the finished runs of `benchmarks/pretrained_training.py` once more, in `completions/`, and estimates the best of
8 of each step's 16: chosen by the score that training saw, and scored on the other rows. The lines of `learning.jsonl` are drawn by
`python docs/_build/learning.py`.
"""

import argparse
import json
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from paired import read

from trl_mle.competitions import load_competition
from trl_mle.evaluation import best_of_k
from trl_mle.execution import LocalExecutor
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import MLEReward


def of_run(run: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The best of 8 of each step, and the chance that one of them is valid."""
    task = load_competition(run["competition"], holdout=0.5)
    with LocalExecutor(max_parallel=1, timeout_s=30, memory_mb=4096) as executor:
        reward = MLEReward([task], executor, AstInstrumenter(), show_progress=False)
        evaluate = cache(lambda answer: reward.evaluate(answer, task))
        points = []
        for path in sorted(folder.glob("completions/*.parquet")):
            scores, reported = [], []
            for messages, score in pd.read_parquet(path)[["completion", "score"]].itertuples(index=False):
                found = evaluate(messages[0]["content"]).score if pd.notna(score) else None
                if found is not None and abs(found.value - score) > 1e-4:
                    raise ValueError(f"{path}: {score} in training is {found.value} now")
                scores.append(found and found.value)
                reported.append(found and found.held_out)
            points += best_of_k(scores, [8], task.higher_is_better, reported=reported, resamples=0)
    figures = {"best of 8": [point.score for point in points], "any valid": [point.valid_rate for point in points]}
    return {key: run[key] for key in ("competition", "arm", "seed", "reward")} | figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark-pretrained-training"))
    args = parser.parse_args()
    path = args.output / "learning.jsonl"
    done = [(line["competition"], line["arm"], line["seed"]) for line in read(path)]
    for run in read(args.output / "runs.jsonl"):
        name = run["competition"], run["arm"], run["seed"]
        folder = args.output / "{}-{}-{}".format(name[0].rpartition(":")[2], *name[1:])
        if name not in done and len(list(folder.glob("completions/*.parquet"))) == len(run["reward"]):
            with path.open("a") as file:
                file.write(json.dumps(of_run(run, folder)) + "\n")
            print(*name, flush=True)


if __name__ == "__main__":
    main()
