"""The paper's 12 MLE-bench competitions, and loading of prepared folders."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trl_mle.competitions.competition import Competition, CompetitionError
from trl_mle.competitions.metrics import METRICS, find_metric
from trl_mle.data_files import read_data


@dataclass(frozen=True)
class Layout:
    """
    The facts that a prepared folder does not contain: its files, its columns, and when a submission is invalid.

    Args:
        metric (`str`):
            A key of `trl_mle.competitions.metrics.METRICS`, or your own as `my_module:my_metric`, see
            [`~trl_mle.competitions.metrics.find_metric`].
        id_column (`str`):
            Id column of the sample submission and of the answers.
        target_columns (`tuple[str, ...]`, *optional*, defaults to `()`):
            Columns that a submission predicts. If empty, all columns of the sample submission except `id_column`.
        answers (`str`, *optional*, defaults to `"test.csv"`):
            File in `private/` with the hidden labels.
        sample_submission (`str`, *optional*, defaults to `"sample_submission.csv"`):
            File in `public/` that shows the format of a submission.
        exact_columns (`bool`, *optional*, defaults to `False`):
            Whether a submission must not have other columns.
        id_first (`bool`, *optional*, defaults to `False`):
            Whether the id must be a submission's first column.
        in_file_order (`bool`, *optional*, defaults to `False`):
            Whether rows are compared in the order of the files. A submission then needs no ids.
        row_sum_decimals (`int`, *optional*):
            Number of decimals to which a row's predictions must sum to 1, if stricter than the metric.
        higher_is_better (`bool`, *optional*):
            Whether a larger score is better; only for a function of your own.
        takes (`str`, *optional*):
            What a function of your own compares: `"numbers"` (the default), `"labels"` and so on, see
            [`~trl_mle.competitions.metrics.Takes`].
    """

    metric: str
    id_column: str
    target_columns: tuple[str, ...] = ()
    answers: str = "test.csv"
    sample_submission: str = "sample_submission.csv"
    exact_columns: bool = False
    id_first: bool = False
    in_file_order: bool = False
    row_sum_decimals: int | None = None
    higher_is_better: bool | None = None
    takes: str | None = None


MLEBENCH_COMPETITIONS = {
    name: Layout(**entry) for name, entry in read_data(Path(__file__).with_name("catalog.yaml")).items()
}


def competition_from_folder(competition_id: str, layout: Layout, prepared: Path) -> Competition:
    """
    Loads the competition in a prepared folder.

    Args:
        competition_id (`str`):
            Id of the competition; for a mirror, not the id of `layout`.
        layout ([`Layout`]):
            Its files, columns and rules.
        prepared (`Path`):
            Folder that holds `public/` and `private/`.

    Returns:
        [`Competition`]: The competition.

    Raises:
        [`CompetitionError`]: A file is missing or the metric is unknown.
    """
    public, private = prepared / "public", prepared / "private"
    sample, answers = public / layout.sample_submission, private / layout.answers
    for path in (sample, answers):
        if not path.is_file():
            raise CompetitionError(f"{competition_id!r} lacks the file {path}")
    try:
        columns = list(pd.read_csv(sample, nrows=0).columns)
    except ValueError as error:  # pandas' errors, and text that is not UTF-8
        raise CompetitionError(f"{competition_id!r}: {sample} is not a csv file: {error}") from error
    target_columns = layout.target_columns or tuple(name for name in columns if name != layout.id_column)
    missing = [name for name in (layout.id_column, *target_columns) if name not in columns]
    if missing:
        raise CompetitionError(f"{competition_id!r}: {sample} lacks the columns {', '.join(map(repr, missing))}")
    try:
        metric = find_metric(layout.metric, layout.higher_is_better, layout.takes)
    except ValueError as error:
        raise CompetitionError(f"{competition_id!r}: {error}") from error
    return Competition(
        id=competition_id,
        metric=layout.metric,
        public_dir=public,
        sample_submission=sample,
        answers=answers,
        target_columns=target_columns,
        id_column=layout.id_column,
        exact_columns=layout.exact_columns,
        id_first=layout.id_first,
        in_file_order=layout.in_file_order,
        row_sum_decimals=layout.row_sum_decimals,
        custom_metric=None if layout.metric in METRICS else metric,
    )
