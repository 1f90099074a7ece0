"""Makes competitions of the task packages of other projects: OpenMLE, MLE-Dojo, SandMLE and the like."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trl_mle.competitions.competition import Competition, CompetitionError
from trl_mle.competitions.loading import load_competition
from trl_mle.competitions.metrics import find_metric
from trl_mle.competitions.own import write_config
from trl_mle.competitions.prepared import check_links, copy_file, csv_text, new_folder, write_file
from trl_mle.competitions.reading import as_read, listed
from trl_mle.competitions.targets import constant_guesses, what_it_takes


PUBLIC = ("data/public", "prepared/public", "public", ".")
ANSWERS = ("test_answer.csv", "answer.csv", "answers.csv")
# Subfolders that are not for programs, where the package's own folder is the public one
PRIVATE = ("data", "info", "prepared", "private", "raw", "utils")
METRICS = ("metric.py", "evaluator.py")  # not for programs either
SAMPLES = ("sample_submission.csv", "sampleSubmission.csv")


class Package(NamedTuple):
    folder: Path
    public: Path  # the folder with the files for programs, and perhaps others
    answers: Path
    description: Path
    sample: Path | None

    @classmethod
    def at(cls, folder: Path) -> "Package":
        """Finds the files of a package, see docs/competitions.md. Raises [`CompetitionError`] if one is missing."""
        public = next(folder / name for name in PUBLIC if (folder / name).is_dir())
        beside = (folder if public == folder else public.parent) / "private"
        answers = _first(place / name for place in (beside, public, folder) for name in ANSWERS)
        if answers is None:
            raise CompetitionError(f"there are no answers: {' or '.join(ANSWERS)}, in private/")
        names = ("description.md", "description.txt", f"{folder.name}.txt")
        description = _first(place / name for place in (public, folder, folder / "info") for name in names)
        if description is None:
            raise CompetitionError("there is no description.txt or description.md")
        return cls(folder, public, answers, description, _first(public / name for name in SAMPLES))

    @property
    def public_files(self) -> list[Path]:
        """The files for programs, without the answers, what computes scores, and hidden files (.git)."""
        left_out = {self.answers, self.description, self.sample}
        left_out |= {self.public / name for name in (*ANSWERS, *METRICS)}
        others = PRIVATE if self.public == self.folder else ()
        return [
            path
            for path in sorted(self.public.rglob("*"))
            if path.is_file()
            and path not in left_out
            and path.relative_to(self.public).parts[0] not in others
            and not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(self.folder).parts)
        ]


def find_packages(folder: Path) -> list[Path]:
    """The packages in a folder: itself, or its subfolders. Raises [`CompetitionError`] without one."""
    folder = folder.resolve()  # the name of `.` is empty
    if any((folder / name).is_dir() for name in PUBLIC[:-1]) or any((folder / name).is_file() for name in ANSWERS):
        return [folder]
    packages = sorted(path for path in folder.glob("[!.]*") if path.is_dir())
    if not packages:
        raise CompetitionError(f"{folder} is not a package, and holds none: see docs/competitions.md")
    return packages


def import_package(folder: Path, to: Path, metric: str, higher_is_better: bool | None = None) -> Competition:
    """
    Makes a competition of a package, whose code does not run, in a new folder, with a metric of
    [`~trl_mle.competitions.metrics.find_metric`]. Raises `ValueError` if files lack, or show the answers.
    """
    scoring = find_metric(metric, higher_is_better)
    check_links(folder)
    package = Package.at(folder)
    answers, id_column = _answers(package)
    targets = [str(name) for name in answers if name != id_column]
    values = as_read(answers[targets])
    with new_folder(to, CompetitionError(f"{to} exists: remove it to import the package again")) as staged:
        for path in package.public_files:
            copy_file(path, staged / "public" / path.relative_to(package.public))
        if (leak := find_answers(staged / "public", answers, id_column)) is not None:
            raise CompetitionError(f"{leak} holds the answers: remove it from the package")
        text = package.description.read_text(encoding="utf-8", errors="replace")
        write_file(staged / "public" / "description.md", text)
        write_file(staged / "private" / "test.csv", csv_text(answers))
        layout: dict[str, Any] = {"id": folder.name, "metric": metric}
        layout |= {"id_column": id_column, "target_columns": targets}
        if higher_is_better is not None:
            scoring = scoring._replace(takes=what_it_takes(values))
            layout |= {"higher_is_better": higher_is_better, "takes": str(scoring.takes)}
        try:
            guess = answers.assign(**constant_guesses(values, scoring, len(answers)))
        except TypeError as error:  # the mean of texts
            raise CompetitionError(f"{metric} cannot score {', '.join(targets)}: {error}") from error
        write_file(staged / "public" / "sample_submission.csv", csv_text(guess))
        write_config(staged, layout, targets)
    return load_competition(str(to.absolute()))


def find_answers(public: Path, answers: pd.DataFrame, id_column: str) -> str | None:
    """The name of a public file that holds the answers: as lines, or as a column of a table."""
    lines = {line.encode() for line in csv_text(answers).splitlines()[1:]}
    for path in sorted(path for path in public.rglob("*") if path.is_file()):
        if lines <= set(path.read_bytes().splitlines()) or _has_column(path, answers, id_column):
            return path.relative_to(public).as_posix()
    return None


def _has_column(path: Path, answers: pd.DataFrame, id_column: str) -> bool:
    """Whether a table has a column that equals one of the answers, by id, or in order where it lacks the ids."""
    if path.suffix.lower() not in (".csv", ".tsv"):
        return False
    try:
        table = pd.read_csv(path, sep=None, engine="python", dtype=str, na_filter=False)
    except (ValueError, csv.Error):  # such as texts in another encoding
        return False
    if id_column in table:
        table = table.drop_duplicates(id_column).set_index(id_column).reindex(answers[id_column]).fillna("")
    targets = [cells for name, cells in answers.items() if name != id_column and cells.nunique() > 1]
    return len(table) == len(answers) and any(_are_equal(table[name], cells) for name in table for cells in targets)


def _are_equal(column: pd.Series, target: pd.Series) -> bool:
    numbers, truth = (pd.to_numeric(cells, errors="coerce").to_numpy() for cells in (column, target))
    return bool((column.to_numpy() == target.to_numpy()).all() or np.isclose(numbers, truth).all())


def _answers(package: Package) -> tuple[pd.DataFrame, str]:
    """The answers, with the columns of the sample submission, all cells as texts; and the column with the ids."""
    name = package.answers.name
    answers = pd.read_csv(package.answers, dtype=str, na_filter=False)
    sample = None if package.sample is None else pd.read_csv(package.sample, dtype=str, na_filter=False)
    if sample is not None:
        lacking = list(sample.columns.difference(answers.columns))
        others = list(answers.columns.difference(sample.columns))
        if len(lacking) == len(others) == 1:  # the one prediction has another name in the sample submission
            answers = answers.rename(columns={others[0]: lacking[0]})
        elif lacking:
            raise CompetitionError(f"{name} lacks {listed(lacking)}, which the sample submission has")
        answers = answers[list(sample)]
    for column in answers if len(answers.columns) > 1 else ():
        if answers[column].is_unique and (sample is None or set(answers[column]) == set(sample[column])):
            return answers, str(column)
    raise CompetitionError(f"{name} has no column of ids with answers beside it")


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)
