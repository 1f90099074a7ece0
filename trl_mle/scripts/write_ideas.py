"""`trl-mle ideas`: the ideas for a competition: the default ones, or those that a language model writes."""

import argparse
import re
import sys
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import yaml

from trl_mle.competitions import Competition, load_competition
from trl_mle.competitions.metrics import Takes
from trl_mle.evaluation.harness import NoAnswerError
from trl_mle.evaluation.policies import check_policy, load_policy
from trl_mle.execution import Limits
from trl_mle.execution.program import OPTIONAL
from trl_mle.prompts import Idea, Ideas, scratch_prompt
from trl_mle.scripts.printing import print_json
from trl_mle.showing import for_terminal


MAX_TOKENS = 1024  # of the answer
LONGEST = 120  # characters of an idea
ASK = """\
List {count} different ways to predict this, from simple to strong. Each is a model of scikit-learn with its most \
important settings, as in {example}. Write one a line, and nothing else."""


def run(args: argparse.Namespace) -> int:
    """Prints the ideas that the arguments of the command ask for."""
    if args.to and args.policy is None:
        raise ValueError("--to goes with --policy: a language model writes the file")
    competition = load_competition(args.competition, args.data_dir)
    if args.policy is None:
        ideas = Ideas("default", packages=OPTIONAL).of(competition)
    else:
        to = Path(args.to or f"{competition.slug}-ideas.yaml")
        if to.exists() or not to.absolute().parent.is_dir():
            raise OSError(f"--to {to}: name a new file in a folder that exists")
        ideas = ask_for_ideas(competition, args.policy, args.count)
        write_ideas(ideas, to)
        print(f"{len(ideas)} ideas in {to}", file=sys.stderr)
    if args.json:
        print_json([idea.name for idea in ideas])
    else:
        print("\n".join(for_terminal(idea.name) for idea in ideas))
    return 0


def ask_for_ideas(competition: Competition, policy: str, count: int) -> list[Idea]:
    """Asks a policy, as for [`~trl_mle.evaluation.policies.load_policy`], once for so many ideas. Raises `ValueError`
    if it does not answer, or its answer names no model of scikit-learn."""
    check_policy(policy)
    numbers = competition.scoring.takes is Takes.NUMBERS
    example = "ExtraTreesRegressor(n_estimators=300)" if numbers else "ExtraTreesClassifier(n_estimators=300)"
    (message,) = scratch_prompt(competition, Limits())
    task = message["content"].rpartition("\n\n")[0]
    prompt = [{"role": "user", "content": f"{task}\n\n{ASK.format(count=count, example=example)}"}]
    (completion,) = load_policy(policy).sample([prompt], MAX_TOKENS, [0])
    if completion.text is None:
        raise NoAnswerError(f"--policy: no answer: {completion.error or 'the reason is unknown'}")
    ideas = ideas_in(completion.text, "regressor" if numbers else "classifier")[:count]
    if not ideas:
        raise ValueError(f"--policy: the answer names no model of scikit-learn: {for_terminal(completion.text[:200])}")
    return ideas


def ideas_in(answer: str, kind: str) -> list[Idea]:
    """The lines of an answer that name scikit-learn's models of the kind `"classifier"` or `"regressor"`."""
    from sklearn.utils import get_tags
    from sklearn.utils.discovery import all_estimators  # imports all of scikit-learn

    known = {name: cls for name, cls in all_estimators(type_filter=kind) if _needs_nothing(cls)}
    ideas: dict[str, Idea] = {}
    for line in answer.splitlines():
        named = [name for name in dict.fromkeys(re.findall(r"\w+", line)) if name in known]
        text = line[line.index(named[0]) :].replace("**", "").strip(" .:;`\t") if named else ""
        if 0 < len(text) <= LONGEST:
            # The public module is `sklearn.ensemble` of `sklearn.ensemble._forest`
            imports = "\n".join(f"from {known[name].__module__.split('._')[0]} import {name}" for name in named)
            takes_several = all(get_tags(known[name]()).target_tags.multi_output for name in named)
            one_output = kind == "regressor" and not takes_several
            ideas.setdefault(text, Idea(text, imports, one_output=one_output))
    return list(ideas.values())


def write_ideas(ideas: list[Idea], path: Path) -> None:
    """Writes a file that the option `ideas` takes. Raises `FileExistsError` rather than overwrite one."""
    entries = [
        {"fit": idea.fit, "import": idea.imports} | ({"one_output": True} if idea.one_output else {}) for idea in ideas
    ]
    with path.open("x", encoding="utf-8") as file:
        yaml.safe_dump(entries, file, sort_keys=False, allow_unicode=True, width=1000)


def _needs_nothing(cls: Any) -> bool:
    return all(
        item.default is not Parameter.empty or item.kind is Parameter.VAR_KEYWORD
        for item in signature(cls).parameters.values()
    )
