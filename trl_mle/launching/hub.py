"""The Hugging Face Hub: checks access before training, and pushes the record of the programs after it."""

import os
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled

from trl_mle.solutions.best_solutions import UNFINISHED
from trl_mle.trainer.engine.pushes import ROLLOUT_FOLDERS


CARD = """\
---
tags: [trl_mle]
---

# Programs of {model}

Programs that [{model}](https://huggingface.co/{model}) wrote for Kaggle competitions during training with `trl_mle`.

- `best_solutions/<competition>/`: the best program (`solution.py`), its `submission.csv`, and its score on the hidden
  answers (`score.json`; where some are held out, `score` is that on the others).
- `executions/rank-<rank>.jsonl`: a line for every execution: the time, the SHA-256 of the program, how it ended, Δt and CPU
  time in seconds, peak memory in MB, the milestones that it reached, its scores and reward, and whether all
  this is that of an equal program (`reused`).

**The programs were written by a language model. Run them in a sandbox only.**
"""


def check_hub(args: Any) -> None:
    """
    Checks that the Hub accepts the token, and that the token may write for the repository's owner; otherwise raises
    `ValueError`. A token in the arguments is moved to the environment, because `training_args.bin` would save it and is
    pushed as well.
    """
    if args.hub_token is not None:
        os.environ["HF_TOKEN"] = args.hub_token
        args.hub_token = None
    if os.environ.get("RANK", "0") != "0":  # the Hub limits requests, and only one process pushes
        return
    try:
        user = HfApi().whoami()
    except LocalTokenNotFoundError as error:
        raise ValueError("push_to_hub: there is no token: run `hf auth login`, or set HF_TOKEN") from error
    except OfflineModeIsEnabled as error:
        raise ValueError("push_to_hub: HF_HUB_OFFLINE is set: unset it, or set push_to_hub to false") from error
    except HfHubHTTPError as error:
        raise ValueError(f"push_to_hub: the Hub refuses the token: {error}") from error
    except HTTPError as error:
        raise ValueError(f"push_to_hub: the Hub does not answer: {error}") from error
    if user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise ValueError("push_to_hub: the token is read-only: create one with write access")
    owner, slash, _ = (args.hub_model_id or "").partition("/")
    owners = [user["name"], *(organization["name"] for organization in user.get("orgs", []))]
    if slash and owner not in owners:
        raise ValueError(f"push_to_hub: the token belongs to {', '.join(owners)}, but hub_model_id names {owner}")


def push_rollouts(output_dir: Path, repo_id: str, private: bool | None = None) -> str:
    """
    Uploads the best solutions and the record of all executions to a dataset repository.

    Args:
        output_dir (`Path`):
            The run's output folder.
        repo_id (`str`):
            The model's repository; the dataset's is `<repo_id>-rollouts`.
        private (`bool`, *optional*):
            Whether a new repository is private. Defaults to yes if the model's is, or else to the owner's setting.

    Returns:
        `str`: Id of the dataset repository.

    Raises:
        `OSError`: The Hub refused the upload.
    """
    api = HfApi()
    dataset_id = f"{repo_id}-rollouts"
    if private is None and api.model_info(repo_id).private:
        private = True
    api.create_repo(dataset_id, repo_type="dataset", private=private, exist_ok=True)
    card = CARD.format(model=repo_id).encode()
    api.upload_file(repo_id=dataset_id, repo_type="dataset", path_in_repo="README.md", path_or_fileobj=card)
    api.upload_folder(
        repo_id=dataset_id,
        repo_type="dataset",
        folder_path=output_dir,
        allow_patterns=[f"{folder}/*" for folder in ROLLOUT_FOLDERS],
        ignore_patterns=["*/.lock", *(f"*{suffix}/*" for suffix in UNFINISHED)],
        commit_message="Programs of the run",
    )
    return dataset_id
