"""Makes competitions of the task packages of other projects: OpenMLE, MLE-Dojo, SandMLE and the like."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trl_mle.competitions.competition import Competition, CompetitionError
from trl_mle.competitions.leaks import equals_answers, find_leak
from trl_mle.competitions.loading import load_competition
from trl_mle.competitions.metrics import find_metric
from trl_mle.competitions.own import write_config
from trl_mle.competitions.prepared import check_links, copy_file, csv_text, new_folder, write_file
from trl_mle.competitions.recognition import Recognized, form, recognized, trial_submissions
from trl_mle.competitions.targets import constant_guesses, what_it_takes


PUBLIC = ("data/public", "prepared/public", "public", ".")
ANSWERS = ("test_answer.csv", "answer.csv", "answers.csv")
# Subfolders that are not for programs, where the package's own folder is the public one
PRIVATE = ("data", "info", "prepared", "private", "raw", "utils")
CLASS, SCRIPT = "metric.py", "evaluator.py"  # a class with `evaluate`, and a program with `--submission_path`

Files = Mapping[str, Path | bytes]
RunMetric = Callable[[Files], bytes]


@dataclass(frozen=True)
class Package:
    """
    A package of another project.

    Args:
        folder (`Path`):
            Its folder.
        public (`Path`):
            The folder with the files for programs, and perhaps others.
        answers (`Path`):
            The hidden answers.
        description (`Path`):
            The text that presents it.
        sample (`Path`, *optional*):
            A submission in the right format.
        metric (`Path`, *optional*):
            Code that scores submissions: `metric.py` or `evaluator.py`. It is not trusted.
    """

    folder: Path
    public: Path
    answers: Path
    description: Path
    sample: Path | None
    metric: Path | None

    @classmethod
    def at(cls, folder: Path) -> "Package":
        """
        Finds the files of a package. Raises [`CompetitionError`] if one is missing.

        | | public files | answers | metric |
        |---|---|---|---|
        | OpenMLE, MLE-Dojo | `data/public/` | `data/private/test_answer.csv` | `utils/metric.py` |
        | SandMLE | `prepared/public/` | `answer.csv` among them | `evaluator.py` among them |
        | a flat folder | the folder | `test_answer.csv` among them | `metric.py` among them |
        """
        public = next(folder / name for name in PUBLIC if (folder / name).is_dir())
        answers = _first(place / name for place in (public.parent / "private", public, folder) for name in ANSWERS)
        if answers is None:
            raise CompetitionError(
                f"there are no answers: {' or '.join(ANSWERS)}, in private/ or beside the public files"
            )
        names = ("description.md", "description.txt", f"{folder.name}.txt")
        description = _first(place / name for place in (public, folder, folder / "info") for name in names)
        if description is None:
            raise CompetitionError("there is no description.txt or description.md")
        metric = _first(
            place / name for place in (folder / "utils", folder, public) for name in (CLASS, SCRIPT)
        ) or _in_mle_dojo(folder.name)
        sample = _first(public / name for name in ("sample_submission.csv", "sampleSubmission.csv"))
        return cls(folder, public, answers, description, sample, metric)

    @property
    def public_files(self) -> list[Path]:
        """
        The files for programs, without the answers, what computes scores, what is written anew, and hidden files (.git).
        Raises [`CompetitionError`] if a folder is a link.
        """
        left_out = {self.answers, self.description, self.sample, self.metric}
        left_out |= {self.public / name for name in (*ANSWERS, CLASS, SCRIPT)}
        others = PRIVATE if self.public == self.folder else ()
        found = [
            path
            for path in sorted(self.public.rglob("*"))
            if path not in left_out
            and path.relative_to(self.public).parts[0] not in others
            and not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(self.folder).parts)
        ]
        for path in found:
            if path.is_symlink() and path.is_dir():  # whose files are not among them
                raise CompetitionError(f"{path} is a link to a folder: copy the package with cp -rL")
        return [path for path in found if path.is_file()]

    @property
    def metric_files(self) -> dict[str, Path | bytes]:
        """The files that its metric needs, by their names in the folder `package/`."""
        assert self.metric is not None
        if self.metric.name == SCRIPT:
            beside = [path for path in self.metric.parent.rglob("*") if path.is_file()]
            files = {path.relative_to(self.metric.parent).as_posix(): path for path in beside}
        else:
            files = {path.name: path for path in self.metric.parent.glob("*.py")}
            files[ANSWERS[0]] = self.answers
        return {f"package/{name}": path for name, path in files.items()}


class Imported(NamedTuple):
    """
    A competition that was made of a package.

    Args:
        competition ([`Competition`]):
            The competition.
        recognized ([`~trl_mle.competitions.recognition.Recognized`], *optional*):
            How its metric was found; `None` if it was given.
    """

    competition: Competition
    recognized: Recognized | None


def find_packages(folder: Path) -> list[Path]:
    """
    The packages in a folder: the folder itself, or its subfolders.

    Raises:
        [`CompetitionError`]: It is neither a package nor has subfolders.
    """
    if not folder.is_dir():
        raise CompetitionError(f"there is no folder {folder}")
    folder = folder.resolve()  # the name of `.` is empty
    if any((folder / name).is_dir() for name in PUBLIC[:-1]) or any((folder / name).is_file() for name in ANSWERS):
        return [folder]
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise CompetitionError(
            f"{folder} is not a package, and holds none: see docs/competitions.md for their layouts"
        )
    return found


def import_package(
    package: Path,
    to: Path,
    run_metric: RunMetric,
    metric: str | None = None,
    higher_is_better: bool | None = None,
) -> Imported:
    """
    Makes a competition of a package of another project. Its code runs only in `run_metric`.

    Args:
        package (`Path`):
            Folder of the package, see [`Package.at`].
        to (`Path`):
            Folder to write, which must not exist yet.
        run_metric (`Callable[[Mapping[str, Path | bytes]], bytes]`):
            Runs the package's metric in a sandbox, with these files, and returns what it wrote.
        metric (`str`, *optional*):
            The metric, see [`~trl_mle.competitions.metrics.find_metric`]. By default, the one of
            [`~trl_mle.competitions.metrics.METRICS`] that gives the same scores as the package's own.
        higher_is_better (`bool`, *optional*):
            Whether a larger score is better, for a function of your own.

    Returns:
        [`Imported`]: The competition.

    Raises:
        [`CompetitionError`]: The package lacks something, shows its answers, or has a metric that is not known.
    """
    exists = CompetitionError(f"{to} exists: remove it to import the package again")
    if to.exists():
        raise exists
    check_links(package)
    found = Package.at(package)
    if found.metric is None and metric is None:
        raise CompetitionError(f"there is no {CLASS} or {SCRIPT}: name a metric with --metric")
    answers = _table(found.answers)
    given = None if found.sample is None else _table(found.sample)
    answers, renamed = _with_names_of(given, answers)
    id_column, targets = _columns(answers, given, found)
    answers = answers[[id_column, *targets] if given is None else [name for name in given if name in answers]]
    for name in targets:
        if unknown := int(answers[name].isin([np.inf, -np.inf]).sum() + answers[name].isna().sum()):
            raise CompetitionError(
                f"{found.answers.name} has no value of {name!r} in {unknown} of {len(answers)} rows"
            )
    with new_folder(to, exists) as staged:
        for path in found.public_files:
            copy_file(path, staged / "public" / path.relative_to(found.public))
        if not (staged / "public").is_dir():
            raise CompetitionError(f"there are no public files in {found.public}")
        if (leak := find_leak(staged / "public", answers, id_column)) is not None:
            raise CompetitionError(f"{leak}: remove it from the package")
        text = found.description.read_text(encoding="utf-8", errors="replace")
        write_file(staged / "public" / "description.md", text)
        cells = pd.read_csv(found.answers, dtype=str, keep_default_na=False)  # as they are
        write_file(staged / "private" / "test.csv", csv_text(cells.rename(columns=renamed)))
        write_file(staged / "public" / "sample_submission.csv", csv_text(answers))  # replaced below
        layout: dict[str, Any] = {
            "id": package.name,
            "metric": metric,
            "id_column": id_column,
            "target_columns": targets,
        }
        match = None
        if metric is None:
            match, checks = _recognize(found, answers, staged, layout, run_metric)
            layout |= {"metric": match.metric} | checks
        elif higher_is_better is not None:
            layout |= {"higher_is_better": higher_is_better, "takes": str(what_it_takes(answers[targets]))}
        competition = write_config(staged, layout, targets)
        _write_sample(staged, competition, answers, given)
    return Imported(load_competition(str(to.absolute())), match)


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)


def _in_mle_dojo(name: str) -> Path | None:
    """The metric of one of MLE-Dojo's competitions, which its prepared data lack."""
    installed = find_spec("mledojo")  # found, not imported
    places = installed.submodule_search_locations or [] if installed else []
    return _first(Path(place) / "competitions" / name / "utils" / CLASS for place in places)


def _table(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, low_memory=False, float_precision="round_trip")
    except (OSError, ValueError) as error:  # pandas' errors, and text that is not UTF-8
        raise CompetitionError(f"{path.name} cannot be read: {' '.join(str(error).split())}") from error


def _with_names_of(sample: pd.DataFrame | None, answers: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """The answers with the name that the sample submission has for its one prediction, and what was renamed."""
    if sample is None:
        return answers, {}
    asked = [str(name) for name in sample if name not in answers]
    given = [str(name) for name in answers if name not in sample]
    renamed = {given[0]: asked[0]} if len(asked) == len(given) == 1 else {}
    return answers.rename(columns=renamed), renamed


def _columns(answers: pd.DataFrame, sample: pd.DataFrame | None, package: Package) -> tuple[str, list[str]]:
    """The column with the ids, and the others of a submission."""
    if sample is None:
        known = list(map(str, answers))
    else:
        known = list(map(str, sample))
        if missing := [name for name in known if name not in answers]:
            raise CompetitionError(
                f"{package.answers.name} lacks {', '.join(map(repr, missing[:3]))}, which the sample submission has"
            )
        if len(sample) != len(answers):
            raise CompetitionError(
                f"{package.answers.name} has {len(answers)} rows, and the sample submission {len(sample)}"
            )
    if len(answers) < 2:  # correlations and areas under a curve need two
        raise CompetitionError(f"{package.answers.name} has {len(answers)} rows, and needs 2 or more")
    for name in known:
        if answers[name].is_unique and (
            sample is None or sorted(map(str, answers[name])) == sorted(map(str, sample[name]))
        ):
            if targets := [other for other in known if other != name]:
                return name, targets
            break
    raise CompetitionError(f"{package.answers.name} has no column of ids with answers beside it")


def _recognize(
    package: Package, answers: pd.DataFrame, staged: Path, layout: Mapping[str, Any], run_metric: RunMetric
) -> tuple[Recognized, dict[str, bool]]:
    """Scores trial submissions with the package's metric, and finds ours."""
    assert package.metric is not None
    trials = trial_submissions(answers, layout["id_column"])
    files: dict[str, Path | bytes] = {f"trials/{name}.csv": content for name, content in trials.items()}
    scores, refusal, is_higher = _read_scores(run_metric(files | package.metric_files), package.metric.name)
    way_out = "name another with --metric, one of ours or my_module.my_metric"
    if not scores:
        raise CompetitionError(f"{package.metric.name} scores no trial submission ({refusal}): {way_out}")
    competition = Competition(
        package.folder.name,
        "accuracy",
        staged / "public",
        staged / "public" / "sample_submission.csv",
        staged / "private" / "test.csv",
        tuple(layout["target_columns"]),
        layout["id_column"],
    )
    found = recognized(competition, trials, scores)
    if found is None:
        raise CompetitionError(f"{package.metric.name} scores trial submissions as no metric of ours does: {way_out}")
    higher = find_metric(found.metric).higher_is_better == (found.sign == 1)
    if is_higher is not None and is_higher != higher:
        said = "higher" if is_higher else "lower"
        raise CompetitionError(
            f"{package.metric.name} scores as {found.metric}, but says that {said} is better: {way_out}"
        )
    return found, form(scores)


def _read_scores(written: bytes, name: str) -> tuple[dict[str, float], str, bool | None]:
    """Scores, a reason why a trial was refused, and the direction. Untrusted code may have written anything."""
    try:
        content = json.loads(written)
        scores = {str(trial): float(score) for trial, score in content["scores"].items()}
        refusals = [reason for trial, reason in content["refused"].items() if trial.startswith("trial-")]
        is_higher = content["higher_is_better"]
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise CompetitionError(f"{name} broke off: it wrote no scores") from error
    known = {trial: score for trial, score in scores.items() if math.isfinite(score)}
    refusal = " ".join(str((refusals or ["no reason given"])[0]).split())[:200]
    return known, refusal, is_higher if isinstance(is_higher, bool) else None


def _write_sample(staged: Path, competition: Competition, answers: pd.DataFrame, given: pd.DataFrame | None) -> None:
    """Writes the sample submission: the given one, unless it is invalid or right; else a constant guess."""
    path = staged / "public" / "sample_submission.csv"
    if given is not None and not equals_answers(given, answers, competition.id_column):
        write_file(path, csv_text(given))
        if competition.grade(path).valid:
            return
    targets = answers[list(competition.target_columns)]
    guess = answers.copy()
    for name, values in constant_guesses(targets, competition.scoring, len(answers)).items():
        guess[name] = values
    write_file(path, csv_text(guess))
    if not (score := competition.grade(path)).valid:
        raise CompetitionError(f"{competition.metric} cannot score a constant guess: {score.error}")
