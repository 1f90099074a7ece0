"""Ideas of what a program may fit, so that the programs of a policy differ: default ones, or those of a file."""

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from trl_mle.competitions import Competition
from trl_mle.competitions.metrics import Takes
from trl_mle.execution.program import OPTIONAL
from trl_mle.prompts.features import what_it_reads


DEFAULT = Path(__file__).with_name("ideas.yaml")
NUMBER = re.compile(r"(?<=[=(, ])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")  # in the arguments of a model
STEPS = 1 / 3, 1 / 2, 2, 3  # factors of a number that is varied
VARIED = 8  # ideas with the best programs
Program = TypeVar("Program")


@dataclass(frozen=True)
class Idea:
    """
    What a program is asked to fit, in the begun program or the last sentence of the prompt.

    Args:
        fit (`str`):
            A model, such as `"ExtraTreesClassifier(n_estimators=300)"`, or a phrase that fits after "Fit".
        imports (`str`, *optional*):
            The lines of Python that import it, with which the begun program ends.
        features (`str`, *optional*), code (`str`, *optional*):
            Other features than the begun program's, and the lines that make them of `X_train` and `X_test`.
        one_output (`bool`, *optional*, defaults to `False`):
            Whether it predicts one column only.
    """

    fit: str
    imports: str = ""
    features: str = ""
    code: str = ""
    one_output: bool = False

    @property
    def name(self) -> str:
        """What logs and reports call it."""
        return f"{self.fit} on {self.features}" if self.features else self.fit

    def for_columns(self, count: int) -> "Idea":
        """The same for this many columns to predict."""
        return self.within("multioutput", "MultiOutputRegressor") if count > 1 and self.one_output else self

    def within(self, module: str, model: str) -> "Idea":
        """The same for several columns, within a model of scikit-learn that fits one for each."""
        imports = f"{self.imports}\nfrom sklearn.{module} import {model}".lstrip("\n")
        return replace(self, fit=f"{model}({self.fit})", imports=imports, one_output=False)


class Ideas:
    """
    The ideas of a run, which take turns.

    Args:
        source (`str`, *optional*):
            `"default"` (`ideas.yaml`), the path of a YAML list of phrases or the fields of an [`Idea`], where
            `imports` is called `import`, or `None` or `"none"`.
        seed (`int`, *optional*, defaults to `0`):
            Seed of their order.
        packages (`Sequence[str]`, *optional*):
            Packages that programs can import: default ideas that name another one of
            [`~trl_mle.execution.Limits`]' optional packages are left out.

    Raises:
        `ValueError`, `OSError`: The file does not list ideas, or cannot be read.
    """

    def __init__(self, source: str | None = None, seed: int = 0, packages: Sequence[str] = ()):
        self.source, self.seed, self.packages = source or "none", seed, packages
        self.own = _read(self.source) if self.source not in ("none", "default") else []

    def __bool__(self) -> bool:
        return self.source != "none"

    @property
    def identity(self) -> str | list[str]:
        """Identifies the ideas in the settings of a log."""
        return [repr(idea) for idea in self.own] or self.source

    def of(self, comp: Competition) -> list[Idea]:
        """The ideas for a competition; there are no default ones for predicting texts."""
        ideas = self.own
        if self.source == "default":
            lacking = [f"from {name} " for name in OPTIONAL if name not in self.packages]
            ideas = [idea for idea in _default_for(comp) if not idea.imports.startswith(tuple(lacking))]
        # Several columns may be the probabilities of classes, which classifiers predict together
        columns = len(comp.target_columns) if comp.scoring.takes is Takes.NUMBERS else 1
        return [idea.for_columns(columns) for idea in ideas]

    def turn(self, comp: Competition, number: int) -> Idea | None:
        """The idea for the `number`-th group of programs: in rounds, each with every idea in an order of its own."""
        ideas = self.of(comp)
        if not ideas:
            return None
        turn, place = divmod(number, len(ideas))
        return random.Random(f"{self.seed} {comp.id} {turn}").sample(ideas, len(ideas))[place]

    def variation(
        self, comp: Competition, ranked: Iterable[tuple[str | None, Program]], rng: random.Random
    ) -> tuple[Program, Idea] | None:
        """Varies one of the best ideas, better ones more often. `ranked` has programs, best first, with the names of
        their ideas. Returns the best program of the idea, and the variation; `None` without one."""
        best: dict[str, Program] = {}
        for name, program in ranked:
            if name is not None and NUMBER.search(name):
                best.setdefault(name, program)
        names = list(best)[:VARIED]
        if not names:
            return None
        name = rng.choices(names, weights=range(len(names), 0, -1))[0]
        idea = self.varied(comp, name, rng)
        return None if idea is None else (best[name], idea)

    def varied(self, comp: Competition, name: str, rng: random.Random) -> Idea | None:
        """The idea of this name, or a variation of it, with one of its numbers changed, if possible."""
        alike = {NUMBER.sub("0", idea.name): idea for idea in self.of(comp)}
        idea = alike.get(NUMBER.sub("0", name))
        fit = name if idea is None else name.removesuffix(f" on {idea.features}")
        numbers = list(NUMBER.finditer(fit))
        if idea is None or not numbers:
            return None
        number, factor = rng.choice(numbers), rng.choice(STEPS)
        value = float(number[0]) * factor
        text = f"{max(1, round(value))}" if number[0].isdecimal() else f"{value:.3g}"
        return replace(idea, fit=fit[: number.start()] + text + fit[number.end() :])


@lru_cache(maxsize=1024)  # tables are read once
def _default_for(comp: Competition) -> list[Idea]:
    if comp.scoring.takes is Takes.TEXTS:
        return []
    default, reads = _default(), what_it_reads(comp)
    kind = "numbers" if comp.scoring.takes is Takes.NUMBERS else "classes"
    ideas = [_idea(entry) for entry in default[kind]["texts" if reads == "texts" else "tables"]]
    if reads == "images":  # thousands of pixels
        ideas = [replace(idea, **default["images"]) for idea in ideas]
    return list(dict.fromkeys(ideas))


@cache
def _default() -> Any:
    return yaml.safe_load(DEFAULT.read_text(encoding="utf-8"))


def _idea(entry: Any) -> Idea:
    if isinstance(entry, str):
        return Idea(entry)
    idea = Idea(**{"imports" if name == "import" else name: value for name, value in entry.items()})
    if not all(isinstance(text, str) for text in (idea.fit, idea.imports, idea.features, idea.code)):
        raise TypeError(f"{entry} has a field that is no text")
    return idea


def _read(path: str) -> list[Idea]:
    try:
        entries = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        if not entries or not isinstance(entries, list):
            raise TypeError("it is no YAML list")
        return [_idea(entry) for entry in entries]
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, AttributeError) as error:
        raise ValueError(f"ideas: {path} must list phrases, or fit, import, features and code: {error}") from error
