import json
import pickle
import subprocess
import sys

import pytest
from support.fake_executor import SOLUTION, ScriptedExecutor

from trl_mle.execution import ExecutionResult, Outcome
from trl_mle.models import Completion
from trl_mle.rewards import Evaluation, MLEReward, ProgramLog, Sample


def test_training_records_every_execution_the_failed_try_too(tmp_path, wine):
    results = [
        ExecutionResult(Outcome.INFRASTRUCTURE, "disk full"),
        ExecutionResult(Outcome.ERROR, "exit code 3", 0.5, max_rss_mb=80.0, stdout="a text of the program's"),
    ]
    reward = MLEReward([wine], ScriptedExecutor(*results), log_dir=tmp_path / "executions")
    reward.log = pickle.loads(pickle.dumps(reward.log))  # as where another process evaluates
    reward.evaluate(SOLUTION, "wine")
    reward.evaluate("no code", "wine")  # nothing to execute, nothing to record
    text = (tmp_path / "executions" / "rank-0.jsonl").read_text()
    first, second = map(json.loads, text.splitlines())
    assert first | {"outcome": "infrastructure", "detail": "disk full", "reward": None} == first
    assert second | {"outcome": "error", "duration_s": 0.5, "reward": -10.0, "max_rss_mb": 80.0} == second
    assert first["program"] == second["program"] != ""
    assert first["time"] < second["time"]
    assert "of the program's" not in text


def test_sigkill_loses_at_most_the_last_line(tmp_path):
    path = tmp_path / "log.jsonl"
    script = """
import sys
from pathlib import Path
from trl_mle.rewards import Evaluation, ProgramLog
log = ProgramLog(Path(sys.argv[1]))
number = 0
while True:
    log.append("wine", Evaluation(None), number=number)
    number += 1
    print(number, flush=True)
"""
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE, text=True)
    for _ in range(500):
        written = int(writer.stdout.readline())
    writer.kill()
    written = max([written, *(int(line) for line in writer.stdout if line.endswith("\n"))])
    writer.wait()
    lines = path.read_text().split("\n")
    assert [json.loads(line)["number"] for line in lines[:-1]] == list(range(len(lines) - 1))
    assert len(lines) - 1 >= written
    with path.open("a") as file:
        file.write('{"time": "20')
    ProgramLog(path).append("wine", Evaluation(None), number=len(lines) - 1)  # a resumed run
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == list(range(len(lines)))


def complete(log, *texts, competition="wine"):
    log.add_completions(competition, {i: Sample(Completion(text)) for i, text in enumerate(texts)})


def test_other_settings_and_another_competition_of_the_same_name_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    log = ProgramLog(path, {"seed": 1}, {"wine": "a", "digits": "b"})
    complete(log)
    assert not path.exists()  # nothing was sampled
    complete(log, "text")
    complete(log, "text", competition="digits")
    for others in ({}, {"wine": "a"}, {"digits": "b", "diabetes": "c"}):
        assert len(ProgramLog(path, {"seed": 1}, others).samples) == 2
    with pytest.raises(ValueError, match=r"was made with other settings \(content of digits\): use"):
        ProgramLog(path, {"seed": 1}, {"wine": "a", "digits": "c"})
    with pytest.raises(ValueError, match=r"was made with other settings \(seed\)"):
        ProgramLog(path, {"seed": 2})

    path.write_text(f"{path.read_text()}{{\n")
    with pytest.raises(ValueError, match=f"^{path}, line 5, is not a JSON mapping .*: fix or remove it"):
        ProgramLog(path, {"seed": 1})
