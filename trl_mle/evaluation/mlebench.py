"""Submissions in MLE-bench's format: `mlebench grade --submission <folder>/<policy>/submission.jsonl`."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from trl_mle.competitions import Competition, CompetitionError
from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS


def check_gradable(competitions: Sequence[Competition]) -> None:
    """Raises [`~trl_mle.competitions.CompetitionError`] if MLE-bench does not know a competition."""
    unknown = [competition.id for competition in competitions if competition.id not in MLEBENCH_COMPETITIONS]
    if unknown:
        raise CompetitionError(
            f"--mlebench_out: MLE-bench cannot grade {', '.join(unknown)}; it knows {', '.join(MLEBENCH_COMPETITIONS)}"
        )


def write_submissions(best_solutions: Path, competitions: Sequence[Competition], folder: Path) -> Path:
    """
    Writes the best submission for each competition as `<competition>/submission.csv`, and `submission.jsonl` with one
    line per competition. For a competition without a valid submission, the line names a missing file: MLE-bench counts
    it as a run without a submission.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for competition in competitions:
        submission = folder / competition.id / "submission.csv"
        submission.unlink(missing_ok=True)  # from another evaluation
        best = best_solutions / competition.slug / "submission.csv"
        if best.exists():
            submission.parent.mkdir(exist_ok=True)
            shutil.copyfile(best, submission)
        lines.append(json.dumps({"competition_id": competition.id, "submission_path": str(submission.absolute())}))
    path = folder / "submission.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
