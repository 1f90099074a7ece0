from pathlib import Path

import pytest


@pytest.fixture
def spooky_dir(tmp_path: Path) -> Path:
    """A data folder with a spooky competition of four rows, as `mlebench prepare` would leave it."""
    public = tmp_path / "spooky-author-identification" / "prepared" / "public"
    private = public.parent / "private"
    public.mkdir(parents=True)
    private.mkdir()
    (public / "description.md").write_text(
        "# Overview\n\n## Description\n\nWho wrote it?\n\n## Evaluation\n\nLog loss.\n"
    )
    (public / "train.csv").write_text('id,text,author\nid1,"It was a dark, stormy night.",EAP\n')
    (public / "test.csv").write_text("id,text\nid7,a\nid3,b\nid9,c\nid4,d\n")
    rows = "".join(f"id{i},0.4,0.3,0.3\n" for i in (7, 3, 9, 4))
    (public / "sample_submission.csv").write_text("id,EAP,HPL,MWS\n" + rows)
    (private / "test.csv").write_text("id,EAP,HPL,MWS\nid7,1,0,0\nid3,0,1,0\nid9,0,0,1\nid4,1,0,0\n")
    return tmp_path
