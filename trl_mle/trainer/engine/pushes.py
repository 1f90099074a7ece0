"""Pushes to the Hub, in addition to TRL's."""

import logging
import textwrap
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import DistributedType, is_peft_model
from huggingface_hub import HfApi, ModelCard
from transformers.utils import PushInProgress
from trl import GRPOTrainer
from trl.trainer.utils import get_config_model_id

from trl_mle.execution import Limits
from trl_mle.rewards import MLEReward
from trl_mle.rewards.progress import ARGUMENTS_FILE
from trl_mle.trainer.engine.model_card import card_body
from trl_mle.trainer.mle_grpo_config import MLEGRPOConfig


if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trl_mle.competitions import TaskSet


logger = logging.getLogger(__name__)

# Folders with the record of the programs, which are only pushed to a separate repository
ROLLOUT_FOLDERS = ("best_solutions", "evaluations", "executions")
NOT_PUSHED = [
    *(f"{folder}/" for folder in (*ROLLOUT_FOLDERS, "completions", "report")),
    ARGUMENTS_FILE,
    ".lock",
]
# Files of a checkpoint that only resuming needs
STATE_FILES = [
    "global_step*",
    "optimizer.*",
    "rng_state*",
    "scheduler.*",
    "training_args.bin",
    "zero_to_fp32.py",
    "latest",
    "files.json*",  # which lists them
]


class HubTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] with a model card that describes the training, with reports of failed pushes, and with an
    optional branch for each checkpoint. transformers does the pushing, as configured by `push_to_hub` and
    `hub_strategy`.
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

    args: MLEGRPOConfig
    model: "PreTrainedModel"
    hub_model_id: Any  # a `str`, when there is a repository
    push_in_progress: Any  # a `PushInProgress`, when there has been a push
    competitions: "TaskSet"
    limits: Limits

    @property
    def _output_dir(self) -> Path:
        assert self.args.output_dir is not None  # TrainingArguments has filled it in
        return Path(self.args.output_dir)

    def init_hf_repo(self, token: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().init_hf_repo(token, *args, **kwargs)  # newer versions of transformers pass more
        token = token if token is not None else self.args.hub_token
        if not self.is_world_process_zero():
            return
        output_dir = self._output_dir
        output_dir.mkdir(parents=True, exist_ok=True)
        path = output_dir / ".gitignore"
        known = path.read_text().splitlines() if path.is_file() else []
        path.write_text("\n".join([*known, *(name for name in NOT_PUSHED if name not in known)]) + "\n")
        if self.args.hub_revision is not None:  # pushes go there, and do not make it
            HfApi().create_branch(self.hub_model_id, branch=self.args.hub_revision, token=token, exist_ok=True)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        self._tell_failed_pushes()
        super()._push_from_checkpoint(checkpoint_folder)
        if self.args.push_checkpoint_revisions and self.is_world_process_zero():
            job = HfApi().run_as_future(self._push_revision, checkpoint_folder, f"step-{self.state.global_step:06d}")
            self.push_in_progress = self.push_in_progress or PushInProgress()
            self.push_in_progress.jobs.append(job)

    def _push_revision(self, checkpoint_folder: str, branch: str) -> None:
        api, token = HfApi(), self.args.hub_token
        api.create_branch(
            self.hub_model_id, branch=branch, revision=self.args.hub_revision, token=token, exist_ok=True
        )
        api.upload_folder(
            repo_id=self.hub_model_id,
            folder_path=checkpoint_folder,
            revision=branch,
            commit_message=f"Checkpoint {branch}",
            ignore_patterns=STATE_FILES,
            token=token,
        )

    def _finish_current_push(self) -> None:
        super()._finish_current_push()
        self._tell_failed_pushes()

    def _tell_failed_pushes(self) -> None:
        """Reports failed background pushes, which transformers does not check."""
        if not self.args.push_to_hub or not self.is_world_process_zero() or self.push_in_progress is None:
            return
        done = [job for job in self.push_in_progress.jobs if job.done()]
        for error in filter(None, (job.exception() for job in done)):
            logger.warning(
                "a push to the Hub failed; everything is still in %s: %s",
                self.args.output_dir,
                in_one_line(error),
            )
        self.push_in_progress.jobs = [job for job in self.push_in_progress.jobs if job not in done]

    def create_model_card(  # type: ignore[override]  # the signature is TRL's
        self, model_name: str | None = None, dataset_name: str | None = None, tags: str | list[str] | None = None
    ) -> None:
        """See [`~trl.GRPOTrainer`]; the text is ours, the metadata, versions and citations are TRL's."""
        super().create_model_card(model_name, dataset_name, tags)
        if not self.is_world_process_zero():
            return
        path = self._output_dir / "README.md"
        card = ModelCard.load(path)
        base_model = get_config_model_id(self.model.config)
        state, processes = self.accelerator.state, self.accelerator.num_processes
        engine = f"{processes} processes, DDP" if processes > 1 else "one process"
        if state.deepspeed_plugin is not None:
            engine = f"{processes} processes, DeepSpeed ZeRO-{state.deepspeed_plugin.zero_stage}"
        elif state.distributed_type == DistributedType.FSDP:
            engine = f"{processes} processes, FSDP{state.fsdp_plugin.fsdp_version}"
        body = card_body(
            model_name=model_name,
            base_model=base_model if base_model and not Path(base_model).is_dir() else None,
            hub_model_id=self.hub_model_id,
            args=self.args,
            output_dir=self._output_dir,
            engine=engine,
            lora=is_peft_model(self.accelerator.unwrap_model(self.model)),
            tasks=self.competitions,
            rewards=[function for function in self.reward_funcs if isinstance(function, MLEReward)],
            reward_weights=dict(zip(self.reward_func_names, self.reward_weights.tolist(), strict=True)),
            state=self.state,
            limits=self.limits,
        )
        card.text = body + "\n" + card.text[card.text.index("### Framework versions") :]
        card.save(path)


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
