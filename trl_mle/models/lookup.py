"""Checks quickly whether a named model exists."""

from pathlib import Path


TIMEOUT_S = 10.0


def is_missing_folder(name: str) -> bool:
    """Whether a model's name can only be that of a folder, and the folder does not exist."""
    is_path = name.startswith(("/", ".", "~")) or name.count("/") > 1
    return (is_path or ("/" in name and Path(name.split("/")[0]).is_dir())) and not Path(name).is_dir()


def look_up(name: str, revision: str | None = None) -> None:
    """
    Asks the Hub once for a model or an adapter that is neither a folder nor cached. Without a network, loading it would
    retry for a minute, file by file, with a line for each attempt.

    Raises:
        `OSError`: The model does not exist, or the Hub does not answer.
        `ValueError`: The name is not a valid Hub id.
    """
    from huggingface_hub import HfApi, errors, try_to_load_from_cache  # here: most commands need no Hub

    files = ("config.json", "adapter_config.json")
    if Path(name).is_dir() or any(
        isinstance(try_to_load_from_cache(name, file, revision=revision), str) for file in files
    ):
        return
    try:
        HfApi().model_info(name, revision=revision, timeout=TIMEOUT_S)
    except errors.OfflineModeIsEnabled as error:
        raise OSError("it is not in the cache, and HF_HUB_OFFLINE is set") from error
    except errors.RevisionNotFoundError as error:
        raise OSError(f"the Hub has no revision {revision} of it") from error
    except errors.RepositoryNotFoundError as error:
        raise OSError("the Hub has no such model, or it is private (`hf auth login`)") from error
    except errors.HTTPError as error:
        raise OSError(f"the Hub does not answer ({error}): check the network, or name a folder") from error
