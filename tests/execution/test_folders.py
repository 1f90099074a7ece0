import os

from trl_mle.execution.folders import make_run_dir


def test_another_users_folder_hinders_no_start(tmp_path, monkeypatch):
    """Whatever its lock is: nobody opens it."""
    monkeypatch.setattr("trl_mle.execution.folders.TMP", tmp_path)
    theirs = tmp_path / "trl_mle-theirs"
    theirs.mkdir()
    os.mkfifo(theirs / "lock")  # opening it would wait for a writer
    monkeypatch.setattr("os.geteuid", lambda: theirs.stat().st_uid + 1)
    run_dir, lock = make_run_dir()
    lock.close()
    assert sorted(tmp_path.iterdir()) == sorted([theirs, run_dir])
