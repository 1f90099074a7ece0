import contextlib
import hashlib
import itertools
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from trl_mle.competitions import Competition, CompetitionError, Score, load_competition
from trl_mle.competitions.families import (
    ScoreRange,
    Structure,
    make_task,
    plain_solution,
    reference_solution,
    score_range,
    structure_of,
)
from trl_mle.competitions.families.structure import DEPENDENCES, FORMS, TRAPS
from trl_mle.competitions.families.target import LEAST_ROWS, best_by_kappa, enough, split
from trl_mle.competitions.families.task import _task
from trl_mle.competitions.families.words import DOMAINS, OTHER_UNITS
from trl_mle.execution import LocalExecutor
from trl_mle.prompts import scratch_prompt


SIDES = ("train", "test")
FOLDERS = ("public", "private")


def find(*traps: str, metrics: tuple[str, ...] = tuple(FORMS), dependence: str = "linear") -> str:
    """The first task for training with exactly these traps."""
    ids = (f"task:train/{n}" for n in itertools.count())
    return next(
        task_id
        for task_id in ids
        if (found := structure_of(task_id)).traps == traps
        and found.metric in metrics
        and found.dependence == dependence
    )


def tables(task: Competition) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """train.csv, test.csv and the answers."""
    return tuple(
        pd.read_csv(path) for path in (task.public_dir / "train.csv", task.public_dir / "test.csv", task.answers)
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def normalised(task: Competition, program: str, folder: Path, public: Path | None = None) -> float:
    """Runs a program in a folder, without a sandbox, and returns its normalised score."""
    folder.mkdir()
    (folder / "input").symlink_to(public or task.public_dir)
    (folder / "program.py").write_text(program)
    with contextlib.chdir(folder), threadpool_limits(1):  # as in a slot
        runpy.run_path("program.py")
    score = task.grade(folder / "submission.csv")
    assert score.valid, score.error
    return score_range(task).normalised(score.value)


def test_bytes_are_a_function_of_the_id(tmp_path):
    for folder, task_id in (("a", "task:train/5"), ("b", "task:train/5"), ("c", "task:train/6"), ("d", "task:test/5")):
        _task.cache_clear()
        make_task(task_id, tmp_path / folder)
    a, b, c, d = (contents(tmp_path / folder) for folder in "abcd")
    assert a == b
    assert len({content["private/test.csv"] for content in (a, c, d)}) == 3


def test_another_process_makes_the_same(tmp_path):
    make_task("task:test/7", tmp_path / "here")
    code = f"from pathlib import Path; from trl_mle.competitions.families import make_task; make_task('task:test/7', Path({str(tmp_path / 'there')!r}))"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONHASHSEED": "12345"})
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_a_task_stays_what_it_is():
    """Results refer to tasks by id. A change of the tasks must raise `prepared.VERSION` and update these figures."""
    assert structure_of("task:train/0") == Structure("parcels", "linear", ("duplicates", "imbalance"), "log_loss")
    assert structure_of("task:test/0") == Structure("cars", "linear", ("leak", "duplicates"), "rmse")
    answers = load_competition("task:train/0").answers.read_bytes()
    assert hashlib.sha256(answers).hexdigest()[:16] == "a15d095b9135d39d"


def test_no_structure_is_on_both_sides():
    train, test = ({structure_of(f"task:{side}/{n}") for n in range(400)} for side in SIDES)
    assert len(train) > 350
    assert len(test) > 350
    assert not train & test
    assert {structure.side for structure in train} == {"train"}
    assert {structure.side for structure in test} == {"test"}


@pytest.mark.parametrize("side", SIDES)
def test_everything_occurs_on_either_side(side):
    structures = [structure_of(f"task:{side}/{n}") for n in range(150)]
    assert {structure.domain for structure in structures} == set(DOMAINS)
    assert {structure.dependence for structure in structures} == set(DEPENDENCES)
    assert {structure.metric for structure in structures} == set(FORMS)
    assert {trap for structure in structures for trap in structure.traps} == set(TRAPS)
    assert {len(structure.traps) for structure in structures} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "task_id",
    [
        *("task:", "task:train", "task:train/", "task:valid/1", "task:train/-1", "task:train/01", "task:train/1.5"),
        *("task:train/1?seed=2", "task:train/1/2", "task:test/x", "task:train/1\n", "task:train/1234567890123456789"),
    ],
)
def test_an_id_that_is_wrong_is_one_clear_line(task_id):
    with pytest.raises(CompetitionError, match="write task:train/<n> or task:test/<n> with a whole number") as error:
        load_competition(task_id)
    assert "\n" not in str(error.value)


def test_large_numbers_are_tasks():
    assert load_competition(f"task:test/{10**17}").grade(b"").valid is False


def test_domains_have_what_tasks_need():
    for domain in DOMAINS.values():
        assert sum(number.unit in OTHER_UNITS for number in domain.numbers) >= 3
        assert len({number.column for number in domain.numbers}) >= 7
        names = [number.column for number in domain.numbers] + [
            number.name for number in domain.numbers if number.unit
        ]
        names += [*domain.categories, domain.ordered[0], domain.group[0], domain.date, domain.text[0], domain.leak]
        names += [domain.number, *(getattr(domain, form)[0] for form in {*FORMS.values(), "amount"})]
        assert len(set(names)) == len(names)
        assert all(names == tuple(name.lower() for name in names) for names in domain.categories.values())


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("n", range(12))
def test_a_task_can_be_graded_and_hides_its_labels(side, n):
    task = load_competition(f"task:{side}/{n}", holdout=0.3)
    assert task.slug == f"task-{side}-{n}"
    target = _task(f"task:{side}/{n}").facts["target"]
    train, test, answers = tables(task)
    files = {path.name for path in task.public_dir.iterdir()}
    assert files == {"train.csv", "test.csv", "sample_submission.csv", "description.md"}
    assert target in train
    assert not set(test) & {target, *task.target_columns}
    assert not set(test) - set(train)
    assert not set(train["id"]) & set(test["id"])
    assert list(test["id"]) == list(answers["id"])
    perfect = task.grade(task.answers)
    best = task.scoring.best
    assert perfect == Score(best, valid=True, held_out=best)
    bounds = score_range(task)
    assert task.grade(task.sample_submission).valid
    assert 0 < bounds.normalised(bounds.ceiling) == 1 < bounds.normalised(best)
    prompt = scratch_prompt(task)[0]["content"]
    assert target in prompt
    assert "ceiling" not in prompt + task.description
    assert "{" not in task.description


def test_only_tasks_have_a_ceiling():
    with pytest.raises(CompetitionError, match="'wine' has no ceiling"):
        score_range(load_competition("wine"))
    assert ScoreRange(2.0, 1.0).normalised(1.25) == 0.75


def test_kappa_of_the_ceiling_cannot_be_raised():
    chances = np.random.RandomState(0).dirichlet([0.4, 0.6, 0.3], 6)
    squares = (np.arange(3)[:, None] - np.arange(3)) ** 2

    def quotient(labels) -> float:
        return (chances * squares[list(labels)]).sum() / (chances.mean(axis=0) * squares[list(labels)]).sum()

    least = min(quotient(labels) for labels in itertools.product(range(3), repeat=6) if len(set(labels)) > 1)
    assert quotient(best_by_kappa(chances)) == pytest.approx(least)


def test_each_class_is_in_both_parts_whatever_is_drawn():
    classes = np.zeros(900, int)
    classes[0] = 1
    chances = np.tile([0.98, 0.01, 0.01], (900, 1))
    chances[:, 2] += np.linspace(0, 0.005, 900)
    classes = enough(classes, chances)
    assert np.bincount(classes).tolist() == [880, 10, 10]
    assert set(np.flatnonzero(classes == 2)) <= set(range(880, 900))
    # If just the larger values went into test.csv, all of the last class would
    in_test = split(np.arange(900.0), classes)
    for part in (in_test, ~in_test):
        assert np.bincount(classes[part]).min() >= LEAST_ROWS


@pytest.mark.parametrize("traps", [("shift", "imbalance"), ("imbalance", "noise"), ("shift", "unseen", "imbalance")])
@pytest.mark.parametrize("metric", ["roc_auc", "log_loss", "quadratic_weighted_kappa"])
def test_classes_are_in_both_parts(traps, metric):
    ids = (f"task:{side}/{n}" for n in itertools.count() for side in SIDES)
    task_id = next(i for i in ids if (found := structure_of(i)).metric == metric and found.traps == traps)
    task = load_competition(task_id)
    train, _, answers = tables(task)
    target = _task(task_id).facts["target"]
    tested = answers[list(task.target_columns)].idxmax(axis=1) if metric == "log_loss" else answers[target]
    assert set(train[target]) == set(tested)
    assert train[target].value_counts().min() >= LEAST_ROWS
    assert tested.value_counts().min() >= LEAST_ROWS


# Each trap


@pytest.mark.parametrize("trap", ["leak", "number"])
def test_a_leak_tells_the_outcome_in_train_only(trap):
    task = load_competition(find(trap, metrics=("rmse", "roc_auc", "quadratic_weighted_kappa")))
    facts = _task(task.id).facts
    train, test, answers = tables(task)
    column = facts[trap]
    assert abs(train[column].corr(train[facts["target"]], method="spearman")) > 0.7
    if column in test:
        assert abs(test[column].corr(answers[facts["target"]], method="spearman")) < 0.15


def test_a_leaking_column_may_lack_in_test():
    ids = [f"task:train/{n}" for n in range(120)]
    leaking = [task_id for task_id in ids if "leak" in structure_of(task_id).traps]
    lacking = [task_id for task_id in leaking if _task(task_id).facts["leak"] not in _task(task_id).test]
    assert 0.1 < len(lacking) / len(leaking) < 0.6
    notes = [_task(task_id).notes[0] for task_id in leaking]
    assert [task_id for task_id, note in zip(leaking, notes, strict=True) if "lacks" in note] == lacking


def test_missing():
    task = load_competition(find("missing"))
    facts = _task(task.id).facts
    for table in tables(task)[:2]:
        assert (table.isna().mean() > 0.1).sum() == 1
        assert 0.1 < (table[facts["coded"]] == facts["code"]).mean() < 0.3


def test_shift():
    task = load_competition(find("shift"))
    train, test, _ = tables(task)
    numbers = [name for name in test.select_dtypes("number") if name != "id"]
    distances = (test[numbers].mean() - train[numbers].mean()) / train[numbers].std()
    assert distances.max() > 0.5


def test_duplicates():
    train, test, _ = tables(load_competition(find("duplicates")))
    columns = [name for name in train if name != "id"]
    assert 0.3 < train.duplicated(columns).mean() < 0.5
    assert train["id"].is_unique
    assert not test.duplicated(columns[:-1]).any()


def test_unseen():
    task = load_competition(find("unseen"))
    group = _task(task.id).facts["group"]
    train, test, _ = tables(task)
    assert 0.2 < (~test[group].isin(train[group])).mean() < 0.5
    assert set(test[group].str.split("-").str[0]) == set(train[group].str.split("-").str[0])


def test_imbalance():
    train, _, _ = tables(load_competition(find("imbalance", metrics=("accuracy", "roc_auc"))))
    assert train.iloc[:, -1].value_counts(normalize=True).max() > 0.6


def test_noise():
    task = _task(find("noise", metrics=("rmse",)))
    values = task.train[task.facts["target"]]
    assert 5 < (abs(values - values.median()) > 6).sum() < len(values) / 8
    assert (abs(task.answers[task.facts["target"]] - values.median()) < 6).all()


def test_units():
    task = load_competition(find("units"))
    facts = _task(task.id).facts
    for table in tables(task)[:2]:
        assert table[facts["typed"]].str.fullmatch(rf"[\d.,]+ ?({facts['unit']}|{facts['other']})").all()
        assert table[facts["typed"]].str.endswith(facts["other"]).mean() > 0.2
        assert table[facts["category"]].nunique() > table[facts["category"]].str.strip().str.lower().nunique()


def test_tail():
    amounts = load_competition(find("tail"))
    train, _, _ = tables(amounts)
    values = train[_task(amounts.id).facts["target"]]
    assert (values > 0).all()
    assert values.skew() > 2


# Scores of programs


@pytest.mark.parametrize("trap", ["leak", "number", "duplicates", "noise"])
def test_the_reference_mends_what_breaks_the_plain_program(trap, tmp_path):
    task = load_competition(find(trap, metrics=("rmse", "roc_auc", "pearson_correlation")))
    plain = normalised(task, plain_solution(task.id), tmp_path / "plain")
    reference = normalised(task, reference_solution(task.id), tmp_path / "reference")
    assert plain + 0.03 < reference < 1.05
    assert reference > 0.85


def test_without_its_leak_the_plain_program_is_mended(tmp_path):
    """The same program on the same files without one column."""
    task = load_competition(find("leak", metrics=("rmse", "roc_auc", "pearson_correlation")))
    column = _task(task.id).facts["leak"]
    public = tmp_path / "public"
    shutil.copytree(task.public_dir, public)
    for name in ("train.csv", "test.csv"):
        pd.read_csv(public / name).drop(columns=column, errors="ignore").to_csv(public / name, index=False)
    broken = normalised(task, plain_solution(task.id), tmp_path / "broken")
    mended = normalised(task, plain_solution(task.id), tmp_path / "mended", public)
    assert broken < 0.2
    assert mended > 0.6


def test_programs_hold_no_label_and_no_ceiling():
    for n in range(20):
        for program in (plain_solution(f"task:test/{n}"), reference_solution(f"task:test/{n}")):
            compile(program, "program.py", "exec")
            assert "trl_mle" not in program
            assert "private" not in program


@pytest.mark.slow
def test_the_reference_lies_between_plain_and_ceiling(tmp_path):
    """A dozen tasks from both sides, in the sandbox; with luck a program may exceed the ceiling a little."""
    ids = [f"task:{side}/{n}" for side in SIDES for n in range(6)]
    with LocalExecutor(max_parallel=1, timeout_s=120) as executor:
        for task_id in ids:
            task = load_competition(task_id)
            results = executor.run_many([(plain_solution(task_id), task), (reference_solution(task_id), task)])
            scores = [task.grade(result.submission or b"") for result in results]
            plain, reference = (score_range(task).normalised(score.value) for score in scores)
            assert plain < reference < 1.05, structure_of(task_id)
            assert reference > 0.5, structure_of(task_id)
