"""Loads competitions by id: local ones, MLE-bench's, their mirrors, generated tasks, and the user's own folders."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from trl_mle.competitions.bench import bench_folder, load_bench
from trl_mle.competitions.catalog import CONFIG, MLEBENCH_COMPETITIONS, Layout, competition_from_folder
from trl_mle.competitions.competition import Competition, CompetitionError, path_slug, user_cache_dir
from trl_mle.competitions.families import PREFIX as TASK_PREFIX
from trl_mle.competitions.families import load_task
from trl_mle.competitions.local import LOCAL_COMPETITIONS, load_local
from trl_mle.competitions.metrics import METRICS
from trl_mle.competitions.mirrors import MIRRORS, PREFIX, load_mirror
from trl_mle.competitions.prepared import check_links
from trl_mle.competitions.repository import HUB_PREFIX, download, without_revision
from trl_mle.data_files import NoAliases, read_mapping
from trl_mle.spelling import did_you_mean


def list_competitions() -> list[str]:
    """The ids that [`load_competition`] takes, without tasks; MLE-bench's need `mlebench prepare`."""
    return [*LOCAL_COMPETITIONS, *MLEBENCH_COMPETITIONS, *(PREFIX + name for name in MIRRORS)]


def load_competition(
    competition_id: str | Path, data_dir: Path | str | None = None, holdout: float = 0.0
) -> Competition:
    """
    Load a competition by its id.

    Args:
        competition_id (`str` or `Path`):
            One of [`list_competitions`], with size and seed of a mirror; `task:train/<n>` or `task:test/<n>`; another
            of MLE-bench's, if `mlebench` is installed; the path of a folder, or its name in `data_dir`; or
            `hf://datasets/<owner>/<name>/<folder>`. A folder holds `public/` and `private/`, itself or in `prepared/`,
            and a `competition.yaml`: the arguments of [`~trl_mle.competitions.catalog.Layout`], and perhaps `id`.
        data_dir (`Path` or `str`, *optional*):
            Folder of `mlebench prepare`. Defaults to `$MLEBENCH_DATA_DIR`, else to MLE-bench's own default.
        holdout (`float`, *optional*, defaults to `0.0`):
            Share of the hidden answers' rows that only reports see (`Score.held_out`), at least 0 and below 1.

    Raises:
        [`CompetitionError`]: There is no such competition, or it cannot be used.
    """
    competition = _load(os.fspath(competition_id), data_dir)
    check_links(competition.public_dir)
    if holdout:
        competition = replace(competition, holdout=holdout)
        competition.check_answers()
    return competition


def _load(competition_id: str, data_dir: Path | str | None) -> Competition:
    if competition_id in LOCAL_COMPETITIONS:
        return load_local(competition_id)
    if competition_id.startswith(PREFIX):
        return load_mirror(competition_id)
    if competition_id.startswith(TASK_PREFIX):
        return load_task(competition_id)
    if competition_id.startswith(HUB_PREFIX):
        folder = download(competition_id)
        if str(_read_config(folder / CONFIG).get("metric")) not in METRICS:
            raise CompetitionError(  # who wrote it must not choose what is imported
                f"{competition_id!r} has a metric of its author's own, which is code: if you trust it, download it"
            )
        return replace(_load_folder(competition_id, folder), id=without_revision(competition_id))
    in_data_dir = _in_data_dir(competition_id, data_dir)
    if competition_id in MLEBENCH_COMPETITIONS:
        prepared = _prepared(competition_id, in_data_dir)
        return competition_from_folder(competition_id, MLEBENCH_COMPETITIONS[competition_id], prepared)
    if _is_path(competition_id):
        folder = Path(competition_id).expanduser().absolute()
        if folder.is_dir():
            return _load_folder(competition_id, folder)
    elif bench_folder(competition_id) is not None and not (in_data_dir / CONFIG).is_file():
        return load_bench(competition_id, _prepared(competition_id, in_data_dir).parents[1])
    elif (in_data_dir / CONFIG).is_file() or (in_data_dir / "prepared").is_dir():
        return _load_folder(competition_id, in_data_dir)
    # A mistyped name or path
    parent = Path(competition_id).parent
    beside = {folder.name: os.path.join(parent, folder.name) for folder in folders_in(parent.expanduser())}
    near = did_you_mean(Path(competition_id).name, [*list_competitions(), *beside], beside)
    hint = near or "trl-mle competitions lists them, such as digits; a folder begins with ./"
    raise CompetitionError(f"unknown competition {competition_id!r}; {hint}")


def folders_in(folder: Path) -> list[Path]:
    """The competitions' folders in a folder."""
    return sorted(config.parent for config in folder.glob(f"*/{CONFIG}"))


def id_of(competition_id: str, data_dir: Path | str | None = None) -> str:
    """The id of the competition that [`load_competition`] loads, without loading it."""
    if competition_id in list_competitions() or competition_id.startswith((PREFIX, TASK_PREFIX)):
        return competition_id
    if competition_id.startswith(HUB_PREFIX):
        return without_revision(competition_id)
    folder = Path(competition_id).expanduser()
    folder = folder if _is_path(competition_id) else _in_data_dir(competition_id, data_dir)
    try:
        return str(_read_config(folder / CONFIG).get("id", _default_id(competition_id)))
    except (CompetitionError, OSError):  # loading it says what is wrong
        return competition_id


def _is_path(competition_id: str) -> bool:
    return "/" in competition_id or competition_id in (".", "..") or Path(competition_id, CONFIG).is_file()


def _default_id(path: str) -> str:
    """The path of a folder, or its name for a path such as `./`."""
    return path if path_slug(path) else Path(path).expanduser().resolve().name


def _in_data_dir(competition_id: str, data_dir: Path | str | None) -> Path:
    data_dir = data_dir or os.environ.get("MLEBENCH_DATA_DIR") or user_cache_dir() / "mle-bench" / "data"
    return Path(data_dir).expanduser().absolute() / competition_id


def _prepared(competition_id: str, folder: Path) -> Path:
    prepared = folder / "prepared"
    if not ((prepared / "public").is_dir() and (prepared / "private").is_dir()):
        raise CompetitionError(f"not prepared in {prepared}; prepare it with: mlebench prepare -c {competition_id}")
    return prepared


def _load_folder(competition_id: str, folder: Path) -> Competition:
    config = folder / CONFIG
    if not config.is_file():
        what = f"{competition_id!r} needs a file {config}, see docs/competitions.md"
        raise CompetitionError(f"{what}; for one of MLE-bench's, install mlebench")
    content = _read_config(config)
    default = _default_id(competition_id)
    name = content.pop("id", default)
    is_ours = name != default and str(name).startswith((PREFIX, TASK_PREFIX, HUB_PREFIX))
    if is_ours or not (isinstance(name, str) and path_slug(name)):
        raise CompetitionError(f"{config}: 'id' must be a name with letters from a to z, not {name!r}")
    prepared = folder / "prepared" if (folder / "prepared").is_dir() else folder
    facts: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    try:
        return competition_from_folder(name, Layout(**facts), prepared)
    except (TypeError, AttributeError) as error:  # an unknown or a missing key, or a value that does not fit
        raise CompetitionError(f"{config}: {error}") from error


def _read_config(config: Path) -> dict[Any, Any]:
    try:
        return read_mapping(config, config, "metric: roc_auc", NoAliases)
    except ValueError as error:
        raise CompetitionError(str(error)) from error
