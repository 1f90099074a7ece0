"""Pushes to the Hub, and the model card: TRL's, with a table of the run's results."""

import shlex
import textwrap
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

from huggingface_hub import HfApi, ModelCard
from transformers import TrainerState
from trl.trainer.utils import get_config_model_id

from trl_mle.competitions import TaskSet
from trl_mle.competitions.task_set import FEW
from trl_mle.rewards.progress import ARGUMENTS_FILE
from trl_mle.showing import for_markdown, markdown_code, metric_in_words, number
from trl_mle.solutions import BestSolutions


# Folders with the record of the programs, which are only pushed to a separate repository
ROLLOUT_FOLDERS = ("best_solutions", "evaluations", "executions")
NOT_PUSHED = [*(f"{folder}/" for folder in (*ROLLOUT_FOLDERS, "completions", "report")), ARGUMENTS_FILE, ".lock"]

PAPER = {
    "title": "Reinforcement Learning for Machine Learning Engineering Agents",
    "id": "2509.01684",
    # docstyle-ignore
    "citation": textwrap.dedent("""\
        @inproceedings{yang2026reinforcement,
            title        = {{Reinforcement Learning for Machine Learning Engineering Agents}},
            author       = {Yang, Sherry and He-Yueya, Joy and Liang, Percy},
            booktitle    = {International Conference on Learning Representations},
            year         = 2026,
            eprint       = {arXiv:2509.01684},
        }"""),
}
CARD = """\
# {name}

{base_model}, trained by reinforcement learning to write programs that solve competitions on Kaggle. It was rewarded
for their scores, not for being harmless: run what it writes in a sandbox, as {command} does.

## Results

{results}

Programs sampled in training, seed {seed}; scores of the valid ones on the validation rows, the best of the run on
held-out rows where there are any.

"""
HEADS = ("competition", "when", "programs", "valid", "mean score", "best score", "best of the run")


def prepare_repo(args: Any, repo_id: str, token: str | None) -> None:
    """Keeps the record of the programs out of the model's repository, and creates the branch to which pushes go."""
    path = Path(args.output_dir or "", ".gitignore")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(NOT_PUSHED) + "\n")
    if args.hub_revision is not None:  # pushes go there, and do not make it
        HfApi().create_branch(repo_id, branch=args.hub_revision, token=token or args.hub_token, exist_ok=True)


def complete_card(trainer: Any, model_name: str | None) -> None:
    """Replaces the quick start of TRL's model card by what the model is for, and its results."""
    output_dir = Path(trainer.args.output_dir or "")
    card = ModelCard.load(output_dir / "README.md")
    base_model = get_config_model_id(trainer.model.config)
    if base_model and not Path(base_model).is_dir():
        link = f"[{for_markdown(base_model)}](https://huggingface.co/{quote(base_model)})"
    else:
        link = "A language model"
    policy = shlex.quote(trainer.hub_model_id or f"path/to/{output_dir.resolve().name}")
    body = CARD.format(
        name=for_markdown(model_name or "A policy that writes Kaggle solutions"),
        base_model=link,
        command=markdown_code(f"trl-mle solve COMPETITION --policy {policy}"),
        results=results_table(trainer.competitions, trainer.state, output_dir),
        seed=trainer.args.seed,
    )
    card.text = body + card.text[card.text.index("## Training procedure") :]
    card.save(output_dir / "README.md")


def results_table(tasks: TaskSet, state: TrainerState, output_dir: Path) -> str:
    """The programs of the first and of the last logged step, by competition; many competitions are one row."""
    logged = [entry for entry in state.log_history if "reward" in entry]
    if not logged or not tasks:
        return "No step has been logged yet."
    rows = [HEADS, ("---",) * len(HEADS)]
    if len(tasks) > FEW:
        rows += _before_and_after(f"{len(tasks):,} together", "mle", logged)
    else:
        for competition in map(tasks.__getitem__, tasks):
            arrow = "↑" if competition.higher_is_better else "↓"
            metric = for_markdown(metric_in_words(competition.metric))
            code = markdown_code(competition.id).replace("|", "\\|")  # a cell ends there, in code, too
            best = BestSolutions(output_dir / "best_solutions").read(competition)
            rows += _before_and_after(
                f"{code} ({metric} {arrow})",
                f"mle/{competition.slug}" if len(tasks) > 1 else "mle",
                logged,
                best[1] if best is not None else None,
            )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _before_and_after(
    name: str, prefix: str, logged: list[dict[str, Any]], best: float | None = None
) -> list[tuple[str, ...]]:
    logged = [entry for entry in logged if f"{prefix}/programs" in entry] or logged  # not each step has each
    rows = []
    for when, entry, best_so_far in (("before", logged[0], None), ("after", logged[-1], best)):
        # Programs that were shown a solution have it easier
        source = "mle/scratch" if prefix == "mle" and "mle/scratch/valid_rate" in entry else prefix
        valid = entry.get(f"{source}/valid_rate")
        scores = (entry.get(f"{source}/score/mean"), entry.get(f"{source}/score/best"), best_so_far)
        rows.append(
            (
                name,
                f"{when}, step {entry['step']}",
                f"{entry.get(f'{source}/programs') or 0:.0f}",
                "–" if valid is None else f"{valid:.0%}",
                *("–" if score is None else number(score, 4) for score in scores),
            )
        )
    return rows


def is_failed_upload(error: BaseException) -> bool:
    """Whether this is huggingface_hub's `RuntimeError`, raised for any failed upload of a large file."""
    frames = traceback.walk_tb(error.__traceback__)
    return isinstance(error, RuntimeError) and any(
        frame.f_globals.get("__name__", "").partition(".")[0] == "huggingface_hub" for frame, _ in frames
    )


def in_one_line(error: BaseException) -> str:
    """The message of an exception, without line breaks; for a failed upload, with the cause."""
    why = f" {error.__cause__}" if is_failed_upload(error) and error.__cause__ is not None else ""
    return " ".join(f"{error}{why}".split())
