"""A probabilistic grammar of programs, good, poor and broken, from which the starter policy learns to write.

It is for warm-starting only: nothing else may import it, but the study of its programs in benchmarks/. A program makes
about a dozen choices one after another, and at each of them it may make a mistake that small language models make,
whatever it did before. So a policy raises its valid rate by unlearning many small mistakes rather than a large one, and
programs fail at every stage between the first import and the last line.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trl_mle.starter.tasks import TASKS, Features


@dataclass(frozen=True)
class Estimator:
    """
    A model that a program may choose.

    Args:
        words (`str`):
            Its name in the plan.
        name (`str`):
            Its class in scikit-learn. A final `*` stands for `Classifier` or `Regressor`.
        module (`str`):
            Where scikit-learn keeps it.
        weight (`float`):
            How often it is chosen, relative to the others.
        settings (`dict[str, tuple]`, *optional*):
            Values to choose from, by keyword.
    """

    words: str
    name: str
    module: str
    weight: float
    settings: dict[str, tuple[object, ...]] = field(default_factory=dict)


# Mostly weak and fast, so that there is something to find: what scores best on digits (support vectors, networks,
# histogram boosting) is rare and takes 10 to 1000 times as long as a small tree. Boosted stumps are slow and poor.
COMMON = (
    Estimator("a constant", "Dummy*", "dummy", 9),
    Estimator("a small tree", "DecisionTree*", "tree", 24, {"max_depth": (1, 2, 3, 4, 5, 6, 8)}),
    Estimator("the nearest neighbour", "KNeighbors*", "neighbors", 7, {"n_neighbors": (1, 1, 1, 2)}),
    Estimator("boosted stumps", "AdaBoost*", "ensemble", 7, {"n_estimators": (50, 100, 200, 300)}),
    Estimator("bagged trees", "Bagging*", "ensemble", 4, {"n_estimators": (10, 20, 50, 100)}),
    Estimator(
        "a random forest",
        "RandomForest*",
        "ensemble",
        9,
        {"n_estimators": (10, 50, 100, 200, 400), "max_depth": (2, 4, 8, 16)},
    ),
    Estimator(
        "extra trees",
        "ExtraTrees*",
        "ensemble",
        6,
        {"n_estimators": (10, 50, 100, 200, 400), "max_depth": (2, 4, 8, 16)},
    ),
    Estimator(
        "gradient boosting", "GradientBoosting*", "ensemble", 3, {"n_estimators": (10, 20), "max_depth": (2, 3)}
    ),
    Estimator(
        "histogram boosting",
        "HistGradientBoosting*",
        "ensemble",
        4,
        {"max_iter": (30, 60, 100), "max_leaf_nodes": (4, 8, 16)},
    ),
    Estimator(
        "a neural network",
        "MLP*",
        "neural_network",
        4,
        {"hidden_layer_sizes": (32, 64, 128), "max_iter": (50, 100, 200)},
    ),
)
CLASSIFIERS = (
    *COMMON,
    Estimator("naive Bayes", "GaussianNB", "naive_bayes", 14),
    Estimator(
        "logistic regression",
        "LogisticRegression",
        "linear_model",
        11,
        {"C": (0.0001, 0.001, 0.01), "max_iter": (1, 2, 3, 5)},
    ),
    Estimator("support vectors", "SVC", "svm", 4, {"C": (0.1, 1, 10)}),
)
REGRESSORS = (
    *COMMON,
    Estimator("least squares", "LinearRegression", "linear_model", 8),
    Estimator("ridge regression", "Ridge", "linear_model", 8, {"alpha": (0.1, 1, 10, 10000)}),
    Estimator("support vectors", "SVR", "svm", 6, {"C": (0.1, 1, 10)}),
)

# Those that predict one column only.
SINGLE_OUTPUT = ("AdaBoostRegressor", "GradientBoostingRegressor", "HistGradientBoostingRegressor", "SVR")

# Words of the plan, constructor and module of what may be done to the features; None stands for nothing.
TRANSFORMS = {
    None: 13,
    ("scaled features", "StandardScaler()", "preprocessing"): 4,
    ("features between 0 and 1", "MinMaxScaler()", "preprocessing"): 2,
    ("principal components", "PCA(n_components=0.9)", "decomposition"): 1,
}


class Sketcher:
    """
    Writes completions for one competition: a plan of one line, then a program. Without slips every program is valid.

    Args:
        competition (`str`):
            A key of `TASKS`. Size and seed of a mirror may follow.
        rng (`random.Random`):
            Source of all randomness.
        slip_rate (`float`, *optional*, defaults to `0.081`):
            Probability of a mistake at each of the places where one may happen.
    """

    def __init__(self, competition: str, rng: random.Random, slip_rate: float = 0.081):
        self.competition = competition
        self.task = TASKS[competition.partition("?")[0]]
        self.rng = rng
        self.slip_rate = slip_rate
        self.choices: dict[str, Any] = {}  # of the last program, its mistakes aside

    def sketch(self, kept: dict[str, Any] | None = None) -> str:
        """
        Write one completion.

        Args:
            kept (`dict[str, Any]`, *optional*):
                Choices that are made already, by their names in `choices`.

        Returns:
            `str`: The completion.
        """
        self.choices = dict(kept or {})
        regression = self.task.kind in ("number", "numbers")
        estimators = [
            estimator
            for estimator in (REGRESSORS if regression else CLASSIFIERS)
            if estimator.words not in self.task.unfit
        ]
        estimator = self._choose(
            "estimator", lambda: self.rng.choices(estimators, [estimator.weight for estimator in estimators])[0]
        )
        transform = self._choose("transform", lambda: self.rng.choices(list(TRANSFORMS), list(TRANSFORMS.values()))[0])
        features = self.task.features[0]
        if len(self.task.features) > 1:
            weights = [features.weight for features in self.task.features]
            features = self._choose("features", lambda: self.rng.choices(self.task.features, weights)[0])

        verb = self.rng.choice(("fit", "train", "try", "use"))
        what = [features.words] if transform is None or len(self.task.features) > 1 else []
        what += [transform[0]] if transform else []
        plan = f"Plan: {verb} {estimator.words} on {', '.join(what)}."
        if self.rng.random() < self.slip_rate / 7:  # a plan and no program
            return plan

        class_name = estimator.name.replace("*", "Regressor" if regression else "Classifier")
        lines = [
            *self._imports(class_name, estimator.module, features, transform),
            *self._load(),
            *self._features(features, transform),
            *self._fit(class_name, self._choose("settings", lambda: self._settings(estimator))),
            *self._predict(),
            *self._submit(),
        ]
        program = "\n".join(line for line in lines if line)
        return f"{plan}\n```python\n{program}\n```"

    def improve(self) -> tuple[str, str]:
        """
        Write a program that changes one or two choices of a valid one (what it fits, with which settings, how it scales
        the features), for better or worse, and makes mistakes as any program does.

        Returns:
            `tuple[str, str]`: The completion with the valid program, and the one that changes it.
        """
        valid = Sketcher(self.competition, self.rng, slip_rate=0)
        previous = valid.sketch()
        while True:
            changed = set(self.rng.sample(("estimator", "settings", "transform"), self.rng.choice((1, 2))))
            if "estimator" in changed:
                changed.add("settings")
            completion = self.sketch({name: choice for name, choice in valid.choices.items() if name not in changed})
            if self.choices != valid.choices:
                return previous, completion

    def _choose(self, name: str, draw: Callable[[], Any]) -> Any:
        """What was kept of an earlier program, or else a choice of its own."""
        if name not in self.choices:
            self.choices[name] = draw()
        return self.choices[name]

    def _slip(self, right: str, *wrong: str) -> str:
        return self.rng.choice(wrong) if self.rng.random() < self.slip_rate else right

    def _wrapper(self, class_name: str) -> tuple[str, str] | None:
        """Name and module of what a model needs around it to predict probabilities, or several numbers."""
        if class_name == "SVC" and self.task.kind in ("probabilities", "probability"):
            return "CalibratedClassifierCV", "calibration"
        if class_name in SINGLE_OUTPUT and self.task.kind == "numbers":
            return "MultiOutputRegressor", "multioutput"
        return None

    def _imports(
        self, class_name: str, module: str, features: Features, transform: tuple[str, str, str] | None
    ) -> list[str]:
        lines = [
            self._slip("import pandas as pd", "import pandas", "import panda as pd", "import numpy as np"),
            self._slip(
                f"from sklearn.{module} import {class_name}",
                "",
                f"from sklearn import {class_name}",
                f"from sklearn.models import {class_name}",
            ),
        ]
        if wrapper := self._wrapper(class_name):
            lines.append(f"from sklearn.{wrapper[1]} import {wrapper[0]}")
        lines += [self._slip(line, "") for line in features.imports]
        if transform:
            _, constructor, module = transform
            name = constructor.partition("(")[0]
            lines.append(self._slip(f"from sklearn.{module} import {name}", "", f"from sklearn import {name}"))
        return lines

    def _load(self) -> list[str]:
        reader, train, test = self.task.reader, self.task.train, self.task.test
        return [
            self._slip(
                f'train = pd.{reader}("input/{train}")',
                f'train = pd.{reader}("{train}")',
                f'train = pd.{reader}("input/{train.replace("train", "training")}")',
                f'train = pd.{reader}("input/{train}"',
                f'data = pd.{reader}("input/{train}")',
            ),
            self._slip(
                f'test = pd.{reader}("input/{test}")',
                f'test = pd.{reader}("{test}")',
                f'test = pd.{reader}("../input/{test}")',
                f'test = pd.{reader.replace("read", "load")}("input/{test}")',
                "",
            ),
        ]

    def _features(self, features: Features, transform: tuple[str, str, str] | None) -> list[str]:
        labels = self.task.labels
        lines = [self._slip(*features.before)] if features.before else []
        lines += [
            self._slip(*features.X),
            self._slip(f"y = {labels}", 'y = train["target"]', "y = train[target]", f"y = {labels[:-1]}"),
            self._slip(*features.X_test),
        ]
        if transform:
            lines += [
                self._slip(f"scaler = {transform[1]}", f"scale = {transform[1]}"),
                self._slip("X = scaler.fit_transform(X)", "X = scaler.transform(X)"),
                self._slip("X_test = scaler.transform(X_test)", "", "X_test = scaler.transform(test)"),
            ]
        return lines

    def _settings(self, estimator: Estimator) -> dict[str, object]:
        return {
            keyword: self.rng.choice(values)
            for keyword, values in estimator.settings.items()
            if self.rng.random() < 0.9
        }

    def _fit(self, class_name: str, settings: dict[str, object]) -> list[str]:
        arguments = ", ".join(f"{keyword}={value}" for keyword, value in settings.items())
        misspelled = ", ".join(f"{keyword.rstrip('s')}_num={value}" for keyword, value in settings.items())
        call = f"{class_name}({arguments})"
        if wrapper := self._wrapper(class_name):
            call = f"{wrapper[0]}({call})"
        lines = [
            self._slip(
                f"model = {call}",
                f"model = {call[:-1]}",
                f"model = {class_name}({misspelled or 'iterations=10'})",
                f"model = {class_name.lower()}({arguments})",
            ),
            self._slip("model.fit(X, y)", "model.fit(y, X)", "model.fit(X)", "model.fit(X_train, y_train)", ""),
        ]
        if self.rng.random() < self.slip_rate / 20:  # endless with most models; rare, because a timeout is dear
            lines.append("while model.score(X, y) < 1:\n    model.fit(X, y)")
        return lines

    def _predict(self) -> list[str]:
        if self.task.kind in ("class", "number", "numbers"):
            return [
                self._slip(
                    "pred = model.predict(X_test)",
                    "pred = model.predict(X)",  # the wrong rows
                    "pred = model.predict(test)",
                    "pred = model.predict_proba(X_test)",
                    "preds = model.predict(X_test)",
                )
            ]
        lines = [
            self._slip(
                "pred = model.predict_proba(X_test)",
                "pred = model.predict(X_test)",
                "pred = model.predict_proba(X)",  # the wrong rows
                "pred = model.predict_probas(X_test)",
                "preds = model.predict_proba(X_test)",
            )
        ]
        if self.task.kind == "probabilities" and (floor := self._choose("floor", self._floor)) is not None:
            lines.append(f"pred = pred.clip({floor}, 1)")
            lines.append(self._slip("pred = pred / pred.sum(axis=1, keepdims=True)", ""))  # else not summing to 1
        return lines

    def _floor(self) -> float | None:
        return self.rng.choice((0.001, 0.01, 0.05)) if self.rng.random() < 0.12 else None

    def _fill(self, *forms: str) -> str:
        return str(self._choose("fill", lambda: self.rng.choice(forms)))

    def _submit(self) -> list[str]:
        column, answer, sample = self.task.column, self.task.answer, self.task.sample
        if self.task.kind == "probabilities":
            fill = self._slip(
                self._fill("sub.iloc[:, 1:] = pred", "sub[sub.columns[1:]] = pred"),
                "sub.iloc[:, :] = pred",
                f'sub["{self.task.target}"] = pred',
                "sub = pd.DataFrame(pred)",
                "sub.iloc[:, 1:] = pd.DataFrame(pred)",  # pandas aligns the columns: NaN
            )
        elif self.task.kind == "probability":
            fill = self._slip(
                self._fill(f'sub["{column}"] = pred[:, 1]', f"sub = sub.assign({column}=pred[:, 1])"),
                f'sub["{column}"] = pred',
                f'sub["{column}"] = pred[:, 0]',  # the other class
                'sub["target"] = pred[:, 1]',
                'sub = pd.DataFrame({"' + column + '": pred[:, 1]})',
            )
        elif self.task.kind == "numbers":
            fill = self._slip(
                self._fill(f"sub.iloc[:, 1:] = {answer}", f"sub[sub.columns[1:]] = {answer}"),
                f"sub.iloc[:, :] = {answer}",
                f'sub["{self.task.target}"] = {answer}',
                f"sub = pd.DataFrame({answer})",
            )
        else:
            fill = self._slip(
                self._fill(f'sub["{column}"] = {answer}', f"sub = sub.assign({column}={answer})"),
                f'sub["{column}"] = y',  # pandas aligns the rows: not what was predicted
                f"sub[{column}] = {answer}",
                'sub = pd.DataFrame({"' + column + f'": {answer}}})',
            )
        return [
            self._slip(
                f'sub = pd.read_csv("input/{sample}")',
                f'sub = pd.read_csv("{sample}")',
                'sub = pd.read_csv("input/submission.csv")',
                f'submission = pd.read_csv("input/{sample}")',
            ),
            fill,
            self._slip(
                'sub.to_csv("submission.csv", index=False)',
                'sub.to_csv("submit.csv", index=False)',
                'sub.to_csv("input/submission.csv", index=False)',
                'sub.to_csv("submission.csv", index=false)',
                'sub.to_csv("submission.csv", index=False',
                "",
            ),
        ]
