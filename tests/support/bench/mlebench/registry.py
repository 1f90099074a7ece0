from dataclasses import dataclass
from pathlib import Path

import yaml
from mlebench.grade_helpers import Grader


@dataclass(frozen=True)
class Competition:
    id: str
    grader: Grader
    answers: Path
    gold_submission: Path
    sample_submission: Path
    public_dir: Path
    leaderboard: Path


class Registry:
    def __init__(self, data_dir=Path("nowhere")):
        self._data_dir = data_dir

    def set_data_dir(self, new_data_dir):
        return Registry(new_data_dir)

    def get_competition(self, competition_id):
        folder = Path(__file__).parent / "competitions" / competition_id
        config = yaml.safe_load((folder / "config.yaml").read_text())
        answers = self._data_dir / config["dataset"]["answers"]
        return Competition(
            id=config["id"],
            grader=Grader(**config["grader"]),
            answers=answers,
            gold_submission=answers,
            sample_submission=self._data_dir / config["dataset"]["sample_submission"],
            public_dir=self._data_dir / competition_id / "prepared" / "public",
            leaderboard=folder / "leaderboard.csv",
        )


registry = Registry()
