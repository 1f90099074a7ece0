import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.packages import as_csv

from trl_mle.competitions import Competition, CompetitionError, Score, competition, load_competition


LOCAL = ["digits", "breast-cancer", "diabetes", "wine"]
BEST = {"digits": 0.0, "breast-cancer": 1.0, "diabetes": 0.0, "wine": 1.0}


def _answers(comp) -> pd.DataFrame:
    return pd.read_csv(comp.answers)


@pytest.mark.parametrize("name", LOCAL)
def test_scores_in_any_row_order_of_paths_and_bytes(name):
    comp = load_competition(name)
    sample = comp.grade(comp.sample_submission)
    assert comp.grade(comp.answers) == Score(BEST[name], valid=True)
    assert (sample.valid, sample.error) == (True, None)
    assert sample.value < BEST[name] if comp.higher_is_better else sample.value > BEST[name]
    table = _answers(comp)
    targets = list(comp.target_columns)
    table[targets] = np.random.RandomState(0).permutation(table[targets].to_numpy())
    expected = comp.grade(as_csv(table))
    assert expected.valid
    assert comp.grade(as_csv(table.sample(frac=1, random_state=1))) == expected
    assert comp.grade(comp.sample_submission) == comp.grade(str(comp.sample_submission))
    assert comp.grade(comp.sample_submission) == comp.grade(comp.sample_submission.read_bytes())


MALFORMED = {
    "column twice": ("digits", lambda t: pd.concat([t, t["digit_0"]], axis=1), "it also has 'digit_0.1'"),
    "long text": ("wine", lambda t: t.assign(cultivar="x" * 10_000), "must hold numbers"),
    "too large for a float": ("wine", lambda t: t.assign(cultivar="9" * 400), "too large for a float"),
    "overflow in the metric": ("diabetes", lambda t: t.assign(progression="1e300"), "the score is inf"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_submissions_are_rejected_with_a_reason(case):
    name, change, reason = MALFORMED[case]
    comp = load_competition(name)
    score = comp.grade(as_csv(change(_answers(comp).astype(object))))
    assert (score.value, score.valid) == (None, False)
    assert reason in score.error
    assert "\n" not in score.error
    assert len(score.error) <= 300


# What pandas cannot read, or takes seconds, minutes or gigabytes for, next to the 53 rows that are expected
FLOODS = {
    "an open quote": (b'id,cultivar\n"a,1\n', "EOF inside string"),
    "a quoted header": (b"\xef\xbb\xbf" + b'"a\n",' * 2001, "a line of more than 2000 columns"),
    "carriage returns": (b"\r" * 10**6, "1000000 lines, but 53 rows were expected"),
    "NULs": (b"\0" * 20_000_000, "20000000 bytes, but 53 rows"),
    "columns": (b"a," * 10**6, "a line of more than 2000 columns"),
    "columns of many rows": ((b"," * 1999 + b"\n") * 2000, "3998000 commas, but 53 rows"),
    "a header after blank lines": (b" \n\r\n\t" + (b"a," * 1900 + b'"\r"') * 50, "a line of more than 2000 columns"),
}


@pytest.mark.parametrize("case", FLOODS)
def test_floods_are_rejected_before_they_are_parsed(case, monkeypatch, wine):
    content, reason = FLOODS[case]
    wine.check_answers()
    if case != "an open quote":
        monkeypatch.setattr(competition, "_read_csv", lambda *args: pytest.fail("pandas reads it"))
    score = wine.grade(content)
    assert not score.valid
    assert reason in score.error


def test_large_tables_with_a_prediction_are_submissions(wine):
    """A program may write the test set with a column added."""
    table = pd.read_csv(wine.answers)
    wide = pd.DataFrame(np.random.RandomState(0).rand(len(table), 1900)).add_prefix("feature ")
    content = pd.concat([wide, table.assign(text="a, b\n" * 50)], axis=1).to_csv(index=False).encode()
    assert wine.grade(content).value == 1
    assert wine.grade(content.replace(b"\n", b"\r\n")).value == 1
    assert wine.grade(wine.answers.read_bytes().replace(b"\n", b"\r")).value == 1


def _comp(folder, metric, labels):
    table = pd.DataFrame({"id": range(len(labels)), "kind": labels})
    table.to_csv(folder / "answers.csv", index=False)
    return Competition("mine", metric, folder, folder / "answers.csv", folder / "answers.csv", ("kind",)), table


@pytest.mark.parametrize("labels", [("01", "02", "1A"), ("true", "false", "half-true"), ("1.50", "2", "-")])
def test_labels_are_texts_where_an_answer_is(tmp_path, labels):
    """Also in a submission that lacks that answer."""
    comp, table = _comp(tmp_path, "accuracy", [*labels[:2] * 12, labels[2]])
    assert comp.grade(as_csv(table)).value == 1
    assert comp.grade(as_csv(table.assign(kind=[*table["kind"][:-1], labels[0]]))).value == 0.96


@pytest.mark.parametrize("least", [2**53, -(2**53) - 1])
def test_labels_that_a_float_would_round_are_refused(tmp_path, least):
    comp, _ = _comp(tmp_path, "accuracy", [least, least + 1])
    with pytest.raises(CompetitionError, match="labels of more than 53 bits would be rounded"):
        comp.check_answers()
    comp, table = _comp(tmp_path, "accuracy", [f"k{least}", f"k{least + 1}"])
    assert comp.grade(as_csv(table)).value == 1


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(content=st.binary(max_size=400) | st.text(alphabet='id,malignt\n"\r\0 019.-e#', max_size=400).map(str.encode))
def test_junk_never_raises(content):
    for junk in (content, b"id,malignant\n" + content):
        score = load_competition("breast-cancer").grade(junk)
        assert not score.valid
        assert score.error


def test_graded_in_other_threads_and_after_pickling():
    comp = load_competition("digits")
    content = comp.sample_submission.read_bytes()
    with ThreadPoolExecutor(4) as pool:
        scores = set(pool.map(comp.grade, [content] * 16))
    assert scores == {Score(2.30259, valid=True)}
    assert pickle.loads(pickle.dumps(comp)).grade(content) == scores.pop()


def test_what_is_no_file_is_no_submission(tmp_path):
    for path in ("missing.csv", ".", "nul\0byte"):
        assert load_competition("wine").grade(f"{tmp_path}/{path}").error


def test_broken_answers_are_not_the_submissions_fault(tmp_path):
    comp, _ = _comp(tmp_path, "accuracy", [1, 2])
    comp.answers.unlink()
    with pytest.raises(FileNotFoundError):
        comp.grade(b"id,kind\n")
