"""Checks access to the Hugging Face Hub before training."""

import os
from typing import Any

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HTTPError, LocalTokenNotFoundError, OfflineModeIsEnabled


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
