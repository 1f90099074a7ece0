import json
import time
import zipfile
import zlib

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from support.packages import read_files
from support.sketched import quick_programs, score
from threadpoolctl import threadpool_limits

from trl_mle.competitions import Competition, CompetitionError, Score, load_competition
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.competitions.mirrors import FACTS, MIRRORS, load_mirror, make_mirror, making


INSULTS, ESSAYS, PIZZA, TWEETS, MAY, DECEMBER, PATENTS, PLANTS, LEAVES, NOMAD, SPOOKY, LMSYS = MLEBENCH_COMPETITIONS


# Checksum of the names of all files and of the columns of all tables, which are those of the originals; the sample submission's
# score with seed 0; what programs see of columns' values
FACTS_BY_NAME = {
    "detecting-insults-in-social-commentary": (1509307053, 0.5, {"Date": r"20\d{12}Z", "Comment": r'".*"'}),
    "learning-agency-lab-automated-essay-scoring-2": (221266196, 0, {"score": "[1-6]"}),
    PIZZA: (1462297986, 0.5, {}),
    TWEETS: (494470567, 0, {}),
    "tabular-playground-series-may-2022": (2943000987, 0.5, {"f_27": "[A-T]{10}"}),
    "tabular-playground-series-dec-2021": (4170698141, 0.45, {"Cover_Type": "[1-7]"}),
    PATENTS: (188945124, None, {"context": r"[A-H]\d\d", "score": r"0\.0|0\.25|0\.5|0\.75|1\.0"}),
    PLANTS: (3865038088, 0.5, {}),
    LEAVES: (1491466493, 4.59512, {}),
    NOMAD: (646556473, 0.23553, {}),
    SPOOKY: (2516302366, 1.08708, {"author": "EAP|HPL|MWS"}),
    LMSYS: (3060688002, 1.09861, {}),
}


def _read(comp: Competition, name: str) -> pd.DataFrame:
    if name in ("train", "test") and comp.id.startswith(f"mirror:{PIZZA}"):
        return pd.read_json(comp.public_dir / f"{name}.json")
    return pd.read_csv(comp.public_dir / f"{name}.csv")


@pytest.mark.parametrize("name", MIRRORS)
def test_files_columns_and_scores(name):
    comp, original = load_competition(f"mirror:{name}"), MLEBENCH_COMPETITIONS[name]
    checksum, guess, forms = FACTS_BY_NAME[name]
    assert (comp.id, comp.slug, comp.metric) == (f"mirror:{name}", f"mirror-{name}", original.metric)
    assert comp.public_dir.parts[-3:] == (comp.slug, "prepared", "public")

    train, test = _read(comp, "train"), _read(comp, "test")
    sample, answers = pd.read_csv(comp.sample_submission), pd.read_csv(comp.answers)
    folders = [sorted(path.name for path in folder.iterdir()) for folder in (comp.public_dir, comp.answers.parent)]
    names = [list(train), list(test), list(sample), list(answers), *folders]
    assert zlib.crc32(json.dumps(names).encode()) == checksum
    for column, form in forms.items():
        assert train[column].dropna().astype(str).str.fullmatch(form).all()
    rows = FACTS[name]["rows"]
    assert len(train) + len(test) == rows
    assert 0.2 < len(test) / rows < 0.3
    assert list(sample[comp.id_column]) == list(answers[comp.id_column]) == list(test[comp.id_column])
    assert test[comp.id_column].is_unique
    if name != NOMAD:  # which numbers both files from 1
        assert not set(train[comp.id_column]) & set(test[comp.id_column])

    assert comp.grade(comp.answers) == Score(1.0 if comp.higher_is_better else 0.0, valid=True)
    assert comp.grade(comp.sample_submission).value == guess
    assert comp.grade(comp.sample_submission).valid == (name != PATENTS)
    target = answers[(original.target_columns or answers.columns[1:])[0]]
    codes = pd.factorize(target, sort=True)[0]  # the position says nothing about the label
    assert abs(np.corrcoef(codes, np.arange(len(codes)))[0, 1]) < 0.2

    assert "The data is synthetic" in comp.description
    assert "{" not in comp.description


@pytest.mark.parametrize("name", MIRRORS)
def test_bytes_are_a_function_of_rows_and_seed(name, tmp_path):
    least = FACTS[name].get("least_rows", making.LEAST_ROWS)
    for folder, rows, seed in (("a", least, 3), ("b", least, 3), ("c", least, 4), ("d", least + 21, 3)):
        make_mirror(name, tmp_path / folder, rows=rows, seed=seed)
        time.sleep(0.02)  # so that a time in the bytes would show
    a, b, c, d = (read_files(tmp_path / folder) for folder in "abcd")
    assert a == b
    assert a["public/description.md"] != d["public/description.md"]
    answers = f"private/{MLEBENCH_COMPETITIONS[name].answers}"
    train = "public/train.json" if name == PIZZA else "public/train.csv"
    assert all(a[path] != other[path] for other in (c, d) for path in (answers, train))

    comp = load_mirror(f"mirror:{name}?rows={least}&seed=3")
    assert comp.id == f"mirror:{name}?rows={least}&seed=3"
    assert not set(comp.slug) & set(":?&=/")
    assert read_files(comp.public_dir.parent) == a


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # scikit-learn's, of weak models
@pytest.mark.parametrize("name", MIRRORS)
def test_programs_beat_a_constant_guess_but_not_the_ceiling(name, tmp_path):
    comp = load_competition(f"mirror:{name}")
    with threadpool_limits(1):  # as in a slot: on matrices this small, several threads are slower
        scores = [score(program, comp, tmp_path / str(i)) for i, program in enumerate(quick_programs(comp.id, 4))]
    guess = comp.grade(comp.sample_submission).value or 0.0
    ceiling = comp.grade(comp.answers.parent / "ceiling.csv").value
    gains = [comp.scoring.gain(value) for value in (guess, max(scores, key=comp.scoring.gain), ceiling)]
    assert gains[0] < gains[1] < gains[2] < comp.scoring.gain(comp.scoring.best)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("spooky", "did you mean 'mirror:spooky-author-identification'"),
        *[(f"{SPOOKY}?{end}", "not understood") for end in ("rows=1e3", "seed=99999999999", "rows=100&rows=200")],
        (f"{LEAVES}?rows=100", "from 198 to 100000 rows, not 100"),
    ],
)
def test_ids_that_are_not_understood_are_one_clear_line(end, reason):
    with pytest.raises(CompetitionError, match=f"^.*mirror.*{reason}.*$"):
        load_competition(f"mirror:{end}")


def test_pizza():
    comp = load_competition(f"mirror:{PIZZA}")
    for part in ("train", "test"):
        content = (comp.public_dir / f"{part}.json").read_bytes()
        with zipfile.ZipFile(comp.public_dir / f"{part}.zip") as archive:
            assert archive.namelist() == [f"{part}.json"]
            assert archive.read(f"{part}.json") == content
    record = json.loads((comp.public_dir / "train.json").read_text())[0]
    assert type(record["requester_received_pizza"]) is bool
    assert type(record["requester_subreddits_at_request"]) is list


def test_tweets():
    comp = load_competition(f"mirror:{TWEETS}")
    test = _read(comp, "test").merge(pd.read_csv(comp.answers), on="textID")
    for table in (_read(comp, "train"), test):
        assert all(row.selected_text in row.text and row.selected_text.split() for row in table.itertuples())


@pytest.mark.parametrize(("name", "mode", "size"), [(PLANTS, "RGB", (96, 64)), (LEAVES, "L", (64, 64))])
def test_images(name, mode, size):
    comp = load_competition(f"mirror:{name}")
    ids = [*_read(comp, "train")[comp.id_column], *_read(comp, "test")[comp.id_column]]
    assert {path.name for path in (comp.public_dir / "images").iterdir()} == {f"{number}.jpg" for number in ids}
    with Image.open(comp.public_dir / "images" / f"{ids[0]}.jpg") as image:
        assert (image.format, image.mode, image.size) == ("JPEG", mode, size)
        assert np.asarray(image).std() > 10
    if name == PLANTS:
        assert (pd.read_csv(comp.answers)[["healthy", "multiple_diseases", "rust", "scab"]].sum(axis=1) == 1).all()
    else:
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


def test_chats():
    chats = _read(load_competition(f"mirror:{LMSYS}"), "train")
    assert (chats.filter(like="winner").sum(axis=1) == 1).all()
    for row in chats.itertuples():
        turns = [json.loads(text) for text in (row.prompt, row.response_a, row.response_b)]
        assert len({len(texts) for texts in turns}) == 1
        assert all(isinstance(text, str) and text for texts in turns for text in texts)
