"""Makes and loads mirrors."""

import re
from pathlib import Path

import numpy as np

from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS, competition_from_folder
from trl_mle.competitions.competition import Competition, CompetitionError, path_slug
from trl_mle.competitions.mirrors.images import IMAGE_MIRRORS
from trl_mle.competitions.mirrors.long_texts import LONG_TEXT_MIRRORS
from trl_mle.competitions.mirrors.short_texts import SHORT_TEXT_MIRRORS
from trl_mle.competitions.mirrors.tabular import TABULAR_MIRRORS
from trl_mle.competitions.prepared import cached_folder, csv_text, description, write_file
from trl_mle.data_files import read_data
from trl_mle.spelling import did_you_mean


PREFIX = "mirror:"
_BY_KIND = {**SHORT_TEXT_MIRRORS, **LONG_TEXT_MIRRORS, **TABULAR_MIRRORS, **IMAGE_MIRRORS}
MIRRORS = {name: _BY_KIND[name] for name in MLEBENCH_COMPETITIONS}
FACTS = read_data(Path(__file__).with_name("mirrors.yaml"))
LEAST_ROWS, MAX_ROWS = 50, 100_000


def load_mirror(competition_id: str) -> Competition:
    """Loads the mirror of an MLE-bench competition; its files are written on first use. Size and seed may follow its
    id, as in `mirror:leaf-classification?rows=500&seed=3`."""
    original, _, query = competition_id.removeprefix(PREFIX).partition("?")
    if original not in MIRRORS:
        part_of = next((name for name in MIRRORS if original and original in name), original)
        names = {name: PREFIX + name for name in MIRRORS}
        hint = did_you_mean(part_of, names, names) or f"there are {', '.join(names.values())}"
        raise CompetitionError(f"there is no competition {competition_id!r}; {hint}")
    numbers = dict(re.findall(r"(rows|seed)=(\d{1,9})", query, re.ASCII))
    if "&".join(f"{key}={value}" for key, value in numbers.items()) != query:
        raise CompetitionError(f"{competition_id!r} is not understood: write {PREFIX}{original}?rows=500&seed=3")
    size_and_seed = {key: int(value) for key, value in numbers.items()}
    prepared = cached_folder(
        competition_id, path_slug(competition_id), lambda folder: make_mirror(original, folder, **size_and_seed)
    )
    return competition_from_folder(competition_id, MLEBENCH_COMPETITIONS[original], prepared)


def make_mirror(competition_id: str, prepared: Path, rows: int | None = None, seed: int = 0) -> None:
    """Writes `public/` and `private/` of a mirror, a key of `MIRRORS`, into a folder; equal arguments give equal
    bytes. A quarter of the rows is the test set."""
    mirror, layout, facts = MIRRORS[competition_id], MLEBENCH_COMPETITIONS[competition_id], FACTS[competition_id]
    rows = facts["rows"] if rows is None else rows
    least = facts.get("least_rows", LEAST_ROWS)
    if not least <= rows <= MAX_ROWS:
        raise CompetitionError(f"mirrors of {competition_id!r} have from {least} to {MAX_ROWS} rows, not {rows}")
    random = np.random.RandomState(seed)  # because numpy promises that its stream never changes
    drawn = mirror.draw(rows, random)

    # Every fourth row in label order: both parts have all labels in the same shares, even with few rows.
    shuffled = drawn.targets.iloc[random.permutation(rows)]
    by_label = shuffled.sort_values(shuffled.columns.tolist(), kind="stable").index.to_numpy()
    in_test = np.arange(rows) % 4 == 2
    train_rows, test_rows = random.permutation(by_label[~in_test]), random.permutation(by_label[in_test])

    table = drawn.table.iloc[[*train_rows, *test_rows]]
    if mirror.ids:
        table.insert(0, layout.id_column, mirror.ids(len(train_rows), len(test_rows), random))
    train, test = table.loc[train_rows], table.loc[test_rows].drop(columns=list(facts["train_only"]))
    ids = test[[layout.id_column]]
    targets = drawn.targets.columns
    sample = ids.assign(**dict(zip(targets, np.resize(facts["sample"], len(targets)).tolist(), strict=True)))
    files = {
        "public/train.csv": train,
        "public/test.csv": test,
        f"public/{layout.sample_submission}": sample,
        f"private/{layout.answers}": ids.join(drawn.targets),
        "private/ceiling.csv": ids.join(drawn.ceiling),  # not in the original: the best reachable score
    }
    for path, content in mirror.adapt(files).items():
        write_file(prepared / path, content if isinstance(content, bytes) else csv_text(content))
    if drawn.attachments:
        for part, part_ids in (("train", train[layout.id_column]), ("test", ids[layout.id_column])):
            for row, name in zip(part_ids.index.to_numpy(), part_ids, strict=True):
                path = facts["attachment"].format(part=part, id=name)
                write_file(prepared / "public" / path, drawn.attachments[row])
    text = description(
        title=f"{facts['title']} (mirror)",
        overview=f"The data is synthetic: a stand-in for the Kaggle competition of this name. {facts['overview']}",
        evaluation=facts["evaluation"],
        submission=f"One row for each `{layout.id_column}` of the test set, below this header:",
        sample=sample,
        data=facts["data"].format(train=len(train), test=len(test)),
    )
    write_file(prepared / "public" / "description.md", text)
