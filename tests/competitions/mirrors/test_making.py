import contextlib
import io
import json
import runpy
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from threadpoolctl import threadpool_limits

from trl_mle.competitions import Competition, CompetitionError, Score, list_competitions, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS, Layout
from trl_mle.competitions.mirrors import MIRRORS, load_mirror, make_mirror, making


SOLUTIONS = Path(__file__).parent / "solutions"
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


def _names(text: str) -> list[str]:
    return text.split()


TERRAIN = _names(
    "Elevation Aspect Slope Horizontal_Distance_To_Hydrology Vertical_Distance_To_Hydrology "
    "Horizontal_Distance_To_Roadways Hillshade_9am Hillshade_Noon Hillshade_3pm Horizontal_Distance_To_Fire_Points"
)
FOREST = [*TERRAIN, *(f"Wilderness_Area{i}" for i in range(1, 5)), *(f"Soil_Type{i}" for i in range(1, 41))]
CRYSTAL = _names(
    "spacegroup number_of_total_atoms percent_atom_al percent_atom_ga percent_atom_in lattice_vector_1_ang "
    "lattice_vector_2_ang lattice_vector_3_ang lattice_angle_alpha_degree lattice_angle_beta_degree "
    "lattice_angle_gamma_degree"
)
LEAF = [f"{kind}{i}" for kind in ("margin", "shape", "texture") for i in range(1, 65)]
DISEASES = ["healthy", "multiple_diseases", "rust", "scab"]
ENERGIES = ["formation_energy_ev_natom", "bandgap_energy_ev"]
WINNERS = ["winner_model_a", "winner_model_b", "winner_tie"]
FEATURES = [f"f_{i:02}" for i in range(31)]
AT_REQUEST = _names(
    "giver_username_if_known request_id request_text_edit_aware request_title requester_account_age_in_days_at_request "
    "requester_days_since_first_post_on_raop_at_request requester_number_of_comments_at_request "
    "requester_number_of_comments_in_raop_at_request requester_number_of_posts_at_request "
    "requester_number_of_posts_on_raop_at_request requester_number_of_subreddits_at_request "
    "requester_subreddits_at_request requester_upvotes_minus_downvotes_at_request "
    "requester_upvotes_plus_downvotes_at_request requester_username unix_timestamp_of_request "
    "unix_timestamp_of_request_utc"
)
LATER = _names(
    "number_of_downvotes_of_request_at_retrieval number_of_upvotes_of_request_at_retrieval post_was_edited "
    "request_number_of_comments_at_retrieval request_text requester_account_age_in_days_at_retrieval "
    "requester_days_since_first_post_on_raop_at_retrieval requester_number_of_comments_at_retrieval "
    "requester_number_of_comments_in_raop_at_retrieval requester_number_of_posts_at_retrieval "
    "requester_number_of_posts_on_raop_at_retrieval requester_received_pizza "
    "requester_upvotes_minus_downvotes_at_retrieval requester_upvotes_plus_downvotes_at_retrieval requester_user_flair"
)

TABLES = {  # columns of train and test
    INSULTS: (["Insult", "Date", "Comment"], ["Date", "Comment"]),
    ESSAYS: (["essay_id", "full_text", "score"], ["essay_id", "full_text"]),
    PIZZA: (sorted(AT_REQUEST + LATER), sorted(AT_REQUEST)),
    TWEETS: (["textID", "text", "selected_text", "sentiment"], ["textID", "text", "sentiment"]),
    MAY: (["id", *FEATURES, "target"], ["id", *FEATURES]),
    DECEMBER: (["Id", *FOREST, "Cover_Type"], ["Id", *FOREST]),
    PATENTS: (["id", "anchor", "target", "context", "score"], ["id", "anchor", "target", "context"]),
    PLANTS: (["image_id", *DISEASES], ["image_id"]),
    LEAVES: (["id", "species", *LEAF], ["id", *LEAF]),
    NOMAD: (["id", *CRYSTAL, *ENERGIES], ["id", *CRYSTAL]),
    SPOOKY: (["id", "text", "author"], ["id", "text"]),
    LMSYS: (
        ["id", "model_a", "model_b", "prompt", "response_a", "response_b", *WINNERS],
        ["id", "prompt", "response_a", "response_b"],
    ),
}
FILES = {  # public files beyond train.csv, test.csv, sample_submission.csv and description.md, and the private ones
    INSULTS: ({"sample_submission_null.csv"}, {"test.csv"}),
    ESSAYS: (set(), {"answers.csv"}),
    PIZZA: ({"train.json", "train.zip", "test.json", "test.zip", "sampleSubmission.csv"}, {"test.csv"}),
    MAY: (set(), {"test.csv", "gold_submission.csv"}),
    PLANTS: ({"images"}, {"test.csv"}),
    LEAVES: ({"images"}, {"test.csv"}),
    NOMAD: ({"train", "test"}, {"test.csv"}),
    LMSYS: (set(), {"answers.csv"}),
}
# The sample submission's score, and the smallest gaps from trivial to simple and from simple to strong, with seed 0.
SCORES = {
    INSULTS: (0.5, 0.2, 0.04),
    ESSAYS: (0, 0.4, 0.05),
    PIZZA: (0.5, 0.1, 0.05),
    TWEETS: (0, 0.4, 0.08),
    MAY: (0.5, 0.07, 0.1),
    DECEMBER: (0.45, 0.1, 0.1),
    PATENTS: (None, 0.2, 0.4),
    PLANTS: (0.5, 0.04, 0.2),
    LEAVES: (4.59512, 1, 0.7),
    NOMAD: (0.23553, 0.1, 0.01),
    SPOOKY: (1.08708, 0.08, 0.3),
    LMSYS: (1.09861, 0.05, 0.1),
}


def _read(comp: Competition, name: str) -> pd.DataFrame:
    if name in ("train", "test") and comp.id.startswith(f"mirror:{PIZZA}"):
        return pd.read_json(comp.public_dir / f"{name}.json")
    return pd.read_csv(comp.public_dir / f"{name}.csv")


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_they_are_listed():
    assert sorted(MIRRORS) == sorted(making.DESCRIPTIONS)  # all names are also the catalogue's
    assert [name for name in list_competitions() if name.startswith("mirror:")] == [f"mirror:{m}" for m in MIRRORS]


@pytest.mark.parametrize("name", MIRRORS)
def test_files_and_columns(name):
    comp = load_competition(f"mirror:{name}")
    original = MLEBENCH_COMPETITIONS[name]
    assert (comp.id, comp.slug, comp.metric) == (f"mirror:{name}", f"mirror-{name}", original.metric)
    assert comp.public_dir.parts[-3:] == (comp.slug, "prepared", "public")

    public, private = FILES.get(name, (set(), {"test.csv"}))
    if name != PIZZA:
        public = public | {"train.csv", "test.csv"}
    if name not in (PIZZA, INSULTS):
        public = public | {"sample_submission.csv"}
    assert {path.name for path in comp.public_dir.iterdir()} == public | {"description.md"}
    assert {path.name for path in comp.answers.parent.iterdir()} == private | {"ceiling.csv"}

    train, test = _read(comp, "train"), _read(comp, "test")
    sample, answers = pd.read_csv(comp.sample_submission), pd.read_csv(comp.answers)
    assert (list(train), list(test)) == TABLES[name]
    assert len(train) + len(test) == MIRRORS[name].rows
    assert 0.2 < len(test) / MIRRORS[name].rows < 0.3
    for ids in (sample, answers):
        assert list(ids[comp.id_column]) == list(test[comp.id_column])
    assert test[comp.id_column].is_unique
    if name != NOMAD:  # which numbers both files from 1
        assert not set(train[comp.id_column]) & set(test[comp.id_column])
    if name == INSULTS:
        assert list(sample) == ["Insult", "Date", "Comment"]
        assert list(answers) == ["Insult", "Date", "Comment", "Usage"]
    elif name == MAY:
        assert list(answers) == TABLES[MAY][0]
        assert list(pd.read_csv(comp.answers.parent / "gold_submission.csv")) == list(sample) == ["id", "target"]
    else:
        assert list(sample) == list(answers) == [comp.id_column, *comp.target_columns]


@pytest.mark.parametrize("name", MIRRORS)
def test_gold_is_best_and_the_sample_valid(name):
    comp = load_competition(f"mirror:{name}")
    trivial, _, _ = SCORES[name]
    assert comp.grade(comp.answers) == Score(1.0 if comp.higher_is_better else 0.0, valid=True)
    assert comp.grade(comp.sample_submission).value == trivial
    assert comp.grade(comp.sample_submission).valid == (name != PATENTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", MIRRORS)
def test_better_modelling_scores_better(name, tmp_path):
    comp = load_competition(f"mirror:{name}")
    (tmp_path / "input").symlink_to(comp.public_dir)
    scores = []
    for kind in ("trivial", "simple", "strong"):
        own = SOLUTIONS / name / f"{kind}.py"
        # One thread, as in a slot: on matrices this small, several threads are slower.
        with contextlib.chdir(tmp_path), threadpool_limits(1):
            runpy.run_path(str(own if own.is_file() else SOLUTIONS / f"{kind}.py"))
        scores.append(comp.grade(tmp_path / "submission.csv").value)
    ceiling = comp.grade(comp.answers.parent / "ceiling.csv").value
    sign = 1 if comp.higher_is_better else -1
    trivial, simple, strong, ceiling = (sign * value for value in (*scores, ceiling))
    _, first_step, second_step = SCORES[name]
    assert trivial + first_step < simple
    assert simple + second_step < strong
    assert strong + 0.005 < ceiling < (1 if comp.higher_is_better else 0)


@pytest.mark.parametrize("name", MIRRORS)
def test_bytes_are_a_function_of_rows_and_seed(name, tmp_path):
    least = MIRRORS[name].least_rows
    for folder, rows, seed in (("a", least, 3), ("b", least, 3), ("c", least, 4), ("d", least + 21, 3)):
        make_mirror(name, tmp_path / folder, rows=rows, seed=seed)
        time.sleep(0.02)  # so that a time in the bytes would show
    a, b, c, d = (_bytes(tmp_path / folder) for folder in "abcd")
    assert a == b
    assert a["public/description.md"] != d["public/description.md"]
    answers = f"private/{MLEBENCH_COMPETITIONS[name].answers}"
    train = "public/train.json" if name == PIZZA else "public/train.csv"
    assert all(a[path] != other[path] for other in (c, d) for path in (answers, train))


@pytest.mark.parametrize("name", MIRRORS)
@pytest.mark.parametrize("seed", [5, 6])
def test_small_ones_can_be_graded(name, seed):
    least = MIRRORS[name].least_rows
    comp = load_mirror(f"mirror:{name}?rows={least}&seed={seed}")
    assert comp.id == f"mirror:{name}?rows={least}&seed={seed}"
    assert not set(comp.slug) & set(":?&=/")
    assert len(_read(comp, "train")) + len(_read(comp, "test")) == least
    assert comp.grade(comp.answers).value == (1.0 if comp.higher_is_better else 0.0)
    assert comp.grade(comp.sample_submission).valid == (name != PATENTS)


@pytest.mark.parametrize("name", MIRRORS)
def test_descriptions(name):
    text = load_competition(f"mirror:{name}").description
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings[1:] == ["## Overview", "## Evaluation", "## Submission format", "## Data"]
    overview, evaluation = text.split("\n## ")[1:3]
    assert "The data is synthetic" in overview
    assert len(overview) < 600
    assert len(evaluation) < 600
    assert "{" not in text


@pytest.mark.parametrize(
    ("competition_id", "reason"),
    [
        ("mirror:spooky", "did you mean 'mirror:spooky-author-identification'"),
        ("mirror:", "there are mirror:"),
        ("mirror:digits", "there are mirror:"),
        (f"mirror:{SPOOKY}?row=100", "not understood"),
        (f"mirror:{SPOOKY}?rows=", "not understood"),
        (f"mirror:{SPOOKY}?rows", "not understood"),
        (f"mirror:{SPOOKY}?rows=1e3", "not understood"),
        (f"mirror:{SPOOKY}?rows=-5", "not understood"),
        (f"mirror:{SPOOKY}?seed=1.5", "not understood"),
        (f"mirror:{SPOOKY}?seed=99999999999", "not understood"),
        (f"mirror:{SPOOKY}?rows=100&rows=200", "not understood"),
        (f"mirror:{SPOOKY}?rows=100&", "not understood"),
        (f"mirror:{SPOOKY}?rows=100?seed=1", "not understood"),
        (f"mirror:{SPOOKY}?rows=10", "from 50 to 100000 rows, not 10"),
        (f"mirror:{SPOOKY}?rows=999999", "from 50 to 100000 rows, not 999999"),
        (f"mirror:{LEAVES}?rows=100", "from 198 to 100000 rows, not 100"),
    ],
)
def test_ids_that_are_not_understood_are_one_clear_line(competition_id, reason):
    with pytest.raises(CompetitionError, match="mirror") as error:
        load_competition(competition_id)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_insults():
    train = _read(load_competition(f"mirror:{INSULTS}"), "train")
    assert 0.2 < train["Insult"].mean() < 0.3
    assert 0 < train["Date"].isna().mean() < 0.5
    assert train["Date"].dropna().str.fullmatch(r"20\d{12}Z").all()
    assert pd.to_datetime(train["Date"].dropna(), format="%Y%m%d%H%M%SZ").notna().all()
    assert train["Comment"].str.fullmatch(r'".*"').all()


def test_essays():
    train = _read(load_competition(f"mirror:{ESSAYS}"), "train")
    assert train["score"].dtype == int
    assert set(train["score"]) == set(range(1, 7))
    assert train["essay_id"].str.fullmatch("[0-9a-f]{7}").all()
    assert train["full_text"].str.split().map(len).median() > 100


def test_pizza():
    comp = load_competition(f"mirror:{PIZZA}")
    for part in ("train", "test"):
        content = (comp.public_dir / f"{part}.json").read_bytes()
        with zipfile.ZipFile(comp.public_dir / f"{part}.zip") as archive:
            assert archive.namelist() == [f"{part}.json"]
            assert archive.read(f"{part}.json") == content
    records = json.loads((comp.public_dir / "train.json").read_text())
    assert {type(record["requester_received_pizza"]) for record in records} == {bool}
    assert {type(record["requester_subreddits_at_request"]) for record in records} == {list}
    assert all(record["request_id"].startswith("t3_") for record in records)
    assert pd.read_csv(comp.answers)["requester_received_pizza"].isin([0, 1]).all()


def test_tweets():
    comp = load_competition(f"mirror:{TWEETS}")
    train = _read(comp, "train")
    assert train["textID"].str.fullmatch("[0-9a-f]{10}").all()
    assert set(train["sentiment"]) == {"neutral", "positive", "negative"}
    rows = list(train.itertuples())
    rows += list(_read(comp, "test").merge(pd.read_csv(comp.answers), on="textID").itertuples())
    assert len(rows) == MIRRORS[TWEETS].rows
    assert all(row.selected_text in row.text and row.selected_text.split() for row in rows)


def test_playgrounds():
    may = _read(load_competition(f"mirror:{MAY}"), "train")
    assert may["f_27"].str.fullmatch("[A-T]{10}").all()
    integers = {name for name in may if may[name].dtype == int}
    assert integers == {"id", "target", "f_29", "f_30", *(f"f_{i:02}" for i in range(7, 19))}
    assert set(may["target"]) == set(may["f_29"]) == {0, 1}
    december = _read(load_competition(f"mirror:{DECEMBER}"), "train")
    assert {dtype.kind for dtype in december.dtypes} == {"i"}
    assert len(FOREST) == 54
    assert set(december["Cover_Type"]) == set(range(1, 8))
    for kind in ("Wilderness_Area", "Soil_Type"):
        assert (december.filter(like=kind).sum(axis=1) == 1).all()


def test_patents():
    comp = load_competition(f"mirror:{PATENTS}")
    train, test = _read(comp, "train"), _read(comp, "test")
    assert set(train["score"]) == {0, 0.25, 0.5, 0.75, 1}
    assert train["context"].str.fullmatch(r"[A-H]\d\d").all()
    assert train["id"].str.fullmatch("[0-9a-f]{16}").all()
    assert len(set(test["anchor"]) & set(train["anchor"])) > 0.9 * test["anchor"].nunique()


@pytest.mark.parametrize(("name", "mode", "size"), [(PLANTS, "RGB", (96, 64)), (LEAVES, "L", (64, 64))])
def test_images(name, mode, size):
    comp = load_competition(f"mirror:{name}")
    ids = [*_read(comp, "train")[comp.id_column], *_read(comp, "test")[comp.id_column]]
    assert {path.name for path in (comp.public_dir / "images").iterdir()} == {f"{number}.jpg" for number in ids}
    with Image.open(comp.public_dir / "images" / f"{ids[0]}.jpg") as image:
        assert (image.format, image.mode, image.size) == ("JPEG", mode, size)
        assert np.asarray(image).std() > 10
    if name == PLANTS:
        assert ids[0] == "Train_0"
        assert (pd.read_csv(comp.answers)[DISEASES].sum(axis=1) == 1).all()
    else:
        assert _read(comp, "train")["species"].nunique() == 99
        assert set(_read(comp, "train")["species"]) == set(comp.target_columns)


def test_nomad():
    comp = load_competition(f"mirror:{NOMAD}")
    for part in ("train", "test"):
        table = _read(comp, part)
        assert list(table["id"]) == list(range(1, len(table) + 1))
        assert {path.name for path in (comp.public_dir / part).iterdir()} == set(map(str, table["id"]))
        assert np.allclose(table.filter(like="percent").sum(axis=1), 1, atol=2e-4)
        for row in table.head(20).itertuples():
            lines = (comp.public_dir / part / str(row.id) / "geometry.xyz").read_text().splitlines()
            assert sum(line.startswith("atom ") for line in lines) == row.number_of_total_atoms
            lattice = [np.array(line.split()[1:], float) for line in lines if line.startswith("lattice_vector")]
            lengths = [row.lattice_vector_1_ang, row.lattice_vector_2_ang, row.lattice_vector_3_ang]
            assert np.allclose([np.linalg.norm(vector) for vector in lattice], lengths, atol=1e-3)
            cosine = lattice[0] @ lattice[1] / lengths[0] / lengths[1]
            assert np.degrees(np.arccos(cosine)) == pytest.approx(row.lattice_angle_gamma_degree, abs=0.05)
    assert (_read(comp, "train")[ENERGIES] > 0).all(axis=None)


def test_spooky_and_chats():
    spooky = _read(load_competition(f"mirror:{SPOOKY}"), "train")
    assert spooky["id"].str.fullmatch(r"id\d{5}").all()
    assert set(spooky["author"]) == {"EAP", "HPL", "MWS"}
    chats = _read(load_competition(f"mirror:{LMSYS}"), "train")
    assert (chats[WINNERS].sum(axis=1) == 1).all()
    for row in chats.itertuples():
        turns = [json.loads(text) for text in (row.prompt, row.response_a, row.response_b)]
        assert len({len(texts) for texts in turns}) == 1
        assert all(isinstance(text, str) and text for texts in turns for text in texts)


def test_labels_cannot_be_told_from_the_position():
    for name in MIRRORS:
        answers = pd.read_csv(load_competition(f"mirror:{name}").answers)
        target = answers[(MLEBENCH_COMPETITIONS[name].target_columns or answers.columns[1:])[0]]
        codes = pd.factorize(target, sort=True)[0]
        position = np.arange(len(codes))
        assert abs(np.corrcoef(codes, position)[0, 1]) < 0.2, name


def test_csv_bytes_have_unix_line_ends():
    comp = load_competition(f"mirror:{SPOOKY}")
    assert b"\r" not in (comp.public_dir / "train.csv").read_bytes()
    assert len(pd.read_csv(io.BytesIO(comp.sample_submission.read_bytes()))) == 400


def test_a_competition_of_the_catalogue_needs_no_mirror(monkeypatch):
    monkeypatch.setitem(MLEBENCH_COMPETITIONS, "without-a-mirror", Layout(metric="rmse", id_column="id"))
    assert [*runpy.run_path(making.__file__)["MIRRORS"]] == [*MIRRORS]
