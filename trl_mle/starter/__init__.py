"""A tiny policy, trained from scratch on generated programs, so that everything runs offline without a download."""


def check_covered(competition: str) -> None:
    """Raises `ValueError` if no such policy can be made for a competition."""
    from trl_mle.starter.grammar import (
        find_tasks,  # here, because the rest of the package knows nothing of the grammar
    )

    find_tasks(competition)
