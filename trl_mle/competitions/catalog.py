"""Every competition by its id: the local ones, and the 12 MLE-bench competitions of the paper."""

import difflib
import os
from pathlib import Path

from trl_mle.competitions.competition import Competition, CompetitionError, user_cache_dir
from trl_mle.competitions.local import LOCAL_COMPETITIONS, load_local


# In the order of the table in https://huggingface.co/papers/2509.01684.
MLEBENCH_COMPETITIONS = (
    "detecting-insults-in-social-commentary",
    "learning-agency-lab-automated-essay-scoring-2",
    "random-acts-of-pizza",
    "tweet-sentiment-extraction",
    "tabular-playground-series-may-2022",
    "tabular-playground-series-dec-2021",
    "us-patent-phrase-to-phrase-matching",
    "plant-pathology-2020-fgvc7",
    "leaf-classification",
    "nomad2018-predict-transparent-conductors",
    "spooky-author-identification",
    "lmsys-chatbot-arena",
)


def list_competitions() -> list[str]:
    """The ids that [`load_competition`] knows. Those of MLE-bench must have been prepared with its own tool."""
    return [*LOCAL_COMPETITIONS, *MLEBENCH_COMPETITIONS]


def load_competition(competition_id: str, data_dir: Path | str | None = None) -> Competition:
    """
    Load a competition by its id.

    Args:
        competition_id (`str`):
            One of [`list_competitions`].
        data_dir (`Path` or `str`, *optional*):
            Where `mlebench prepare` has put the MLE-bench competitions. Defaults to `$MLEBENCH_DATA_DIR`, else to
            MLE-bench's own default. The local competitions are always made in `trl_mle`'s cache.

    Returns:
        [`Competition`]: The competition, ready to be read and graded.
    """
    if competition_id in LOCAL_COMPETITIONS:
        return load_local(competition_id)
    if competition_id in MLEBENCH_COMPETITIONS:
        data_dir = data_dir or os.environ.get("MLEBENCH_DATA_DIR") or user_cache_dir() / "mle-bench" / "data"
        return _load_mlebench(competition_id, Path(data_dir).expanduser().absolute() / competition_id / "prepared")
    near = difflib.get_close_matches(competition_id, list_competitions())
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known are {', '.join(list_competitions())}"
    raise CompetitionError(f"unknown competition {competition_id!r}; {hint}")


def _load_mlebench(competition_id: str, prepared: Path) -> Competition:
    public, private = prepared / "public", prepared / "private"
    gradable = competition_id == "spooky-author-identification"
    missing = "" if gradable else f"grading {competition_id!r} is not supported by this version of trl_mle"
    if not (public.is_dir() and private.is_dir()):
        raise CompetitionError(
            f"{competition_id!r} is not prepared in {prepared}; prepare it with: mlebench prepare -c {competition_id}"
            + (f" (but {missing})" if missing else "")
        )
    if missing:
        raise CompetitionError(missing)
    return Competition(
        id=competition_id,
        metric="log_loss",
        public_dir=public,
        sample_submission=public / "sample_submission.csv",
        answers=private / "test.csv",
        target_columns=("EAP", "HPL", "MWS"),
        exact_columns=True,
        id_first=True,
    )
