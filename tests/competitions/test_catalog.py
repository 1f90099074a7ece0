import csv
import math
import random
from pathlib import Path

import pandas as pd
import pytest
from support.prepared_folders import ROWS, SPECIES, right_answers, write_prepared_folder

from trl_mle.competitions import Competition, CompetitionError, Score, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS


INSULTS = "detecting-insults-in-social-commentary"
ESSAYS = "learning-agency-lab-automated-essay-scoring-2"
PIZZA = "random-acts-of-pizza"
TWEETS = "tweet-sentiment-extraction"
MAY = "tabular-playground-series-may-2022"
DECEMBER = "tabular-playground-series-dec-2021"
PATENTS = "us-patent-phrase-to-phrase-matching"
PLANTS = "plant-pathology-2020-fgvc7"
LEAVES = "leaf-classification"
NOMAD = "nomad2018-predict-transparent-conductors"
SPOOKY = "spooky-author-identification"
LMSYS = "lmsys-chatbot-arena"

FACTS = {  # metric, higher is better, id column
    INSULTS: ("roc_auc", True, "Comment"),
    ESSAYS: ("quadratic_weighted_kappa", True, "essay_id"),
    PIZZA: ("roc_auc", True, "request_id"),
    TWEETS: ("word_level_jaccard", True, "textID"),
    MAY: ("roc_auc", True, "id"),
    DECEMBER: ("accuracy", True, "Id"),
    PATENTS: ("pearson_correlation", True, "id"),
    PLANTS: ("mean_columnwise_roc_auc", True, "image_id"),
    LEAVES: ("log_loss", False, "id"),
    NOMAD: ("mean_columnwise_rmsle", False, "id"),
    SPOOKY: ("log_loss", False, "id"),
    LMSYS: ("log_loss", False, "id"),
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mle-bench")
    for name in MLEBENCH_COMPETITIONS:
        write_prepared_folder(name, folder)
    return folder


@pytest.fixture(scope="module")
def comps(data_dir: Path) -> dict[str, Competition]:
    return {name: load_competition(name, data_dir) for name in MLEBENCH_COMPETITIONS}


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def _set(table: pd.DataFrame, column: str, value: object, row: int = 1) -> pd.DataFrame:
    table = table.astype(object)
    table.loc[row, column] = value
    return table


def test_facts(comps):
    assert list(MLEBENCH_COMPETITIONS) == list(FACTS)
    for name, comp in comps.items():
        assert (comp.id, comp.slug) == (name, name)
        assert (comp.metric, comp.higher_is_better, comp.id_column) == FACTS[name]
        assert (comp.better(1.0, 0.0), comp.better(0.0, 1.0)) == (comp.higher_is_better, not comp.higher_is_better)
        assert comp.answers.parent == comp.public_dir.parent / "private"


@pytest.mark.parametrize("name", FACTS)
def test_right_answers_get_the_best_score_in_any_order(name, comps):
    best = Score(1.0 if comps[name].higher_is_better else 0.0, valid=True)
    answers = right_answers(name)
    assert comps[name].grade(_csv(answers)) == best
    if name != NOMAD:
        assert comps[name].grade(_csv(answers.sample(frac=1, random_state=0))) == best
    if name != SPOOKY:
        assert comps[name].grade(_csv(answers[answers.columns[::-1]])) == best


@pytest.mark.parametrize("name", FACTS)
def test_sample_submissions_are_valid_but_poor(name, comps):
    score = comps[name].grade(comps[name].sample_submission)
    if name == PATENTS:  # all 0, which correlates with nothing
        assert score == Score(
            None, valid=False, error="the correlation is undefined where all predictions are the same"
        )
    else:
        assert score.valid
        assert score.value < 0.6 if comps[name].higher_is_better else score.value > 0.1


def _malformed(name: str) -> dict[str, tuple[bytes, str]]:
    """Invalid submissions by name, each with a part of its error."""
    layout, good = MLEBENCH_COMPETITIONS[name], right_answers(name)
    target = (layout.target_columns or SPECIES)[0]
    cases = {
        "nothing": (b"", "No columns to parse"),
        "bytes": (b"\xff\xfe" + _csv(good), "can't decode byte"),
        "ragged": (_csv(good) + b"a" + b",1" * 200 + b"\n", "Error tokenizing data"),
        "row less": (_csv(good.iloc[:-1]), f"has {ROWS - 1} rows, but the test set has {ROWS}"),
        "target missing": (_csv(good.drop(columns=target)), f"lacks the columns '{target}'"),
        "one long row": (b"0.5," * 3000, "a line of more than 2000 columns"),
        "many lines": (_csv(good) + b"\n" * 100 * (ROWS + 10), "lines, but 12 rows were expected"),
    }
    if not layout.in_file_order:
        one = good[layout.id_column][0]
        cases |= {
            "id missing": (_csv(good.drop(columns=layout.id_column)), f"lacks the columns '{layout.id_column}'"),
            "id repeated": (_csv(_set(good, layout.id_column, one)), "ids must be unique, but these are repeated: "),
            "id unknown": (_csv(_set(good, layout.id_column, 77)), "1 of 12 ids are not in the test set: "),
        }
    if layout.metric == "word_level_jaccard":
        return cases
    cases |= {
        "text": (_csv(_set(good, target, "high")), f"column '{target}' must hold numbers, but holds 'high'"),
        "empty cell": (_csv(_set(good, target, None)), f"'{target}' has empty, NaN or infinite values"),
    }
    if layout.metric in ("roc_auc", "log_loss"):
        cases["above 1"] = (_csv(_set(good, target, 1.5)), f"in [0, 1], but column '{target}' holds 1.5")
        cases["below 0"] = (_csv(_set(good, target, -0.5)), f"in [0, 1], but column '{target}' holds -0.5")
    if layout.metric in ("quadratic_weighted_kappa", "accuracy"):
        whole = "a whole number of at most 64 bits"
        cases["fraction"] = (_csv(_set(good, target, 2.5)), f"{whole}, but column '{target}' holds 2.5")
        cases["beyond 64 bits"] = (_csv(_set(good, target, 1e20)), "holds 1e+20")
    if layout.metric == "pearson_correlation":
        cases["constant"] = (_csv(good.assign(score=0.3)), "undefined where all predictions are the same")
    if layout.metric == "mean_columnwise_rmsle":
        last = layout.target_columns[1]
        cases["-1"] = (_csv(_set(good, last, -1)), f"greater than -1, but column '{last}' holds -1")
    if layout.metric == "log_loss":
        cases["sums"] = (_csv(_set(good, target, 0.5, row=0)), "must sum to 1, but in 1 of 12 rows they do not")
    if layout.exact_columns:
        cases["extra column"] = (_csv(good.assign(note=1)), "it also has 'note'")
    if layout.id_first:
        cases["id last"] = (_csv(good[good.columns[::-1]]), "the first column must be 'id', not 'MWS'")
    return cases


@pytest.mark.parametrize("name", FACTS)
def test_malformed_submissions_are_rejected_with_a_reason(name, comps):
    for case, (content, reason) in _malformed(name).items():
        score = comps[name].grade(content)
        assert (score.value, score.valid) == (None, False), case
        assert reason in score.error, case
        assert "\n" not in score.error
        assert len(score.error) <= 300


@pytest.mark.parametrize("name", FACTS)
def test_damaged_submissions_never_raise(name, comps):
    rng = random.Random(name)
    good = _csv(right_answers(name))
    pieces = b', \n " \r \0 \xff nan 1e999 - True 0.5 _'.split(b" ")
    valid = 0
    for _ in range(200):
        content = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(content))
            content[at : at + rng.choice([0, 0, 1, 20])] = rng.choice([*pieces, rng.randbytes(rng.randint(0, 9))])
        score = comps[name].grade(bytes(content))
        assert score.valid == (score.value is not None) == (score.error is None)
        assert score.value is None or math.isfinite(score.value)
        valid += score.valid
    assert 0 < valid < 200


def test_insults_repeat_comments(tmp_path):
    # Two equal comments with different labels: only their order in the sample distinguishes them.
    answers = write_prepared_folder(INSULTS, tmp_path)
    comp = load_competition(INSULTS, tmp_path)
    answers.loc[3, "Comment"] = answers.loc[0, "Comment"]
    answers.to_csv(comp.answers, index=False)
    assert comp.grade(_csv(answers)).value == 1
    others_moved = answers.iloc[[5, 4, 0, 3, *range(6, ROWS), 2, 1]]
    assert comp.grade(_csv(others_moved)).value == 1
    assert comp.grade(_csv(answers.iloc[::-1])).value == round(30 / 36, 5)  # the two are swapped
    twice = answers.assign(Comment=[*answers["Comment"][:1], *answers["Comment"][:1], *answers["Comment"][2:]])
    assert "these are repeated" in comp.grade(_csv(twice)).error


def test_tweets_without_a_word(tmp_path):
    answers = write_prepared_folder(TWEETS, tmp_path)
    comp = load_competition(TWEETS, tmp_path)
    # An empty prediction matches nothing; a column of them is read as floats (NaN).
    assert comp.grade(_csv(answers.assign(selected_text=None))).value == 0
    assert comp.grade(_csv(_set(answers, "selected_text", " "))).value == round(11 / 12, 5)
    # If the answer is empty, too, the similarity is 0/0.
    _set(answers, "selected_text", None).to_csv(comp.answers, index=False)
    comp = load_competition(TWEETS, tmp_path)
    assert comp.grade(_csv(answers)).value == round(11 / 12, 5)
    error = comp.grade(_csv(_set(answers, "selected_text", None))).error
    assert error == "the similarity of two empty texts is undefined: predict a word for 'id7'"


def test_nomad_is_compared_in_file_order_and_needs_no_id(comps):
    answers = right_answers(NOMAD)
    assert comps[NOMAD].grade(_csv(answers.drop(columns="id"))).value == 0
    assert comps[NOMAD].grade(_csv(answers.assign(id="x"))).value == 0
    assert comps[NOMAD].grade(_csv(answers.iloc[::-1])).value > 0
    assert comps[NOMAD].grade(_csv(_set(answers, "bandgap_energy_ev", -0.9))).valid


@pytest.mark.parametrize(
    ("name", "excess", "valid"),
    [
        (SPOOKY, 1e-5, True),
        (LEAVES, -1e-5, True),
        (SPOOKY, 1.2e-5, False),
        (LMSYS, 4e-7, True),
        (LMSYS, -4e-7, True),
        (LMSYS, 6e-7, False),
        (LMSYS, -1e-5, False),
    ],
)
def test_row_sums(name, excess, valid, comps):
    answers = right_answers(name)
    first = answers.columns[1]
    score = comps[name].grade(
        _csv(_set(answers, first, 0.9 + excess, row=0).pipe(_set, answers.columns[2], 0.1, row=0))
    )
    assert score.valid == valid
    assert valid or "in 1 of 12 rows they do not" in score.error


@pytest.mark.parametrize("name", FACTS)
def test_however_the_file_is_written(name, comps):
    """Files that pandas reads alike are scored alike, even with an index column where other columns are allowed."""
    answers = right_answers(name)
    good = _csv(answers)
    forms = {
        "byte order mark": b"\xef\xbb\xbf" + good,
        "CRLF": answers.to_csv(index=False, lineterminator="\r\n").encode(),
        "no line end": good.rstrip(b"\n"),
        "empty lines": good + b"\n\n",
        "all quoted": answers.to_csv(index=False, quoting=csv.QUOTE_ALL).encode(),
        "blanks": answers.to_csv(index=False).replace(",1", ", 1").replace("1\n", "1 \n").encode(),
        "negative zero": _csv(answers.astype(object).replace({0: "-0.0"})),
    }
    if answers.iloc[:, 1:].isin([0, 1]).all(axis=None):
        forms["truth values"] = _csv(answers.iloc[:, :1].join(answers.iloc[:, 1:] == 1))
    for form, content in forms.items():
        assert comps[name].grade(content) == comps[name].grade(good), form
    assert comps[name].grade(answers.to_csv().encode()).valid == (name not in (PLANTS, LEAVES, SPOOKY))


def test_numbers_for_texts_are_texts(comps):
    """Beside an empty value, too: the text "1" is a third of "so happy 1"."""
    submission = _csv(right_answers(TWEETS).assign(selected_text=pd.Series([None, *range(1, ROWS)], dtype=object)))
    assert comps[TWEETS].grade(submission) == Score(round(11 / 36, 5), valid=True)


def test_ids_are_compared_as_numbers_where_they_are_numbers(comps):
    answers = right_answers(DECEMBER)
    assert comps[DECEMBER].grade(_csv(answers.assign(Id=answers["Id"] * 1.0))).value == 1
    assert not comps[DECEMBER].grade(_csv(answers.assign(Id=answers["Id"].map("id{}".format)))).valid


def test_plants_may_leave_the_unit_interval(comps):
    answers = right_answers(PLANTS)
    answers.iloc[:, 1:] = answers.iloc[:, 1:] * 10 - 5
    assert comps[PLANTS].grade(_csv(answers)).value == 1


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (PLANTS, lambda t: t.assign(multiple_diseases=0), "unless the answers are both 0 and 1"),
        (PATENTS, lambda t: t.assign(score=0.5), "unless the answers are not all the same"),
        (DECEMBER, lambda t: t.assign(Cover_Type="spruce").drop(columns="Id"), "lacks the columns 'Id'"),
        (TWEETS, lambda t: t.assign(selected_text=1.5), "cannot be graded"),
        (SPOOKY, lambda t: t.head(0), "cannot be graded"),
    ],
)
def test_answers_that_cannot_be_graded_are_not_the_submissions_fault(name, change, reason, tmp_path):
    answers = write_prepared_folder(name, tmp_path)
    comp = load_competition(name, tmp_path)
    change(answers).to_csv(comp.answers, index=False)
    with pytest.raises(CompetitionError, match=r"the answers of .* cannot be graded") as error:
        comp.grade(_csv(answers))
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [PIZZA, LMSYS])
def test_a_missing_file_is_named(name, tmp_path):
    write_prepared_folder(name, tmp_path)
    comp = load_competition(name, tmp_path)
    for path in (comp.answers, comp.sample_submission):
        path.rename(path.with_suffix(".away"))
        with pytest.raises(CompetitionError, match=f"lacks the file .*{path.name}") as error:
            load_competition(name, tmp_path)
        assert "\n" not in str(error.value)
        path.with_suffix(".away").rename(path)
    with pytest.raises(CompetitionError, match=r"lacks the file .*description.md"):
        comp.description
