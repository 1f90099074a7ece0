"""Fixtures of many tests: tiny models, and the folder in which DeepSpeed compiles."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings
from support import machine  # noqa: F401 (before libraries read the environment)
from support.pretrained import pretrained
from support.tiny_models import LINES, SOLUTION_LINES, prompts, save_solution_model, save_tiny_model

from trl_mle import cli
from trl_mle.competitions import load_competition
from trl_mle.execution import LocalExecutor
from trl_mle.execution.sandbox import tier


settings.register_profile("tests", derandomize=True, deadline=None)  # the same on every machine, however busy
settings.load_profile("tests")


ROOT = Path(__file__).parents[1]


def pytest_sessionstart():
    # A process that is killed while DeepSpeed compiles leaves a lock, and later runs wait for it forever. So the tests
    # have a folder of their own, and remove the locks in it when they start.
    folder = ROOT / ".ci-work" / "torch_extensions"
    for lock in folder.rglob("lock"):
        lock.unlink()
    os.environ["TORCH_EXTENSIONS_DIR"] = str(folder)


def pytest_collection_modifyitems(items):
    """Runs rooms with long tests first, so that parallel processes end at about the same time."""
    items.sort(key=lambda item: item.path.parent.name not in ("execution", "trainer"))


@pytest.fixture(scope="session", autouse=True)
def own_slots(tmp_path_factory):
    """
    Gives each test process its own slots, so that parallel ones do not wait for each other, and their uids, because an
    early Landlock's init ends everything of its uid.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trl_mle.execution.slots.TMP", tmp_path_factory.mktemp("slots"))
        for name in ("FIRST_GUARD_UID", "FIRST_SLOT_UID"):
            patch.setattr(tier, name, getattr(tier, name) + 100 * worker)
        yield


@pytest.fixture(scope="session")
def wine():
    return load_competition("wine")


@pytest.fixture(scope="session")
def executor():
    with LocalExecutor(max_parallel=1) as executor:
        yield executor


@pytest.fixture
def command(monkeypatch):
    """Runs a command of `trl-mle` in this process; returns its exit code."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["trl-mle", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code

    return run


@pytest.fixture
def broken_pillow(tmp_path):
    """A folder for PYTHONPATH with a Pillow that needs a file that the caller can read, but programs cannot."""
    import PIL

    real, needed, package = Path(PIL.__file__), tmp_path / "needed", tmp_path / "packages" / "PIL"
    needed.touch()
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"__path__.append({str(real.parent)!r})\nexec(open({str(real)!r}).read())\nopen({str(needed)!r}).close()\n"
    )
    return str(package.parent)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """Folder of a random Qwen2 with some 30,000 parameters and a tokenizer that knows every byte."""
    texts = ["Write a program for the competition.", "import pandas as pd"]
    return save_tiny_model(tmp_path_factory.mktemp("tiny-qwen2"), texts, vocab_size=300)


@pytest.fixture(scope="session")
def program_model(tmp_path_factory):
    """Like `tiny_model`, with lines of Python as tokens: samples of these are programs. Prompts are few tokens long."""
    return save_tiny_model(tmp_path_factory.mktemp("program-qwen2"), prompts(), vocab_size=1200, lines=LINES)


@pytest.fixture(scope="session")
def solution_model(tmp_path_factory):
    """A policy of the starter's size that samples only programs: its `path`, and the `options` for sampling."""
    path = save_solution_model(tmp_path_factory.mktemp("solution-qwen2"))
    vocabulary = json.loads(Path(path, "config.json").read_text())["vocab_size"]
    wrong = [i for i in range(vocabulary - len(SOLUTION_LINES)) if i != 2]  # all tokens but lines and EOS
    return SimpleNamespace(path=path, options={"generation_kwargs": {"suppress_tokens": wrong}})


@pytest.fixture(scope="session")
def smollm2():
    """Folder of a pretrained model, SmolLM2-135M-Instruct."""
    return pretrained("smollm2-135m")
