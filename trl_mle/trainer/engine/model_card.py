"""What a run's model card says beside TRL's text."""

import json
from pathlib import Path
from typing import Any

from transformers import TrainerState

from trl_mle.competitions import Competition, TaskSet
from trl_mle.competitions.task_set import FEW
from trl_mle.showing import for_markdown, markdown_code, metric_in_words, number


BODY = """\
# {name}

{base_model}, trained by reinforcement learning to write programs that solve competitions on Kaggle.

> [!WARNING]
> This model writes programs, and it was rewarded for their scores, not for being harmless. Run what it writes in a
> sandbox: {command} does so, and keeps the best.

## Results

{results}

Programs sampled in training: those logged first are the policy's before training, those logged last its last. One run,
seed {seed}. Scores are those of valid submissions on the rows that training sees; the best of the run was chosen on these,
and is scored on held-out rows where there are any.

"""
HEADS = ("competition", "when", "programs", "valid", "mean score", "best score", "best of the run")


def results_table(tasks: TaskSet, state: TrainerState, output_dir: Path) -> str:
    """The programs of the first and of the last logged step, by competition; many competitions are one row."""
    batches = [entry for entry in state.log_history if "reward" in entry]
    if not batches or not tasks:
        return "No step has been logged yet."
    rows = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    if len(tasks) > FEW:
        rows += _rows(f"{len(tasks):,} together", "mle", batches)
    else:
        for competition in map(tasks.__getitem__, tasks):
            prefix = f"mle/{competition.slug}" if len(tasks) > 1 else "mle"
            best = _best_of_run(competition, output_dir)
            rows += _rows(_in_a_cell(competition), prefix, batches, best)
    return "\n".join(rows)


def _rows(name: str, prefix: str, batches: list[dict[str, Any]], best: float | None = None) -> list[str]:
    batches = [entry for entry in batches if f"{prefix}/programs" in entry] or batches  # not each asks for each
    rows = []
    for when, entry, best_so_far in (("before", batches[0], None), ("after", batches[-1], best)):
        # Programs that were shown a solution have it easier
        source = "mle/scratch" if prefix == "mle" and "mle/scratch/valid_rate" in entry else prefix
        valid = entry.get(f"{source}/valid_rate")
        scores = [entry.get(f"{source}/score/{key}") for key in ("mean", "best")]
        cells = [name, f"{when}, step {entry['step']}", f"{entry.get(f'{source}/programs') or 0:.0f}"]
        cells.append("–" if valid is None else f"{valid:.0%}")
        cells += ["–" if score is None else number(score, 4) for score in (*scores, best_so_far)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _in_a_cell(competition: Competition) -> str:
    arrow = "↑" if competition.higher_is_better else "↓"
    code = markdown_code(competition.id).replace("|", "\\|")  # a cell ends there, in code, too
    return f"{code} ({for_markdown(metric_in_words(competition.metric))} {arrow})"


def _best_of_run(competition: Competition, output_dir: Path) -> float | None:
    path = output_dir / "best_solutions" / competition.slug / "score.json"
    if not path.is_file():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    return record.get("held_out", record["score"])
