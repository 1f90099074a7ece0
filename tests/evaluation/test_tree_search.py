import random
from collections import Counter

from support.scripted_policy import CountingExecutor, ScriptedPolicy, fenced

from trl_mle.competitions import Score, load_competition
from trl_mle.evaluation import Harness, SampleLog, search_tree
from trl_mle.evaluation.tree_search import DEBUG_PROBABILITY, NUM_DRAFTS, Node, next_step
from trl_mle.execution import Limits
from trl_mle.instrumentation import AstInstrumenter
from trl_mle.rewards import Evaluation, MLEReward


def valid(validation_score=None, step="draft", parent=None, test_score=0.5):
    return Node(step, parent, Evaluation(0.5, 1.0, Score(test_score, True), "ok", source="x"), validation_score)


def failed(step="draft", parent=None):
    return Node(step, parent, Evaluation(-10.0, 1.0, None, "error", source="x"), None)


def steps(nodes, higher_is_better=True, draws=400):
    rng = random.Random(0)
    return Counter(next_step(nodes, higher_is_better, rng) for _ in range(draws))


DRAFTS = [valid()] * NUM_DRAFTS


def test_drafts_come_first():
    for count in range(NUM_DRAFTS):
        assert steps(DRAFTS[:count]) == {("draft", None): 400}
    assert ("draft", None) not in steps(DRAFTS)


def test_the_best_by_its_own_validation_is_improved():
    """The hidden answers, by which the first is best, do not count; a program that reports nothing comes last."""
    nodes = [valid(None, test_score=0.99), valid(0.6), valid(0.8), valid(0.7), valid(None)]
    assert steps(nodes) == {("improve", 2): 400}
    assert steps(nodes, higher_is_better=False) == {("improve", 1): 400}
    assert steps([*nodes, valid(0.9, "improve", 2)]) == {("improve", 5): 400}


def test_a_failed_program_is_repaired_half_of_the_time_and_once():
    nodes = [*DRAFTS, failed("improve", 0)]
    found = steps(nodes)
    assert set(found) == {("debug", 5), ("improve", 0)}
    assert abs(found["debug", 5] / 400 - DEBUG_PROBABILITY) < 0.1
    assert set(steps([*nodes, failed("debug", 5)])) == {("debug", 6), ("improve", 0)}
    repaired_three_times = [*nodes, failed("debug", 5), failed("debug", 6), failed("debug", 7)]
    assert set(steps(repaired_three_times)) == {("improve", 0)}


def test_what_cannot_be_repaired():
    prose = Node("draft", None, Evaluation(-10.0), None)
    ours = Node("draft", None, Evaluation(None, None, None, "infrastructure", source="x"), None)
    assert set(steps([*DRAFTS, prose, ours])) == {("improve", 0)}


def test_without_a_valid_program_it_repairs_or_drafts():
    assert set(steps([failed()] * NUM_DRAFTS)) == {("debug", i) for i in range(NUM_DRAFTS)} | {("draft", None)}


PROGRAM = """\
import pandas as pd
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier
train = pd.read_csv("input/train.csv")
X, y = train.drop(columns=["id", "cultivar"]), train["cultivar"]
model = DecisionTreeClassifier(max_depth={depth}, random_state=0).fit(X[40:], y[40:])
accuracy = accuracy_score(y[:40], model.predict(X[:40]))
sub = pd.read_csv("input/sample_submission.csv")
sub["cultivar"] = model.predict(pd.read_csv("input/test.csv").drop(columns=["id"]))
sub.to_csv("submission.csv", index=False)
"""
LIMITS = {"max_new_tokens": 256, "max_prompt_tokens": 1024, "limits": Limits(), "seed": 0}


def answer(prompt, seed):
    """A draft fails or is a stump; a repair is a stump; an improvement is one level deeper than the tree shown."""
    if "Repair it" in prompt:
        return fenced(PROGRAM.format(depth=1))
    if "Improve it" in prompt:
        shown = int(prompt.split("max_depth=")[1].split(",")[0])
        return fenced(PROGRAM.format(depth=shown + 1))
    return fenced("raise ValueError" if seed % 2 else PROGRAM.format(depth=1))


def test_a_search_finds_better_programs_and_goes_on_after_an_interruption(executor, tmp_path):
    wine = load_competition("wine")

    def search(folder, policy):
        reward = MLEReward([wine], counting := CountingExecutor(executor), AstInstrumenter())
        harness = Harness(policy, wine, reward, SampleLog(folder / "x.jsonl", {}), **LIMITS)
        return search_tree(harness, 8), counting.sources

    policy = ScriptedPolicy(answer)
    nodes, sources = search(tmp_path / "whole", policy)
    assert [node.step for node in nodes[:NUM_DRAFTS]] == ["draft"] * NUM_DRAFTS
    assert {"improve", "debug"} == {node.step for node in nodes[NUM_DRAFTS:]}
    for i, node in enumerate(nodes):
        if node.step == "improve":
            reported = [earlier.validation_score for earlier in nodes[:i] if earlier.validation_score is not None]
            assert nodes[node.parent].validation_score == max(reported)
    assert all("Hold out a part of the training data" in prompt[0]["content"] for prompt in policy.prompts)

    # As if it had been killed while the seventh program ran
    for name, lines in (("completions/x.jsonl", 1 + 7), ("x.jsonl", 6)):  # the first line has the settings
        (tmp_path / "broken" / name).parent.mkdir(parents=True, exist_ok=True)
        whole = (tmp_path / "whole" / name).read_text().splitlines(keepends=True)
        (tmp_path / "broken" / name).write_text("".join(whole[:lines]))
    policy = ScriptedPolicy(answer)
    resumed, rest = search(tmp_path / "broken", policy)
    assert (len(policy.prompts), rest) == (1, sources[6:])
    assert [(node.step, node.parent, node.evaluation.source) for node in resumed] == [
        (node.step, node.parent, node.evaluation.source) for node in nodes
    ]
