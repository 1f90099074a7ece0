"""Pushes to the Hub, and the model card: TRL's, with what this package adds."""

import shlex
import textwrap
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

from huggingface_hub import HfApi, ModelCard
from trl.trainer.utils import get_config_model_id

from trl_mle.rewards.progress import ARGUMENTS_FILE
from trl_mle.showing import for_markdown, markdown_code
from trl_mle.trainer.engine.model_card import BODY, results_table


# Folders with the record of the programs, which are only pushed to a separate repository
ROLLOUT_FOLDERS = ("best_solutions", "evaluations", "executions")
NOT_PUSHED = [
    *(f"{folder}/" for folder in (*ROLLOUT_FOLDERS, "completions", "report")),
    ARGUMENTS_FILE,
    ".lock",
]

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


def prepare_repo(args: Any, repo_id: str, token: str | None) -> None:
    """Keeps the record of the programs out of the model's repository, and creates the branch to which pushes go."""
    path = Path(args.output_dir or "", ".gitignore")
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.is_file() else []
    path.write_text("\n".join([*lines, *(name for name in NOT_PUSHED if name not in lines)]) + "\n")
    if args.hub_revision is not None:  # pushes go there, and do not make it
        HfApi().create_branch(repo_id, branch=args.hub_revision, token=token or args.hub_token, exist_ok=True)


def complete_card(trainer: Any, model_name: str | None) -> None:
    """Puts what the model is for, and its results, in TRL's model card; all else is TRL's."""
    output_dir = Path(trainer.args.output_dir or "")
    card = ModelCard.load(output_dir / "README.md")
    base_model = get_config_model_id(trainer.model.config)
    link = f"[{for_markdown(base_model)}](https://huggingface.co/{quote(base_model)})" if base_model else ""
    policy = shlex.quote(trainer.hub_model_id or f"path/to/{output_dir.resolve().name}")
    body = BODY.format(
        name=for_markdown(model_name or "A policy that writes Kaggle solutions"),
        base_model=link if link and not Path(base_model).is_dir() else "A language model",
        command=markdown_code(f"trl-mle solve COMPETITION --policy {policy}"),
        results=results_table(trainer.competitions, trainer.state, output_dir),
        seed=trainer.args.seed,
    )
    card.text = body + card.text[card.text.index("## Training procedure") :]
    card.save(output_dir / "README.md")


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
