import os

from trl_mle.execution.folders import hold, make_run_dir


def test_only_folders_of_this_users_dead_executors_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("trl_mle.execution.folders.TMP", tmp_path)
    dead, alive, others = (tmp_path / f"trl_mle-run-{name}" for name in ("dead", "alive", "others"))
    for folder in (dead, alive):
        folder.mkdir()
    others.symlink_to(tmp_path)  # in /tmp, another user may have made anything
    fds = [hold(alive)]
    run_dir, fd = make_run_dir()
    assert sorted(tmp_path.iterdir()) == sorted([alive, others, run_dir])
    for each in (*fds, fd):
        os.close(each)
