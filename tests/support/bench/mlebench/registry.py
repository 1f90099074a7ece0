from dataclasses import dataclass
from pathlib import Path

import yaml
from mlebench.grade_helpers import Grader


@dataclass(frozen=True)
class Competition:
    id: str
    name: str
    description: str
    grader: Grader
    answers: Path
    gold_submission: Path
    sample_submission: Path
    private_dir: Path
    public_dir: Path
    leaderboard: Path


class Registry:
    def __init__(self, data_dir=Path("nowhere")):
        self._data_dir = data_dir

    def set_data_dir(self, new_data_dir):
        return Registry(new_data_dir)

    def get_data_dir(self):
        return self._data_dir

    def get_competitions_dir(self):
        return Path(__file__).parent / "competitions"

    def list_competition_ids(self):
        return sorted(path.parent.name for path in self.get_competitions_dir().rglob("config.yaml"))

    def get_competition(self, competition_id):
        folder = self.get_competitions_dir() / competition_id
        config = yaml.safe_load((folder / "config.yaml").read_text())
        answers = self._data_dir / config["dataset"]["answers"]
        prepared = self._data_dir / competition_id / "prepared"
        return Competition(
            id=config["id"],
            name=config["name"],
            description=(folder / "description.md").read_text(),
            grader=Grader(**config["grader"]),
            answers=answers,
            gold_submission=answers,
            sample_submission=self._data_dir / config["dataset"]["sample_submission"],
            private_dir=prepared / "private",
            public_dir=prepared / "public",
            leaderboard=folder / "leaderboard.csv",
        )


registry = Registry()
