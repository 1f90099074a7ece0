"""Ideas of what to fit: where they come from, whose turn it is, and where prompts name them."""

import ast
import pickle
import random

import numpy as np
import pandas as pd
import pytest
from support.on_cpu import ON_CPU

from trl_mle.competitions import TaskSet, load_competition
from trl_mle.competitions.own import new_competition
from trl_mle.execution import Limits, LocalExecutor, Outcome
from trl_mle.execution.program import REQUIRED
from trl_mle.prompts import Idea, Ideas
from trl_mle.prompts.ideas import NUMBER
from trl_mle.prompts.opening import opening
from trl_mle.trainer import MLEGRPOConfig
from trl_mle.trainer.asking.dataset import scratch_dataset


NOMAD, SPOOKY = "mirror:nomad2018-predict-transparent-conductors", "mirror:spooky-author-identification"
ANSWERS = {  # of classes, two numbers, texts, numbers from texts, images
    "digits": "submission[targets] = model.predict_proba(X_test)",
    NOMAD: "submission[targets] = model.predict(X_test)",
    SPOOKY: "submission[targets] = model.predict_proba(X_test)",
    "mirror:us-patent-phrase-to-phrase-matching": 'submission["score"] = model.predict(X_test)',
    "mirror:plant-pathology-2020-fgvc7": "submission[targets] = model.predict_proba(X_test)",
}


@pytest.fixture(scope="module")
def default():
    return Ideas("default")


@pytest.mark.parametrize("name", ANSWERS)
def test_default_ideas_differ_and_begin_programs(name, default):
    comp = load_competition(name)
    ideas = default.of(comp)
    assert 16 <= len(ideas) <= 24
    assert len({idea.name for idea in ideas}) == len(ideas)
    for idea in ideas:
        begun = opening(comp, idea)
        ast.parse(begun.removeprefix("```python\n"))
        assert begun.endswith(idea.imports)
        # Probabilities of several classes are asked for in code
        begins = "then" if len(comp.target_columns) > 2 else "set"
        assert f"# Fit {idea.fit} to X_train and y_train, {begins} submission[" in begun
        assert idea.code.strip() in begun


@pytest.mark.parametrize("name", ["digits", NOMAD])
def test_a_variation_differs_in_one_number_and_can_be_varied_again(name, default):
    comp, rng, numbers = load_competition(name), random.Random(0), 0
    for idea in default.of(comp):
        before = idea
        for _ in range(20):
            varied = default.varied(comp, before.name, rng)
            if varied is None:
                assert not NUMBER.search(idea.fit)
                break
            numbers += 1
            assert (varied.imports, varied.code, varied.features) == (idea.imports, idea.code, idea.features)
            assert NUMBER.sub("0", varied.fit) == NUMBER.sub("0", idea.fit)
            values = list(zip(NUMBER.findall(before.fit), NUMBER.findall(varied.fit), strict=True))
            assert sum(old != new for old, new in values) <= 1  # 1 cannot be halved
            ast.parse(varied.fit)
            before = varied
    assert numbers >= 100
    assert default.varied(comp, "a forest of 300 trees", rng) is None


@pytest.mark.parametrize("name", ["digits", "diabetes", NOMAD])
def test_packages_that_programs_may_lack_add_ideas(name, default):
    comp = load_competition(name)
    more = Ideas("default", packages=["lightgbm"]).of(comp)
    added = [idea for idea in more if idea not in default.of(comp)]
    assert {idea.imports.split()[1] for idea in added} == {"lightgbm"}
    assert [idea for idea in more if idea not in added] == default.of(comp)


def test_every_idea_comes_once_before_any_comes_twice(default):
    comp = load_competition("digits")
    ideas = default.of(comp)
    turns = [default.turn(comp, i) for i in range(3 * len(ideas))]
    rounds = [turns[i : i + len(ideas)] for i in range(0, len(turns), len(ideas))]
    assert all(sorted(map(repr, part)) == sorted(map(repr, ideas)) for part in rounds)
    assert rounds[0] != rounds[1]
    again, other = pickle.loads(pickle.dumps(default)), Ideas("default", seed=1)
    assert turns == [again.turn(comp, i) for i in range(len(turns))]
    assert turns != [other.turn(comp, i) for i in range(len(turns))]


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "ideas.yaml"
    path.write_text(
        "- a forest of deep trees\n- {fit: SVR(), import: from sklearn.svm import SVR, one_output: true}\n"
    )
    ideas = Ideas(str(path))
    # One output is repeated for several columns, but classes have one
    for name, fit in (NOMAD, "MultiOutputRegressor(SVR())"), ("diabetes", "SVR()"), ("digits", "SVR()"):
        comp = load_competition(name)
        forest, svr = ideas.of(comp)
        assert forest == Idea("a forest of deep trees")
        assert (svr.fit, "MultiOutputRegressor" in svr.imports) == (fit, name == NOMAD)
        assert opening(comp, forest).endswith("from sklearn")  # the import is the model's to write
    assert ideas.identity != Ideas("default").identity


@pytest.mark.parametrize("content", ["", "- {model: Ridge()}", "- {fit: 3}"])
def test_a_file_that_lists_none(tmp_path, content):
    path = tmp_path / "ideas.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=f"ideas: {path}"):
        Ideas(str(path))


def test_a_dataset_asks_for_them_in_turn():
    tasks = TaskSet(["digits", "wine"])
    args = MLEGRPOConfig(
        "out", **ON_CPU, max_steps=4, per_device_train_batch_size=8, num_generations=4, ideas="default"
    )
    limits = Limits(packages=(*REQUIRED, "lightgbm"))
    rows = list(scratch_dataset(tasks, limits, args))
    ideas = Ideas("default", args.seed, limits.packages)
    for name in tasks:
        own = [row for row in rows if row["competition"] == name]
        assert [row["idea"] for row in own] == [ideas.turn(tasks[name], i).name for i in range(len(own))]
        assert len({row["prompt"][-1]["content"] for row in own}) == len(own) == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_every_default_idea_can_be_followed(name, default):
    """A program that does what the begun one says is valid."""
    check_every_idea(load_competition(name), default.of(load_competition(name)), ANSWERS[name])


@pytest.mark.slow
def test_every_default_idea_can_be_followed_where_cells_are_missing(default, tmp_path):
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(200, 4)), columns=list("abcd"))
    labels = (numbers[["a", "b"]] + rng.normal(size=(200, 2)) > 0).astype(int).set_axis(["mean", "rude"], axis=1)
    texts = pd.Series([" ".join(rng.choice(["good", "bad", "plot", "film"], 6)) for _ in labels.index], name="text")
    for name, features, targets, columns in (
        ("several", numbers.mask(numbers > 2), ["mean", "rude"], "targets] = model.predict_proba"),
        ("texts", texts.mask(labels.index % 7 == 0, ""), ["rude"], '"rude"] = model.predict'),
    ):
        pd.concat([features, labels[targets]], axis=1).to_csv(tmp_path / "table.csv", index=False)
        comp = new_competition(tmp_path / "table.csv", targets, "mean_columnwise_roc_auc", tmp_path / name)
        check_every_idea(comp, default.of(comp), f"submission[{columns}(X_test)")


def check_every_idea(comp, ideas, answer):
    rest = f'model.fit(X_train, y_train)\n{answer}\nsubmission.to_csv("submission.csv", index=False)\n'
    begun = [opening(comp, idea).removeprefix("```python") for idea in ideas]
    fits = [text.partition("# Fit ")[2].partition(" to X_train")[0] for text in begun]
    programs = [f"{text}\nmodel = {fit}\n{rest}" for text, fit in zip(begun, fits, strict=True)]
    with LocalExecutor(timeout_s=120, memory_mb=4096) as executor:
        results = executor.run_many([(program, comp) for program in programs])
    for idea, result in zip(ideas, results, strict=True):
        assert result.outcome is Outcome.OK, (idea.name, result.stderr[-300:])
        assert comp.grade(result.submission).valid, idea.name
        assert result.duration_s < 60, idea.name
