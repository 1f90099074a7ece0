"""
A scaffold around a model that is not trained: it drafts programs, repairs those that fail and improves the best, one after
the other, in a tree that is searched greedily.

The shape of the search, and its three numbers, are those of AIDE (https://huggingface.co/papers/2502.13138). The prompts,
the parser and the executor are those of this package, so that a scaffolded model and a trained one differ in nothing
else. It is not AIDE: it has no prompts of AIDE's, no data preview and no model that reads the output.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from trl_mle.competitions.metrics import gain
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.policies import Prompt
from trl_mle.evaluation.sample_log import Sample
from trl_mle.evaluation.self_improvement import validation_score
from trl_mle.rewards import Evaluation


NUM_DRAFTS = 5  # before anything is improved
DEBUG_PROBABILITY = 0.5
MAX_DEBUG_DEPTH = 3  # repairs of repairs

ASK_TO_VALIDATE = (
    "\n\nHold out a part of the training data, compute the competition's metric on it, and assign it to a variable named "
    "after the metric, before you fit the final model."
)


@dataclass(frozen=True)
class Node:
    """
    A program in the tree.

    Args:
        step (`str`):
            `"draft"`, `"debug"` or `"improve"`.
        parent (`int`, *optional*):
            Number of the program that it repairs or improves.
        evaluation ([`~trl_mle.rewards.Evaluation`]):
            What it came to.
        validation_score (`float`, *optional*):
            The score that it reports of itself, see [`~trl_mle.evaluation.validation_score`].
    """

    step: str
    parent: int | None
    evaluation: Evaluation
    validation_score: float | None


def next_step(nodes: Sequence[Node], higher_is_better: bool, rng: random.Random) -> tuple[str, int | None]:
    """
    What to do next: first a few drafts; then, with probability 0.5, repair a failed program that nothing was made of yet;
    else improve the best valid one. The best is told by the scores that programs report of themselves, never by the hidden
    answers; programs that report none come after those that do.

    Args:
        nodes (`Sequence[Node]`):
            The tree so far.
        higher_is_better (`bool`):
            Whether a larger score is better.
        rng (`random.Random`):
            Draws.

    Returns:
        `tuple[str, int | None]`: The step, and the number of the program to repair or improve.
    """
    if sum(node.step == "draft" for node in nodes) < NUM_DRAFTS:
        return "draft", None
    parents = {node.parent for node in nodes}
    broken = [
        i
        for i, node in enumerate(nodes)
        if node.evaluation.source is not None
        and node.evaluation.reward is not None  # a failure of ours is nothing to repair
        and not node.evaluation.valid
        and i not in parents
        and _repairs(nodes, i) < MAX_DEBUG_DEPTH
    ]
    if broken and rng.random() < DEBUG_PROBABILITY:
        return "debug", rng.choice(broken)
    valid = [i for i, node in enumerate(nodes) if node.evaluation.valid]
    if not valid:
        return "draft", None

    def worth(i: int) -> tuple[bool, float]:
        score = nodes[i].validation_score
        return score is not None, gain(score, higher_is_better) if score is not None else 0.0

    return "improve", max(valid, key=worth)


def _repairs(nodes: Sequence[Node], i: int) -> int:
    """How many repairs in a row have led to a program."""
    parent = nodes[i].parent
    return 0 if nodes[i].step != "debug" or parent is None else 1 + _repairs(nodes, parent)


def search_tree(harness: Harness, num_samples: int) -> list[Node]:
    """
    Lets a policy search for a good program.

    Args:
        harness ([`Harness`]):
            Who writes, and what is to be solved; its seed is the search's, too. The sentence that asks to validate is not
            counted in the length of a prompt.
        num_samples (`int`):
            Completions, as many as another policy may sample.

    Returns:
        `list[Node]`: The tree, in the order in which it grew.

    Raises:
        [`~trl_mle.evaluation.harness.NoAnswerError`]: An endpoint does not answer.
    """
    competition, log = harness.competition, harness.log
    nodes: list[Node] = []
    for i in range(num_samples):
        sample = Sample(competition.id, "tree", i)
        step, parent = next_step(nodes, competition.higher_is_better, random.Random(f"{harness.seed}-{i}"))
        if sample not in log.written:
            if parent is None:
                prompt = harness.scratch_prompt()
            else:
                prompt = harness.improve_prompt(nodes[parent].evaluation, failed=step == "debug")
            harness.write([sample], [ask_to_validate(prompt)], step, [parent])
        [evaluation] = harness.execute([sample])
        written = log.written[sample]  # of a run that was interrupted, perhaps, and saw another failure of ours
        nodes.append(Node(written.step, written.parent, evaluation, validation_score(evaluation, competition)))
    return nodes


def ask_to_validate(prompt: Prompt) -> Prompt:
    return [*prompt[:-1], prompt[-1] | {"content": prompt[-1]["content"] + ASK_TO_VALIDATE}]
