"""Models and feature transforms that a program of the grammar can choose."""

from dataclasses import dataclass, field
from pathlib import Path

from trl_mle.data_files import read_data


@dataclass(frozen=True)
class Estimator:
    """
    A model that a program can choose.

    Args:
        words (`str`):
            Its name in the plan.
        name (`str`):
            Its class in scikit-learn. A final `*` stands for `Classifier` or `Regressor`.
        module (`str`):
            Its module in scikit-learn.
        weight (`float`):
            Relative frequency of choosing it.
        settings (`dict[str, tuple]`, *optional*):
            Values to choose from, by keyword. The first keyword is always set, the others half of the time each.
    """

    words: str
    name: str
    module: str
    weight: float
    settings: dict[str, tuple[object, ...]] = field(default_factory=dict)


# Models that predict only one column
SINGLE_OUTPUT = ("AdaBoostRegressor", "GradientBoostingRegressor", "HistGradientBoostingRegressor", "SVR")


@dataclass(frozen=True)
class Transform:
    """
    A transform of the features before the model.

    Args:
        words (`str`):
            Its name in the plan; empty for no transform.
        code (`str`):
            Code that creates it.
        module (`str`):
            Its module in scikit-learn.
        weight (`float`):
            Relative frequency of choosing it.
    """

    words: str
    code: str
    module: str
    weight: float


_DATA = read_data(Path(__file__).with_name("estimators.yaml"))
CLASSIFIERS, REGRESSORS = (
    tuple(Estimator(**entry) for entry in (*_DATA["common"], *_DATA[kind])) for kind in ("classifiers", "regressors")
)
TRANSFORMS = tuple(Transform(**entry) for entry in _DATA["transforms"])
