import pytest

from trl_mle.launching import check_trackers


def test_trackers_that_are_not_there_are_missed_at_start():
    check_trackers([])
    with pytest.raises(ValueError, match=r"^report_to: pen is not one of .*tensorboard"):
        check_trackers(["pen"])


def test_how_to_install_a_tracker(monkeypatch):
    name = "trl_mle.launching.checks.get_available_reporting_integrations"
    monkeypatch.setattr(name, lambda: ["wandb"])
    check_trackers(["wandb"])
    with pytest.raises(ValueError, match=r"^report_to: trackio is not installed: pip install 'trl-mle\[trackio\]'$"):
        check_trackers(["wandb", "trackio"])
