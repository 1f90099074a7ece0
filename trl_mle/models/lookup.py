"""Finds out at once whether a named model exists."""

from pathlib import Path

from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import HTTPError, OfflineModeIsEnabled, RepositoryNotFoundError, RevisionNotFoundError


TIMEOUT_S = 10.0


def look_up(name: str, revision: str | None = None) -> None:
    """
    Asks the Hub once for a model that is neither a folder nor cached. Loading it without a network asks for a minute, file by
    file, and prints a line for each try.

    Args:
        name (`str`):
            Folder or Hub id of a model or of an adapter.
        revision (`str`, *optional*):
            Branch, tag or commit.

    Raises:
        `OSError`: There is no such model, or no Hub that answers.
        `ValueError`: This is no id of the Hub.
    """
    files = ("config.json", "adapter_config.json")
    if Path(name).is_dir() or any(
        isinstance(try_to_load_from_cache(name, file, revision=revision), str) for file in files
    ):
        return
    try:
        HfApi().model_info(name, revision=revision, timeout=TIMEOUT_S)
    except OfflineModeIsEnabled as error:
        raise OSError("it is not in the cache, and HF_HUB_OFFLINE forbids to look further") from error
    except RevisionNotFoundError as error:
        raise OSError(f"the Hub has no revision {revision} of it") from error
    except RepositoryNotFoundError as error:
        raise OSError("the Hub has no such model, or shows it to its owners only (`hf auth login`)") from error
    except HTTPError as error:
        raise OSError(f"the Hub does not answer ({error}): check the network, or give a folder") from error
