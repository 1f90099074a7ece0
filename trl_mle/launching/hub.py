"""The Hugging Face Hub: checks access before training, and pushes the record of the programs after it."""

import os
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HTTPError

from trl_mle.solutions.best_solutions import UNFINISHED
from trl_mle.trainer.engine.pushes import ROLLOUT_FOLDERS


CARD = """\
---
tags: [trl_mle]
---

Programs that [{model}](https://huggingface.co/{model}) wrote for Kaggle competitions during training with `trl_mle`.

**They were written by a language model. Run them in a sandbox only.**
"""


def check_hub(args: Any) -> None:
    """Raises `ValueError` if the Hub refuses the token or does not answer. Moves a token in the arguments to the
    environment, because `training_args.bin`, which is pushed, would have it."""
    if args.hub_token is not None:
        os.environ["HF_TOKEN"] = args.hub_token
        args.hub_token = None
    if os.environ.get("RANK", "0") != "0":  # the Hub limits requests, and only one process pushes
        return
    try:
        HfApi().whoami()
    except (OSError, HTTPError) as error:
        raise ValueError(f"push_to_hub: {error}") from error


def push_rollouts(output_dir: Path, repo_id: str, private: bool | None = None) -> None:
    """Uploads a run's best solutions and executions to the dataset `<repo_id>-rollouts`. A new one is private if asked
    for, if the model's repository is, or else by the owner's setting."""
    api = HfApi()
    dataset: dict[str, Any] = {"repo_id": f"{repo_id}-rollouts", "repo_type": "dataset"}
    if private is None and api.model_info(repo_id).private:
        private = True
    api.create_repo(**dataset, private=private, exist_ok=True)
    card = CARD.format(model=repo_id).encode()
    api.upload_file(**dataset, path_in_repo="README.md", path_or_fileobj=card)
    api.upload_folder(
        **dataset,
        folder_path=output_dir,
        allow_patterns=[f"{folder}/*" for folder in ROLLOUT_FOLDERS],
        ignore_patterns=["*/.lock", *(f"*{suffix}/*" for suffix in UNFINISHED)],
        commit_message="Programs of the run",
    )
