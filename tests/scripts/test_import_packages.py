"""`trl-mle import`."""

import yaml
from support.packages import tables, write_package

from trl_mle.competitions import load_competition


def test_a_folder_of_packages(command, tmp_path, capsys):
    folder = tmp_path / "packages"
    write_package(folder / "kinds", "openmle")
    write_package(folder / "prices", "mle-dojo")
    write_package(folder / "sand", "sandmle")
    write_package(folder / "binary", "mle-dojo", **{"data/private/test_answer.csv": "\0\1\2"})
    write_package(folder / "broken", "openmle", **{"{public}/description.txt": None})
    assert command("import", folder, "--to", tmp_path / "out", "--metric", "rmse") == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("failed    binary: ")
    assert said[1] == "failed    broken: there is no description.txt or description.md"
    assert said[2].startswith("failed    kinds: rmse cannot score kind: ")
    assert said[3:6] == ["imported  prices: rmse ↓", "imported  sand: rmse ↓", f"2 of 5 in {tmp_path}/out/"]
    for name in "prices", "sand":
        config = yaml.safe_load((tmp_path / "out" / name / "competition.yaml").read_text())
        assert config == {"id": name, "metric": "rmse", "id_column": "id", "target_columns": ["price"]}
        comp = load_competition(str(tmp_path / "out" / name))
        assert comp.grade(tables("price")[2].to_csv(index=False).encode()).value == 0
        assert comp.grade(comp.sample_submission).valid
    assert command("import", folder, "--to", tmp_path / "out", "--metric", "rmsee") == 1
    assert "did you mean 'rmse'" in capsys.readouterr().out
