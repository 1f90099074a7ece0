"""Pushes to the Hub, and the model card: TRL's, with what this package adds."""

import shlex
import textwrap
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from huggingface_hub import HfApi, ModelCard
from trl import GRPOTrainer
from trl.trainer.utils import get_config_model_id

from trl_mle.rewards.progress import ARGUMENTS_FILE
from trl_mle.showing import for_markdown, markdown_code
from trl_mle.trainer.engine.model_card import BODY, results_table


if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trl_mle.competitions import TaskSet


# Folders with the record of the programs, which are only pushed to a separate repository
ROLLOUT_FOLDERS = ("best_solutions", "evaluations", "executions")
NOT_PUSHED = [
    *(f"{folder}/" for folder in (*ROLLOUT_FOLDERS, "completions", "report")),
    ARGUMENTS_FILE,
    ".lock",
]


class HubTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] whose model card shows the results. transformers pushes, as `push_to_hub` and `hub_strategy`
    say; the record of the programs is not pushed with the model.
    """

    _tag_names = ["trl", "grpo", "trl_mle"]  # noqa: RUF012 (TRL's class attributes)
    _name = "MLE-GRPO"
    _paper = {  # noqa: RUF012
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

    model: "PreTrainedModel"
    hub_model_id: Any  # a `str`, when there is a repository
    competitions: "TaskSet"

    def init_hf_repo(self, token: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().init_hf_repo(token, *args, **kwargs)  # newer versions of transformers pass more
        if not self.is_world_process_zero():
            return
        path = Path(self.args.output_dir or "", ".gitignore")
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.is_file() else []
        path.write_text("\n".join([*lines, *(name for name in NOT_PUSHED if name not in lines)]) + "\n")
        if self.args.hub_revision is not None:  # pushes go there, and do not make it
            HfApi().create_branch(
                self.hub_model_id, branch=self.args.hub_revision, token=token or self.args.hub_token, exist_ok=True
            )

    def create_model_card(  # type: ignore[override]  # the signature is TRL's
        self, model_name: str | None = None, dataset_name: str | None = None, tags: str | list[str] | None = None
    ) -> None:
        """See [`~trl.GRPOTrainer`]; what the model is for and its results are ours, all else is TRL's."""
        super().create_model_card(model_name, dataset_name, tags)
        if not self.is_world_process_zero():
            return
        output_dir = Path(self.args.output_dir or "")
        card = ModelCard.load(output_dir / "README.md")
        base_model = get_config_model_id(self.model.config)
        link = f"[{for_markdown(base_model)}](https://huggingface.co/{quote(base_model)})" if base_model else ""
        policy = shlex.quote(self.hub_model_id or f"path/to/{output_dir.resolve().name}")
        body = BODY.format(
            name=for_markdown(model_name or "A policy that writes Kaggle solutions"),
            base_model=link if link and not Path(base_model).is_dir() else "A language model",
            command=markdown_code(f"trl-mle solve COMPETITION --policy {policy}"),
            results=results_table(self.competitions, self.state, output_dir),
            seed=self.args.seed,
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
