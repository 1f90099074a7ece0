"""A probabilistic grammar of good, poor and broken programs, from which the starter policy learns to write. Each line
may contain a mistake, so that programs fail at every stage."""

import keyword
import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

from trl_mle.competitions import CompetitionError, load_competition
from trl_mle.data_files import read_data
from trl_mle.starter.tasks import CLASSIFIERS, REGRESSORS, TASKS, TRANSFORMS, Estimator, Part, Task
from trl_mle.starter.tasks_own import own_tasks


LINES = read_data(Path(__file__).with_name("lines.yaml"))
# Models that predict only one column
SINGLE_OUTPUT = ("AdaBoostRegressor", "GradientBoostingRegressor", "HistGradientBoostingRegressor", "SVR")

# Probabilities of rare choices
ANOTHER_PART = 0.25  # another part of the features, repeatedly
PARTNER = 0.1  # a second model
TUNING = 0.05  # tune a setting by cross-validation
CHECK = 0.15  # print a cross-validation score
LOGARITHM = 0.25  # of the target, if it makes sense
MIXING = 0.15  # with a uniform guess


@cache
def find_tasks(competition: str) -> tuple[Task, ...]:
    """The ways to solve a competition, one of which a program takes: a key of `TASKS`, optionally followed by a
    mirror's size and seed, or the folder of a table, as `trl-mle new` makes it."""
    name = competition.partition("?")[0]
    if name in TASKS:
        return TASKS[name]
    try:
        return own_tasks(load_competition(competition))
    except CompetitionError as error:
        local = ", ".join(name for name in TASKS if not name.startswith("mirror:"))
        covered = f"but {local}, the mirrors, and tables made by `trl-mle new`"
        raise CompetitionError(f"the starter's grammar does not cover {competition!r}, {covered}: {error}") from error


Drawn = TypeVar("Drawn", Part, Estimator, Task)


class Sketcher:
    """Writes completions for a competition: a one-line plan, then a program. `slip_rate` is the probability of a
    mistake at each place where one can happen."""

    def __init__(self, competition: str, rng: random.Random, slip_rate: float = 0.06):
        self.tasks = find_tasks(competition)
        self.rng = rng
        self.slip_rate = slip_rate

    def sketch(self) -> str:
        """Writes one completion."""
        task = self._drawn(self.tasks)
        estimators = REGRESSORS if task.kind in ("number", "numbers") else CLASSIFIERS
        models = [model for model in estimators if model.words not in task.unfit]
        estimator = self._drawn(models)
        partner = self._drawn(models) if self.rng.random() < PARTNER else None
        parts = self._parts(task)
        transform = self._drawn(TRANSFORMS)

        verb = self.rng.choice(("fit", "train", "try", "use"))
        who = f"{estimator.words} and {partner.words}" if partner else estimator.words
        plan = f"Plan: {verb} {who} on {', '.join(part.words for part in (*parts, transform) if part.words)}."
        if self.rng.random() < self.slip_rate / 7:  # a plan without a program
            return plan

        imports: list[str] = []
        body = [*self._load(task), *self._features(task, parts, imports)]
        is_logarithm = task.logs and self.rng.random() < LOGARITHM
        labels = f"np.log1p({task.labels})" if is_logarithm else task.labels
        body += [
            self._line("split"),
            self._line("labels", labels=labels, target=task.target),
            *self._transform(transform, imports),
            *self._fit(task, estimator, partner, imports),
            *self._predict(task, is_logarithm),
            *self._submit(task),
        ]
        lines = [*self._imports(imports, with_numpy=any("np." in line for line in body)), *body]
        program = "\n".join(line for line in lines if line)
        return f"{plan}\n```python\n{program}\n```"

    def _drawn(self, items: Iterable[Drawn]) -> Drawn:
        items = list(items)
        return self.rng.choices(items, [item.weight for item in items])[0]

    def _parts(self, task: Task) -> list[Part]:
        parts = [self._drawn(task.parts)]
        while len(parts) < len(task.parts) and self.rng.random() < ANOTHER_PART:
            parts.append(self._drawn(part for part in task.parts if part not in parts))
        return parts

    def _settings(self, of: Estimator | Part) -> str:
        """Arguments as a program writes them. The first is always set, the others half of the time each."""
        set_ = [keyword for number, keyword in enumerate(of.settings) if not number or self.rng.random() < 0.5]
        settings = {keyword: self.rng.choice(of.settings[keyword]) for keyword in set_}
        return ", ".join(f"{keyword}={value}" if keyword else f"{value}" for keyword, value in settings.items())

    # Lines of code; the first form of each is correct, and the others are mistakes

    def _slip(self, right: str, *wrong: str) -> str:
        return self.rng.choice(wrong) if wrong and self.rng.random() < self.slip_rate else right

    def _line(self, name: str, **values: object) -> str:
        return self._slip(*(form.format(**values) for form in LINES[name]))

    def _imports(self, imports: list[str], with_numpy: bool) -> list[str]:
        lines = [self._line("pandas")]
        if with_numpy:
            lines.append("import numpy as np")
        for line in dict.fromkeys(imports):
            package, _, name = line.partition(" import ")
            wrong = [f"{package.partition('.')[0]} import {name}"] if "." in package else []
            lines.append(self._slip(line, "", *wrong))
        return lines

    def _load(self, task: Task) -> list[str]:
        training, loader = task.train.replace("train", "training"), task.reader.replace("read", "load")
        return [
            self._line("read_train", reader=task.reader, train=task.train, training=training),
            self._line("read_test", reader=task.reader, test=task.test, loader=loader),
            task.prepare,
        ]

    def _features(self, task: Task, parts: list[Part], imports: list[str]) -> list[str]:
        lines = [self._line("both")]
        imports += task.imports
        if task.base:
            base = self.rng.choice(task.base)
            lines.append(self._slip(base, base.replace("both", "data"), base.replace("both[", "both(")))
        lines += dict.fromkeys(part.before for part in parts)
        for number, part in enumerate(parts):
            imports += part.imports
            code = part.code.replace("{settings}", self._settings(part))
            line = f"X = np.hstack([X, {code}])" if number else f"X = {code}"
            lines.append(self._slip(line, f"{line})", line.replace("X = ", "x = ", 1), f"{line}[:len(train)]"))
        return lines

    def _transform(self, transform: Part, imports: list[str]) -> list[str]:
        if not transform.words:
            return []
        imports += transform.imports
        return [self._line("scaler", code=transform.code), self._line("scale_train"), self._line("scale_test")]

    def _model(self, task: Task, estimator: Estimator, imports: list[str]) -> str:
        name = estimator.name.replace("*", _suffix(task))
        imports.append(f"from sklearn.{estimator.module} import {name}")
        model = f"{name}({self._settings(estimator)})"
        if name == "SVC" and task.kind in ("probabilities", "probability"):
            imports.append("from sklearn.calibration import CalibratedClassifierCV")
            model = f"CalibratedClassifierCV({model})"
        return model

    def _fit(self, task: Task, estimator: Estimator, partner: Estimator | None, imports: list[str]) -> list[str]:
        model = self._model(task, estimator, imports)
        if partner is not None:
            way = self.rng.choice(("Voting", "Voting", "Stacking")) + _suffix(task)
            imports.append(f"from sklearn.ensemble import {way}")
            soft = ', voting="soft"' if way == "VotingClassifier" and task.kind != "class" else ""
            other = self._model(task, partner, imports)
            model = f'{way}([("a", {model}), ("b", {other})]{soft})'
        if task.kind == "numbers" and (partner is not None or model.partition("(")[0] in SINGLE_OUTPUT):
            imports.append("from sklearn.multioutput import MultiOutputRegressor")
            model = f"MultiOutputRegressor({model})"
        misspelled = f"{model[:-1]}iterations=10)" if model.endswith("()") else f"{model[:-1]}, iterations=10)"
        lines = [self._slip(*(f"model = {form}" for form in (model, model[:-1], misspelled, model.lower())))]
        if model.startswith(estimator.name.rstrip("*")) and estimator.settings and self.rng.random() < TUNING:
            keyword, values = next(iter(estimator.settings.items()))
            grid = ", ".join(str(value) for value in dict.fromkeys(values[(len(values) - 1) % 2 :: 2]))
            imports.append("from sklearn.model_selection import GridSearchCV")
            lines.append(f'model = GridSearchCV(model, {{"{keyword}": [{grid}]}}, cv=3)')
        if self.rng.random() < CHECK:
            imports.append("from sklearn.model_selection import cross_val_score")
            lines.append(self._line("check"))
        lines.append(self._line("fit"))
        if self.rng.random() < self.slip_rate / 20:  # endless with most models; rare, because timeouts are expensive
            lines.append("while model.score(X, y) < 1:\n    model.fit(X, y)")
        return lines

    def _predict(self, task: Task, is_logarithm: bool) -> list[str]:
        if task.kind in ("class", "number", "numbers"):
            return [self._line("predict"), "pred = np.expm1(pred)" if is_logarithm else ""]
        lines = [self._line("predict_proba")]
        if task.kind == "probabilities" and self.rng.random() < MIXING:
            share = self.rng.choice((0.01, 0.03, 0.05, 0.1))
            lines.append(self._line("mix", rest=1 - share, share=share))
        return lines

    def _submit(self, task: Task) -> list[str]:
        answer = self.rng.choice(task.answers)
        if task.kind in ("probabilities", "numbers"):
            forms = f"sub.iloc[:, 1:] = {answer}", f"sub[sub.columns[1:]] = {answer}"
            wrong = [f"sub.iloc[:, :] = {answer}", f'sub["{task.target}"] = {answer}', f"sub = pd.DataFrame({answer})"]
        else:
            forms = f'sub["{task.column}"] = {answer}', f"sub = sub.assign({task.column}={answer})"
            if not task.column.isidentifier() or keyword.iskeyword(task.column) or task.column == "self":
                forms = forms[0], forms[0]  # no name of an argument
            wrong = [f"sub[{task.column}] = {answer}", f'sub = pd.DataFrame({{"{task.column}": {answer}}})']
        if task.kind == "probabilities":
            wrong.append("sub.iloc[:, 1:] = pd.DataFrame(pred)")  # pandas aligns the columns: NaN
        elif task.kind == "probability":
            wrong += [forms[0].replace("pred[:, 1]", "pred"), forms[0].replace("pred[:, 1]", "pred[:, 0]")]
        elif task.kind != "numbers":
            wrong.append(f'sub["{task.column}"] = y')  # pandas aligns the rows: not the predictions
        return [
            self._line("read_sample", sample=task.sample),
            self._slip(self.rng.choice(forms), *wrong),
            self._line("write"),
        ]


def _suffix(task: Task) -> str:
    return "Regressor" if task.kind in ("number", "numbers") else "Classifier"
