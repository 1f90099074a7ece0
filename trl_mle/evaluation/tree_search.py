"""
A scaffold around an untrained model: it drafts programs, repairs failed ones and improves the best, one at a time, in
a greedy tree search with the constants of AIDE (https://huggingface.co/papers/2502.13138). The prompts, the parser and
the executor are this package's, so that scaffolded and trained models differ in nothing else.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from trl_mle.competitions.metrics import gain
from trl_mle.evaluation.harness import Harness
from trl_mle.evaluation.policies import Prompt
from trl_mle.evaluation.sample_log import Sample
from trl_mle.evaluation.self_improvement import validation_score
from trl_mle.prompts import without_opening
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
    A program in the tree. `step` is `"draft"`, `"debug"` or `"improve"`, and `parent` the number of the program that
    it repairs or improves.
    """

    step: str
    parent: int | None
    evaluation: Evaluation
    validation_score: float | None


def next_step(nodes: Sequence[Node], higher_is_better: bool, rng: random.Random) -> tuple[str, int | None]:
    """
    Chooses the next step: first a few drafts; then, with probability 0.5, repair a failed program that has no children
    yet; otherwise improve the best valid program. The best program is the one with the best self-reported score;
    programs that report none rank last. The hidden answers are never used.
    """
    if sum(node.step == "draft" for node in nodes) < NUM_DRAFTS:
        return "draft", None
    parents = {node.parent for node in nodes}
    broken = [
        i
        for i, node in enumerate(nodes)
        if node.evaluation.source is not None
        and node.evaluation.reward is not None  # not a failure of our infrastructure
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
    """Number of consecutive repairs that led to a program."""
    parent = nodes[i].parent
    return 0 if nodes[i].step != "debug" or parent is None else 1 + _repairs(nodes, parent)


def search_tree(harness: Harness, num_samples: int) -> list[Node]:
    """
    Lets a policy search for a good program.

    Args:
        harness ([`Harness`]):
            The policy and the competition; its seed also seeds the search.
        num_samples (`int`):
            Number of completions.

    Returns:
        `list[Node]`: The nodes, in the order in which the tree grew.

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
                prompt = harness.scratch_prompt(i)
            else:
                prompt = harness.improve_prompt(nodes[parent].evaluation, failed=step == "debug")
            harness.write([sample], [ask_to_validate(prompt)], step, [parent])
        [evaluation] = harness.execute([sample])
        written = log.written[sample]  # perhaps of an interrupted run, which saw other failures of our infrastructure
        nodes.append(Node(written.step, written.parent, evaluation, validation_score(evaluation, competition)))
    return nodes


def ask_to_validate(prompt: Prompt) -> Prompt:
    """The same prompt, whose user asks for a score on rows that were held out."""
    *asked, last = without_opening(prompt)
    return [*asked, last | {"content": last["content"] + ASK_TO_VALIDATE}, *prompt[len(asked) + 1 :]]
