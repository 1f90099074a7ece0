"""Writes prepared folders in MLE-bench's layout to `trl_mle`'s cache."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pandas as pd

from trl_mle.competitions.competition import CompetitionError, user_cache_dir


# Part of the folder's name: increase it whenever the written files change, so that no old cache is used.
VERSION = "v1"


def cached_folder(competition_id: str, slug: str, write: Callable[[Path], None]) -> Path:
    """The folder of a generated competition, which `write` makes on first use. Raises [`CompetitionError`]."""
    cache = Path(os.environ.get("TRL_MLE_CACHE") or user_cache_dir() / "trl_mle").expanduser().absolute()
    folder = cache / "data" / VERSION / slug
    if not folder.is_dir():
        try:
            _make_folder(folder.parent)
            # No process sees half a competition. If another one wins the race, it wrote the same bytes
            with suppress(FileExistsError), new_folder(folder, FileExistsError()) as staged:
                write(staged / "prepared")
        except OSError as error:
            what = f"cannot write the data of {competition_id!r} to {folder} ({error.strerror or error})"
            raise CompetitionError(f"{what}; set TRL_MLE_CACHE to a folder that you may write") from error
    return folder / "prepared"


@contextmanager
def new_folder(folder: Path, refusal: Exception) -> Iterator[Path]:
    """A path that becomes `folder` once it is complete, and vanishes with an error. Raises `refusal` if it exists."""
    if folder.exists():
        raise refusal
    parent = folder.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent, prefix=f".{folder.name}-") as name:
        staged = Path(name, folder.name)
        yield staged
        try:
            staged.rename(folder)
        except OSError as error:
            if folder.exists():
                raise refusal from error
            raise


def write_file(path: Path, content: str | bytes) -> None:
    """Writes a file with mode 0644, in folders with mode 0755."""
    _make_folder(path.parent)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o644)


def copy_file(source: Path, target: Path) -> None:
    """Copies a file's content, as [`write_file`] would write it."""
    write_file(target, b"")
    shutil.copyfile(source, target)


def check_links(folder: Path) -> None:
    """Raises [`CompetitionError`] if a link in a folder leads out of it: prompts and exports would follow it."""
    real = os.path.realpath(folder)
    for place, folders, files in os.walk(folder):
        for path in (os.path.join(place, name) for name in (*folders, *files)):
            if os.path.islink(path) and not Path(os.path.realpath(path)).is_relative_to(real):
                raise CompetitionError(f"{path} is a link out of {folder}: put a copy in its place")


def _make_folder(path: Path) -> None:
    """Makes a folder with mode 0755, regardless of the umask: sandboxed programs run as another user."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)


def csv_text(table: pd.DataFrame) -> str:
    """A table as CSV text without an index. Line ends in cells become line feeds."""
    text = table.to_csv(index=False, lineterminator="\n")
    if "\r" in text:  # where Python does not quote it, it would end the row
        text = table.replace("\r\n?", "\n", regex=True).to_csv(index=False, lineterminator="\n")
    return text


def description(title: str, overview: str, evaluation: str, submission: str, sample: pd.DataFrame, data: str) -> str:
    """The text that describes a competition, with Kaggle's headings and the first three rows of the sample."""
    return f"""# {title}

## Overview

{overview}

## Evaluation

{evaluation}

## Submission format

{submission}

```
{csv_text(sample.head(3))}```

## Data

{data}
"""
