from collections.abc import Iterator
from pathlib import Path

import pytest

from trl_mle.competitions import Competition, load_competition
from trl_mle.execution import LocalExecutor


@pytest.fixture(scope="session")
def competition(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Competition]:
    """A real competition with its files in a folder that only this user may enter, like root's home."""
    with pytest.MonkeyPatch.context() as patch:
        cache: Path = tmp_path_factory.mktemp("cache")
        cache.chmod(0o700)
        patch.setenv("TRL_MLE_CACHE", str(cache))
        patch.setenv("A_SECRET_TOKEN", "hf_secret")
        yield load_competition("wine")


@pytest.fixture(scope="session")
def executor(competition: Competition) -> Iterator[LocalExecutor]:
    limits = {"timeout_s": 5, "memory_mb": 2048, "disk_mb": 64, "output_kb": 64, "max_processes": 64}
    with LocalExecutor(max_parallel=2, **limits) as executor:
        yield executor
