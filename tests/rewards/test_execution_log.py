import json
import subprocess
import sys

from support.scripted_executor import SOLUTION, ScriptedExecutor

from trl_mle.execution import ExecutionResult, Outcome
from trl_mle.rewards import ExecutionLog, MLEReward


def test_every_execution_is_recorded_the_failed_try_too(tmp_path, wine):
    results = [
        ExecutionResult(Outcome.INFRASTRUCTURE, "disk full"),
        ExecutionResult(Outcome.ERROR, "exit code 3", 0.5),
    ]
    reward = MLEReward([wine], ScriptedExecutor(*results), log_dir=tmp_path / "executions")
    reward.evaluate(SOLUTION, "wine")
    reward.evaluate("no code", "wine")  # nothing to execute, nothing to record
    first, second = map(json.loads, (tmp_path / "executions" / "rank-0.jsonl").read_text().splitlines())
    assert (first["outcome"], first["detail"], first["duration_s"], first["reward"]) == (
        "infrastructure",
        "disk full",
        None,
        None,
    )
    assert (second["outcome"], second["duration_s"], second["reward"]) == ("error", 0.5, -10.0)
    assert first["program"] == second["program"] != ""
    assert first["competition"] == "wine"
    assert first["time"] < second["time"]


def test_full_files_are_moved_on_and_nothing_is_lost(tmp_path):
    log = ExecutionLog(tmp_path / "log.jsonl")
    log._handler.maxBytes = 2000
    for number in range(100):
        log.append("x", number=number)
    log.close()
    files = list(tmp_path.iterdir())
    assert len(files) > 3
    assert all(file.stat().st_size <= 2000 for file in files)
    numbers = [json.loads(line)["number"] for file in files for line in file.read_text().splitlines()]
    assert sorted(numbers) == list(range(100))


def test_sigkill_loses_at_most_the_last_line(tmp_path):
    path = tmp_path / "log.jsonl"
    script = """
import sys
from pathlib import Path
from trl_mle.rewards import ExecutionLog
log = ExecutionLog(Path(sys.argv[1]))
number = 0
while True:
    log.append("x", number=number)
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
