"""Ideas that a language model writes."""

import json

import yaml
from support.openai_server import OpenAIServer

from trl_mle.competitions import load_competition
from trl_mle.prompts import Idea, Ideas
from trl_mle.scripts.write_ideas import ideas_in


ANSWER = (
    """Here are some ways:
1. `RandomForestRegressor(n_estimators=500)`
- model = SVR(C=3)
* **Ridge** on standardized features
2. ExtraTreesClassifier()
RandomForestRegressor(n_estimators=500).
"""
    + "Lasso "
    + "x" * 120
)


def test_lines_that_name_a_model_are_ideas():
    forest = "from sklearn.ensemble import RandomForestRegressor"
    assert ideas_in(ANSWER, "regressor") == [
        Idea("RandomForestRegressor(n_estimators=500)", forest),
        Idea("SVR(C=3)", "from sklearn.svm import SVR", one_output=True),
        Idea("Ridge on standardized features", "from sklearn.linear_model import Ridge"),
    ]
    assert [idea.fit for idea in ideas_in(ANSWER, "classifier")] == ["ExtraTreesClassifier()"]


def test_a_policy_writes_a_file_that_training_takes(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    server = OpenAIServer(lambda prompt, max_tokens: (ANSWER, 50))
    assert command("ideas", "diabetes", "--policy", server.url, "--count", "2", "--json") == 0
    assert "List 2 different ways to predict this" in server.requests[0]["messages"][0]["content"]
    names = json.loads(capsys.readouterr().out)
    assert names == ["RandomForestRegressor(n_estimators=500)", "SVR(C=3)"]
    ideas = Ideas("diabetes-ideas.yaml").of(load_competition("diabetes"))
    assert [idea.name for idea in ideas] == names
    assert command("ideas", "diabetes", "--policy", server.url) == 2  # rather than overwrite it
    assert command("ideas", "diabetes", "--to", "mine.yaml") == 2  # only a policy writes a file
    assert len(server.requests) == 1
    assert yaml.safe_load((tmp_path / "diabetes-ideas.yaml").read_text())[1]["one_output"] is True


def test_an_answer_without_a_model(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    server = OpenAIServer(lambda prompt, max_tokens: ("I cannot help.", 4))
    assert command("ideas", "diabetes", "--policy", server.url) == 2
    assert "names no model of scikit-learn: I cannot help" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
