import subprocess
import sys

import pytest

from trl_mle import cli


def test_doctor_tells_which_tier_works(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["trl-mle", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert out.splitlines()[-1].startswith("programs are isolated by bubblewrap, ")
    assert max(map(len, out.splitlines())) <= 80


def test_doctor_tells_what_is_missing(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("trl_mle.execution.kernel.landlock_abi", lambda: 5)
    monkeypatch.setattr("sys.argv", ["trl-mle", "doctor"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 1
    assert "bubblewrap is missing" in out
    assert "ABI 5" in out
    assert "apt-get install bubblewrap" in out


def test_a_wrong_command_is_said_in_one_line():
    run = subprocess.run([sys.executable, "-m", "trl_mle.cli", "dokter"], capture_output=True, text=True)
    assert run.returncode == 2
    assert "invalid choice: 'dokter' (choose from 'doctor')" in run.stderr.splitlines()[-1]
