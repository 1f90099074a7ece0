"""Small real competitions from scikit-learn's bundled data: no download, graded in milliseconds.

Their features and labels are also part of every installed scikit-learn (`sklearn.datasets`): the sandbox hides that
folder from programs, but `sandbox="none"` does not. They are meant for tests, quickstarts and ablations; results worth
reporting need an MLE-bench competition.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from trl_mle.competitions.competition import Competition
from trl_mle.competitions.prepared import cached_folder, csv_text, description, write_file


TEST_SHARE = 0.3


@dataclass(frozen=True)
class LocalCompetition:
    """
    Definition of a local competition.

    Args:
        title (`str`):
            Heading of its description.
        overview (`str`):
            The task.
        evaluation (`str`):
            How a submission is scored.
        data (`str`):
            What the columns mean.
        metric (`str`):
            Name of the metric.
        targets (`tuple[str, ...]`):
            Columns that a submission predicts.
        baseline (`float`):
            What the sample submission predicts everywhere.
        load (`Callable[[], tuple[DataFrame, DataFrame, DataFrame]]`):
            Returns the features, the labels as train.csv shows them, and the answers in the form of a submission.
        exact_columns (`bool`, *optional*, defaults to `False`):
            Whether a submission may hold no other columns.
    """

    title: str
    overview: str
    evaluation: str
    data: str
    metric: str
    targets: tuple[str, ...]
    baseline: float
    load: Callable[[], tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]]
    exact_columns: bool = False


def _load_digits() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    images, digits = load_digits(return_X_y=True)
    features = pd.DataFrame(images.astype(int), columns=[f"pixel_{i}" for i in range(images.shape[1])])
    one_hot = pd.DataFrame(np.eye(10, dtype=int)[digits], columns=[f"digit_{i}" for i in range(10)])
    return features, pd.DataFrame({"label": digits}), one_hot


def _load_breast_cancer() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    bunch = load_breast_cancer()
    features = pd.DataFrame(bunch.data, columns=[name.replace(" ", "_") for name in bunch.feature_names])
    labels = pd.DataFrame({"malignant": 1 - bunch.target})  # scikit-learn codes malignant as 0
    return features, labels, labels


def _load_diabetes() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    bunch = load_diabetes(scaled=False)
    labels = pd.DataFrame({"progression": bunch.target / 100})  # so that the score, and the reward, is of order 1
    return pd.DataFrame(bunch.data, columns=bunch.feature_names), labels, labels


def _load_wine() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    bunch = load_wine()
    features = pd.DataFrame(bunch.data, columns=[name.replace("/", "_") for name in bunch.feature_names])
    labels = pd.DataFrame({"cultivar": bunch.target})
    return features, labels, labels


LOCAL_COMPETITIONS = {
    "digits": LocalCompetition(
        title="Handwritten digits",
        overview=(
            "Forty-three people wrote digits on a form, and each digit was reduced to an image of 8 x 8 pixels. "
            "Say for every image how likely it is to be each of the ten digits. The images are small, but some hands "
            "are hard to read, so a good solution knows when it is unsure."
        ),
        evaluation=(
            "Submissions are scored by the multi-class logarithmic loss: the mean, over the images of the test set, "
            "of -log(p), where p is the probability given to the true digit. Lower is better; 0 is perfect, and a "
            "uniform guess scores 2.303. Probabilities of 0 are clipped, so one confident mistake costs as much as "
            "36. Every probability must lie in [0, 1], and those of an image must sum to 1."
        ),
        data=(
            "- `id`: the image.\n"
            "- `pixel_0` to `pixel_63`: brightness from 0 to 16, row by row from the upper left corner.\n"
            "- `label`: the digit, 0 to 9 (train only).\n\n"
            "Source: Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI, 1998."
        ),
        metric="log_loss",
        targets=tuple(f"digit_{i}" for i in range(10)),
        baseline=0.1,
        load=_load_digits,
        exact_columns=True,
    ),
    "breast-cancer": LocalCompetition(
        title="Breast cancer diagnosis",
        overview=(
            "A fine needle takes cells from a breast mass, and a microscope image of them is measured: how large the "
            "nuclei are, how rough their outline, how much they vary. Say for every mass how likely it is to be "
            "malignant."
        ),
        evaluation=(
            "Submissions are scored by the area under the ROC curve: the chance that a malignant mass is ranked above "
            "a benign one. Higher is better; 1 is perfect, and a constant scores 0.5. Every prediction must be a "
            "probability in [0, 1]."
        ),
        data=(
            "- `id`: the mass.\n"
            "- Ten properties of the cell nuclei (radius, texture, perimeter, area, smoothness, compactness, "
            "concavity, concave points, symmetry, fractal dimension), each as the mean over the image (`mean_…`), its "
            "standard error (`…_error`) and the mean of the three largest values (`worst_…`).\n"
            "- `malignant`: 1 for malignant, 0 for benign (train only).\n\n"
            "Source: Breast Cancer Wisconsin (Diagnostic), W. Wolberg, N. Street and O. Mangasarian, UCI, 1995."
        ),
        metric="roc_auc",
        targets=("malignant",),
        baseline=0.5,
        load=_load_breast_cancer,
    ),
    "diabetes": LocalCompetition(
        title="Progression of diabetes",
        overview=(
            "442 patients with diabetes were examined once, and again a year later. From the first examination, "
            "predict how far the disease has progressed by the second. There are few patients and much noise: simple "
            "models with some regularization are hard to beat."
        ),
        evaluation=(
            "Submissions are scored by the root mean squared error between the predicted and the measured "
            "progression. Lower is better; 0 is perfect, and a constant scores about 0.71."
        ),
        data=(
            "- `id`: the patient.\n"
            "- `age` in years, `sex` (1 or 2), `bmi` (body mass index), `bp` (mean blood pressure).\n"
            "- `s1` to `s6`: blood serum: total cholesterol, LDL, HDL, total cholesterol / HDL, log of the "
            "triglycerides, blood sugar.\n"
            "- `progression`: a measure of the disease after one year, in hundreds (train only).\n\n"
            'Source: B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, "Least Angle Regression", 2004.'
        ),
        metric="rmse",
        targets=("progression",),
        baseline=1.5,
        load=_load_diabetes,
    ),
    "wine": LocalCompetition(
        title="Wine cultivars",
        overview=(
            "Three cultivars of grape grow in the same region of Italy. From the chemical analysis of a wine, say "
            "which of the three it was made of."
        ),
        evaluation=(
            "Submissions are scored by accuracy: the share of wines whose cultivar is right. Higher is better; 1 is "
            "perfect, and naming the most frequent cultivar scores about 0.4. Every prediction must be a whole number."
        ),
        data=(
            "- `id`: the wine.\n"
            "- Thirteen measurements, from `alcohol` to `proline`.\n"
            "- `cultivar`: 0, 1 or 2 (train only).\n\n"
            "Source: Wine, S. Aeberhard and M. Forina, UCI, 1992."
        ),
        metric="accuracy",
        targets=("cultivar",),
        baseline=0,
        load=_load_wine,
    ),
}


def load_local(competition_id: str) -> Competition:
    """
    Loads a local competition; its files are written on first use, in MLE-bench's layout.

    Args:
        competition_id (`str`):
            A key of `LOCAL_COMPETITIONS`.

    Returns:
        [`Competition`]: The competition.
    """
    local = LOCAL_COMPETITIONS[competition_id]
    prepared = cached_folder(competition_id, competition_id, partial(_write, local))
    public = prepared / "public"
    return Competition(
        id=competition_id,
        metric=local.metric,
        public_dir=public,
        sample_submission=public / "sample_submission.csv",
        answers=prepared / "private" / "test.csv",
        target_columns=local.targets,
        exact_columns=local.exact_columns,
    )


def _write(local: LocalCompetition, prepared: Path) -> None:
    features, labels, answers = local.load()
    # scikit-learn's rows are partly sorted by class, so use random ids and a random order. RandomState, because numpy
    # promises that its stream never changes.
    random = np.random.RandomState(0)
    order = random.permutation(len(features))
    numbers = random.choice(np.arange(10_000, 100_000), len(features), replace=False)
    ids = pd.DataFrame({"id": [f"id{number}" for number in numbers]})
    test, train = np.split(order, [round(TEST_SHARE * len(features))])

    sample = pd.concat([ids, answers], axis=1).iloc[test].assign(**dict.fromkeys(local.targets, local.baseline))
    public = {
        "train.csv": pd.concat([ids, features, labels], axis=1).iloc[train],
        "test.csv": pd.concat([ids, features], axis=1).iloc[test],
        "sample_submission.csv": sample,
    }
    for name, table in public.items():
        write_file(prepared / "public" / name, csv_text(table))
    text = description(
        title=local.title,
        overview=local.overview,
        evaluation=local.evaluation,
        submission="One row for each `id` of `test.csv`, in any order, below this header:",
        sample=sample,
        data=f"- `train.csv`: {len(train)} rows with their labels.\n"
        f"- `test.csv`: {len(sample)} rows to predict.\n"
        f"- `sample_submission.csv`: a submission in the right format.\n\n{local.data}",
    )
    write_file(prepared / "public" / "description.md", text)
    write_file(prepared / "private" / "test.csv", csv_text(pd.concat([ids, answers], axis=1).iloc[test]))
