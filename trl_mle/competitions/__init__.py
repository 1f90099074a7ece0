"""Competitions: their data, and how submissions are scored."""

from trl_mle.competitions.competition import Competition, CompetitionError, Score
from trl_mle.competitions.loading import list_competitions, load_competition


__all__ = ["Competition", "CompetitionError", "Score", "list_competitions", "load_competition"]
