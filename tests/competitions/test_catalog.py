import csv
import math
import random

import pandas as pd
import pytest
from support.packages import as_csv
from support.prepared_folders import ROWS, SPECIES, right_answers, write_prepared_folder

from trl_mle.competitions import Competition, CompetitionError, Score, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS


INSULTS, ESSAYS, PIZZA, TWEETS, MAY, DECEMBER, PATENTS, PLANTS, LEAVES, NOMAD, SPOOKY, LMSYS = MLEBENCH_COMPETITIONS


@pytest.fixture(scope="module")
def comps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Competition]:
    folder = tmp_path_factory.mktemp("mle-bench")
    for name in MLEBENCH_COMPETITIONS:
        write_prepared_folder(name, folder)
    return {name: load_competition(name, folder) for name in MLEBENCH_COMPETITIONS}


def _set(table: pd.DataFrame, column: str, value: object, row: int = 1) -> pd.DataFrame:
    table = table.astype(object)
    table.loc[row, column] = value
    return table


@pytest.mark.parametrize("name", MLEBENCH_COMPETITIONS)
def test_right_answers_are_best_in_any_order_and_the_sample_is_poor(name, comps):
    comp, answers = comps[name], right_answers(name)
    assert comp.higher_is_better == (name not in (LEAVES, NOMAD, SPOOKY, LMSYS))
    best = Score(1.0 if comp.higher_is_better else 0.0, valid=True)
    assert comp.grade(as_csv(answers)) == best
    if name != NOMAD:
        assert comp.grade(as_csv(answers.sample(frac=1, random_state=0))) == best
    if name != SPOOKY:
        assert comp.grade(as_csv(answers[answers.columns[::-1]])) == best
    sample = comp.grade(comp.sample_submission)
    assert sample.valid == (name != PATENTS)  # all 0, which correlates with nothing
    if sample.valid:
        assert abs(sample.value - best.value) > 0.1
        assert comp.better(best.value, sample.value)
        assert not comp.better(sample.value, best.value)
    # A byte order mark, line ends, quotes, or an index column where other columns are allowed
    forms = [b"\xef\xbb\xbf" + as_csv(answers), answers.to_csv(index=False, lineterminator="\r\n").encode()]
    forms += [as_csv(answers) + b"\n\n", answers.to_csv(index=False, quoting=csv.QUOTE_ALL).encode()]
    forms += [as_csv(answers.astype(object).replace({0: "-0.0"}))]
    if answers.iloc[:, 1:].isin([0, 1]).all(axis=None):
        forms.append(as_csv(answers.iloc[:, :1].join(answers.iloc[:, 1:] == 1)))
    assert [comp.grade(content) for content in forms] == [best] * len(forms)
    assert comp.grade(answers.to_csv().encode()).valid == (name not in (PLANTS, LEAVES, SPOOKY))


def _malformed(name: str) -> dict[str, bytes]:
    """Invalid submissions, by a part of their error."""
    layout, good = MLEBENCH_COMPETITIONS[name], right_answers(name)
    target = (layout.target_columns or SPECIES)[0]
    cases = {
        f"has {ROWS - 1} rows, but the test set has {ROWS}": good.iloc[:-1],
        f"lacks the columns '{target}'": good.drop(columns=target),
    }
    if not layout.in_file_order:
        cases |= {
            f"lacks the columns '{layout.id_column}'": good.drop(columns=layout.id_column),
            "these are repeated: ": _set(good, layout.id_column, good[layout.id_column][0]),
            "1 of 12 ids are not in the test set: ": _set(good, layout.id_column, 77),
        }
    if layout.metric != "word_level_jaccard":
        cases |= {"must hold numbers": _set(good, target, "high"), "empty, NaN or infinite": _set(good, target, None)}
    if layout.metric in ("quadratic_weighted_kappa", "accuracy"):
        cases |= {"a whole number of": _set(good, target, 2.5), "holds 1e+20": _set(good, target, 1e20)}
    if layout.metric == "log_loss":
        cases["holds -0.5"] = _set(good, target, -0.5)
        cases["must sum to 1, but in 1 of 12 rows"] = _set(good, target, 0.5, row=0)
    if layout.exact_columns:
        cases["it also has 'note'"] = good.assign(note=1)
    if layout.id_first:
        cases["the first column must be 'id'"] = good[good.columns[::-1]]
    return {reason: as_csv(table) for reason, table in cases.items()}


@pytest.mark.parametrize("name", MLEBENCH_COMPETITIONS)
def test_malformed_submissions_are_rejected_with_a_reason(name, comps):
    for reason, content in _malformed(name).items():
        score = comps[name].grade(content)
        assert (score.value, score.valid) == (None, False), reason
        assert reason in score.error
        assert "\n" not in score.error


@pytest.mark.parametrize("name", MLEBENCH_COMPETITIONS)
def test_damaged_submissions_never_raise(name, comps):
    rng = random.Random(name)
    good = as_csv(right_answers(name))
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
    assert comp.grade(as_csv(answers)).value == 1
    others_moved = answers.iloc[[5, 4, 0, 3, *range(6, ROWS), 2, 1]]
    assert comp.grade(as_csv(others_moved)).value == 1
    assert comp.grade(as_csv(answers.iloc[::-1])).value == round(30 / 36, 5)  # the two are swapped
    twice = answers.assign(Comment=[*answers["Comment"][:1], *answers["Comment"][:1], *answers["Comment"][2:]])
    assert "these are repeated" in comp.grade(as_csv(twice)).error


def test_tweets_without_a_word(tmp_path):
    answers = write_prepared_folder(TWEETS, tmp_path)
    comp = load_competition(TWEETS, tmp_path)
    # An empty prediction matches nothing; a column of them is read as floats (NaN).
    assert comp.grade(as_csv(answers.assign(selected_text=None))).value == 0
    assert comp.grade(as_csv(_set(answers, "selected_text", " "))).value == round(11 / 12, 5)
    # If the answer is empty, too, the similarity is 0/0.
    _set(answers, "selected_text", None).to_csv(comp.answers, index=False)
    comp = load_competition(TWEETS, tmp_path)
    assert comp.grade(as_csv(answers)).value == round(11 / 12, 5)
    error = comp.grade(as_csv(_set(answers, "selected_text", None))).error
    assert error == "the similarity of two empty texts is undefined: predict a word for 'id7'"


def test_nomad_is_compared_in_file_order_and_needs_no_id(comps):
    answers = right_answers(NOMAD)
    assert comps[NOMAD].grade(as_csv(answers.drop(columns="id"))).value == 0
    assert comps[NOMAD].grade(as_csv(answers.assign(id="x"))).value == 0
    assert comps[NOMAD].grade(as_csv(answers.iloc[::-1])).value > 0
    assert comps[NOMAD].grade(as_csv(_set(answers, "bandgap_energy_ev", -0.9))).valid


@pytest.mark.parametrize(
    ("name", "excess", "valid"),
    [(SPOOKY, 1e-5, True), (LEAVES, -1e-5, True), (SPOOKY, 1.2e-5, False), (LMSYS, -4e-7, True), (LMSYS, 6e-7, False)],
)
def test_row_sums(name, excess, valid, comps):
    answers = right_answers(name)
    first = answers.columns[1]
    answers = _set(answers, first, 0.9 + excess, row=0).pipe(_set, answers.columns[2], 0.1, row=0)
    assert comps[name].grade(as_csv(answers)).valid == valid


def test_ids_and_texts_that_look_like_numbers(comps):
    # Beside an empty value, too, a number for a text is a text: "1" is a third of "so happy 1"
    submission = as_csv(right_answers(TWEETS).assign(selected_text=pd.Series([None, *range(1, ROWS)], dtype=object)))
    assert comps[TWEETS].grade(submission) == Score(round(11 / 36, 5), valid=True)
    answers = right_answers(DECEMBER)
    assert comps[DECEMBER].grade(as_csv(answers.assign(Id=answers["Id"] * 1.0))).value == 1
    assert not comps[DECEMBER].grade(as_csv(answers.assign(Id=answers["Id"].map("id{}".format)))).valid
    answers = right_answers(PLANTS)
    answers.iloc[:, 1:] = answers.iloc[:, 1:] * 10 - 5  # what is no probability there
    assert comps[PLANTS].grade(as_csv(answers)).value == 1


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (PLANTS, lambda t: t.assign(multiple_diseases=0)),
        (DECEMBER, lambda t: t.drop(columns="Id")),
        (SPOOKY, lambda t: t.head(0)),
    ],
)
def test_answers_that_cannot_be_graded_are_not_the_submissions_fault(name, change, tmp_path):
    answers = write_prepared_folder(name, tmp_path)
    comp = load_competition(name, tmp_path)
    change(answers).to_csv(comp.answers, index=False)
    with pytest.raises(CompetitionError, match=r"^the answers of .* cannot be graded.*$"):
        comp.grade(as_csv(answers))


def test_a_missing_file_is_named(tmp_path):
    write_prepared_folder(PIZZA, tmp_path)
    comp = load_competition(PIZZA, tmp_path)
    for path in (comp.answers, comp.sample_submission):
        path.rename(path.with_suffix(".away"))
        with pytest.raises(CompetitionError, match=f"lacks the file .*{path.name}"):
            load_competition(PIZZA, tmp_path)
        path.with_suffix(".away").rename(path)
    with pytest.raises(CompetitionError, match=r"lacks the file .*description.md"):
        comp.description
