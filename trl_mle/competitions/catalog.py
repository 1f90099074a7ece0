"""The paper's 12 MLE-bench competitions, and loading of prepared folders."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from trl_mle.competitions.competition import Competition, CompetitionError
from trl_mle.competitions.metrics import METRICS, find_metric
from trl_mle.data_files import read_data


CONFIG = "competition.yaml"  # a layout as a file


@dataclass(frozen=True)
class Layout:
    """The facts that a prepared folder does not contain; those without a comment are as in [`Competition`]."""

    metric: str  # as in `find_metric`
    id_column: str
    target_columns: tuple[str, ...] = ()  # by default all columns of the sample submission except the id
    answers: str = "test.csv"  # file in private/
    sample_submission: str = "sample_submission.csv"  # file in public/
    exact_columns: bool = False
    id_first: bool = False
    in_file_order: bool = False
    row_sum_decimals: int | None = None
    group_column: str | None = None
    text_columns: tuple[str, ...] = ()
    higher_is_better: bool | None = None  # only for a function of your own, like `takes`
    takes: str | None = None  # a value of `Takes`

    def __post_init__(self) -> None:
        for file in (self.answers, self.sample_submission):
            if Path(file).is_absolute() or ".." in Path(file).parts:
                raise TypeError(f"{file!r} is not in the competition's own folder")


MLEBENCH_COMPETITIONS = {
    name: Layout(**entry) for name, entry in read_data(Path(__file__).with_name("catalog.yaml")).items()
}


def competition_from_folder(competition_id: str, layout: Layout, prepared: Path) -> Competition:
    """Loads the competition in a folder. Raises [`CompetitionError`] if it is not whole."""
    public, private = prepared / "public", prepared / "private"
    sample, answers = public / layout.sample_submission, private / layout.answers
    for path in (sample, answers):
        if not path.is_file():
            raise CompetitionError(f"{competition_id!r} lacks the file {path}")
    try:
        columns = list(pd.read_csv(sample, nrows=0).columns)
        metric = find_metric(layout.metric, layout.higher_is_better, layout.takes)
    except ValueError as error:  # pandas' errors, and text that is not UTF-8, among them
        raise CompetitionError(f"{competition_id!r}: {error}") from error
    targets = layout.target_columns or tuple(name for name in columns if name != layout.id_column)
    if missing := [name for name in (layout.id_column, *targets) if name not in columns]:
        raise CompetitionError(f"{competition_id!r}: {sample} lacks the columns {', '.join(map(repr, missing))}")
    if layout.id_column in targets or len(set(targets)) < len(targets) or not set(layout.text_columns) <= set(targets):
        raise CompetitionError(
            f"{competition_id!r}: target_columns must be different columns without the id, and text_columns among them"
        )
    shared = vars(layout) | {"sample_submission": sample, "answers": answers, "target_columns": targets}
    del shared["higher_is_better"], shared["takes"]  # of the metric
    custom_metric = None if layout.metric in METRICS else metric
    return Competition(competition_id, public_dir=public, custom_metric=custom_metric, **shared)
