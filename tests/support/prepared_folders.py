"""Small prepared folders of the 12 MLE-bench competitions, made from their layouts."""

from pathlib import Path

import numpy as np
import pandas as pd

from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS, Layout


ROWS = 12
SPECIES = tuple(f"Acer_{i}" for i in range(99))


def write_prepared_folder(competition_id: str, data_dir: Path) -> pd.DataFrame:
    """Writes a small version of what `mlebench prepare` leaves; returns the right answers as a submission."""
    layout = MLEBENCH_COMPETITIONS[competition_id]
    answers = right_answers(competition_id)
    sample = answers.assign(**dict.fromkeys(answers.columns[1:], _baseline(layout)))
    hidden = answers
    if competition_id == "detecting-insults-in-social-commentary":
        date = {"Date": "20120618192155Z"}
        sample = sample.assign(**date)[["Insult", "Date", "Comment"]]
        hidden = answers.assign(**date, Usage="PrivateTest")[["Insult", "Date", "Comment", "Usage"]]
    if competition_id == "tweet-sentiment-extraction":
        hidden = answers.assign(text="…", sentiment="neutral")[["textID", "text", "selected_text", "sentiment"]]
    public, private = (data_dir / competition_id / "prepared" / name for name in ("public", "private"))
    for folder in (public, private):
        folder.mkdir(parents=True)
    sample.to_csv(public / layout.sample_submission, index=False)
    hidden.to_csv(private / layout.answers, index=False)
    return answers


def right_answers(competition_id: str) -> pd.DataFrame:
    layout = MLEBENCH_COMPETITIONS[competition_id]
    i = np.arange(ROWS)
    ids: list | np.ndarray = [f"id{number}" for number in (i * 7) % ROWS]
    if layout.id_column == "Comment":
        ids = [f'"You, sir, are number {number}!"\nSaid he' for number in (i * 7) % ROWS]
    elif layout.id_column == "Id" or layout.in_file_order:
        ids = 900_000 + i
    targets = layout.target_columns or SPECIES
    match layout.metric:
        case "roc_auc":
            labels = i % 2
        case "quadratic_weighted_kappa":
            labels = 1 + i % 6
        case "accuracy":
            labels = 1 + i % 7
        case "pearson_correlation":
            labels = i % 5 / 4
        case "word_level_jaccard":
            labels = np.array([f"so happy {number}" for number in i], dtype=object)
        case "mean_columnwise_rmsle":
            labels = np.column_stack([0.01 * i, 5 - 0.1 * i])
        case _:  # one column for each class
            labels = np.eye(len(targets), dtype=int)[i % len(targets)]
    return pd.DataFrame({layout.id_column: ids}).join(pd.DataFrame(labels, columns=list(targets)))


def _baseline(layout: Layout) -> float | str:
    match layout.metric:
        case "quadratic_weighted_kappa" | "accuracy":
            return 3
        case "pearson_correlation":
            return 0
        case "word_level_jaccard":
            return "happy"
        case "log_loss":
            return 1 / len(layout.target_columns or SPECIES)
    return 0.5


def write_task(folder, name="", metric="accuracy"):
    """A competition in a folder, as a user's own."""
    for part in ("public", "private"):
        (folder / part).mkdir(parents=True)
    (folder / "public" / "train.csv").write_text("id,y\n1,a\n2,b\n")
    (folder / "public" / "sample_submission.csv").write_text("id,y\n3,a\n4,a\n")
    (folder / "private" / "test.csv").write_text("id,y\n3,a\n4,b\n")
    (folder / "public" / "description.md").write_text("# A task\n")
    (folder / "competition.yaml").write_text(f"metric: {metric}\nid_column: id\n" + (f"id: {name}\n" if name else ""))
    return folder
