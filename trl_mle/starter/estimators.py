"""Models and feature transforms that a program of the grammar can choose."""

from dataclasses import dataclass, field
from pathlib import Path

from trl_mle.data_files import read_data


@dataclass(frozen=True)
class Estimator:
    """A model that a program can choose."""

    words: str  # its name in the plan
    name: str  # its class in scikit-learn; a final * stands for Classifier or Regressor
    module: str  # of scikit-learn
    weight: float  # relative frequency of choosing it
    settings: dict[str, tuple[object, ...]] = field(default_factory=dict)  # as of a `Part`, by keyword


# Models that predict only one column
SINGLE_OUTPUT = ("AdaBoostRegressor", "GradientBoostingRegressor", "HistGradientBoostingRegressor", "SVR")


@dataclass(frozen=True)
class Transform:
    """A transform of the features before the model."""

    words: str  # its name in the plan; empty for no transform
    code: str  # creates it
    module: str  # of scikit-learn
    weight: float  # relative frequency of choosing it


_DATA = read_data(Path(__file__).with_name("estimators.yaml"))
CLASSIFIERS, REGRESSORS = (
    tuple(Estimator(**entry) for entry in (*_DATA["common"], *_DATA[kind])) for kind in ("classifiers", "regressors")
)
TRANSFORMS = tuple(Transform(**entry) for entry in _DATA["transforms"])
