"""Competitions in a dataset repository on the Hub, which has a folder for each."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import quote

from trl_mle.competitions.catalog import CONFIG
from trl_mle.competitions.competition import CompetitionError
from trl_mle.competitions.prepared import cached_folder


HUB_PREFIX = "hf://datasets/"


class _Place(NamedTuple):
    repository: str
    revision: str | None
    folder: str

    @property
    def name(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"{HUB_PREFIX}{self.repository}{revision}" + (f"/{self.folder}" if self.folder else "")


def _place(name: str) -> _Place:
    understood = re.fullmatch(rf"{HUB_PREFIX}([^/@]+/[^/@]+)(?:@([^/]+))?(?:/(.*[^/]))?/?", name)
    if understood is None or ".." in name.split("/"):
        raise CompetitionError(f"{name!r} is not a dataset on the Hub: write {HUB_PREFIX}<owner>/<name>")
    return _Place(understood[1], understood[2], understood[3] or "")


def tasks_in_repository(name: str) -> list[str]:
    """The competitions in a repository or one of its folders, pinned to its commit. Raises [`CompetitionError`]."""
    from huggingface_hub import HfApi

    place = _place(name)
    with _hub_errors(name):
        info = HfApi().dataset_info(place.repository, revision=place.revision)
    paths = [PurePosixPath(item.rfilename) for item in info.siblings or []]
    parents = [path.parent for path in paths if path.name == CONFIG and path.is_relative_to(place.folder)]
    folders = sorted(str(folder) if folder.parts else "" for folder in parents)
    if not folders:
        raise CompetitionError(f"{name!r} has no folder with a {CONFIG}, next to public/ and private/")
    return [_Place(place.repository, info.sha, folder).name for folder in folders]


def without_revision(name: str) -> str:
    """The name of a competition in a repository, at whatever commit: its id."""
    return _place(name)._replace(revision=None).name


def download(name: str) -> Path:
    """The folder of a competition, downloaded on first use. Raises [`CompetitionError`] if it cannot be."""
    from huggingface_hub import HfApi, snapshot_download

    place = _place(name)
    commit = place.revision
    if commit is None or not re.fullmatch("[0-9a-f]{40}", commit):
        with _hub_errors(name):
            commit = HfApi().dataset_info(place.repository, revision=commit).sha

    def write(to: Path) -> None:
        files = f"{place.folder}/*" if place.folder else None
        with _hub_errors(name):
            # To a folder of ours: the Hub's cache holds links, and programs do not see where they lead
            snapshot_download(
                place.repository, repo_type="dataset", revision=commit, allow_patterns=files, local_dir=to
            )
        for path in (to, *to.rglob("*")):  # whatever the umask: sandboxed programs run as another user
            path.chmod(0o755 if path.is_dir() else 0o644)
        if not (to / place.folder).is_dir():
            raise CompetitionError(f"{name!r} is not in the repository: it has no folder {place.folder!r}")

    folder = cached_folder(name, quote(f"hub/{place.repository}@{commit}/{place.folder}", safe=""), write)
    return folder / place.folder


@contextmanager
def _hub_errors(name: str) -> Iterator[None]:
    # Imported here, because it takes 0.3 s
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, LocalEntryNotFoundError

    try:
        yield
    except (HfHubHTTPError, HTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise CompetitionError(f"{name!r} cannot be read from the Hub: {' '.join(str(error).split())}") from error
