"""What is solved, and how it is scored."""

from trl_mle.competitions.catalog import list_competitions, load_competition
from trl_mle.competitions.competition import Competition, CompetitionError, Score


__all__ = ["Competition", "CompetitionError", "Score", "list_competitions", "load_competition"]
