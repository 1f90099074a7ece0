"""A tiny policy, trained from scratch on generated programs, so that everything runs offline without a download."""


def check_covered(competition: str) -> None:
    """Raises `ValueError` if no such policy can be made for a competition."""
    # Here, because the rest of the package knows nothing of the grammar
    from trl_mle.starter.grammar import find_tasks

    find_tasks(competition)
