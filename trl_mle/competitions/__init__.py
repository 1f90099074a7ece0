"""Competitions: their data, and how submissions are scored."""

from trl_mle.competitions.competition import Competition, CompetitionError, GradingFailed, Score
from trl_mle.competitions.loading import list_competitions, load_competition
from trl_mle.competitions.task_set import TaskSet


__all__ = [
    "Competition",
    "CompetitionError",
    "GradingFailed",
    "Score",
    "TaskSet",
    "list_competitions",
    "load_competition",
]
