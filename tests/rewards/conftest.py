import pytest

from trl_mle.competitions import Competition, load_competition


@pytest.fixture(scope="session")
def wine() -> Competition:
    return load_competition("wine")
