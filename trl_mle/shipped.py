"""Finds recipes and accelerate's configurations: beside the package in a checkout, inside it in a wheel."""

import shutil
from pathlib import Path

from trl_mle.spelling import did_you_mean


PACKAGE = Path(__file__).parent
# Environment variable of the processes that `trl-mle train` starts: the options of a recipe that were accelerate's
LAUNCHED = "TRL_MLE_LAUNCHED"


def shipped(folder: str) -> Path:
    return next(path for path in (PACKAGE / folder, PACKAGE.parent / folder) if path.is_dir())


def recipe_names() -> list[str]:
    """Names of all recipes, as [`find_recipe`] takes them."""
    folder = shipped("recipes")
    return sorted(
        str(path.relative_to(folder).with_suffix(""))
        for path in folder.rglob("*.yaml")
        if path.parent.name != "templates"
    )


def find_recipe(name: str) -> Path:
    """Finds a recipe: a user's file, or else a bundled recipe. Raises `FileNotFoundError` if there is neither."""
    if Path(name).is_file():
        return Path(name)
    if name.removesuffix(".yaml") in recipe_names():
        return shipped("recipes") / f"{name.removesuffix('.yaml')}.yaml"
    hint = did_you_mean(name, recipe_names()) or "`trl-mle recipes` lists them"
    raise FileNotFoundError(f"{name} is neither a file nor a recipe; {hint}")


def copy_recipe(name: str, target: Path) -> Path:
    """Copies a recipe for editing. Raises `FileExistsError` if the file exists."""
    source = find_recipe(name)
    path = target / source.name if target.is_dir() else target
    if path.exists():
        raise FileExistsError(f"{path} exists: name another file with --to")
    shutil.copyfile(source, path)
    return path


def find_accelerate_config(name: str) -> Path:
    """Finds a configuration of accelerate: a user's file, or else a bundled one. Raises `FileNotFoundError`."""
    folder = shipped("accelerate_configs")
    for path in (Path(name), folder / f"{name}.yaml"):
        if path.is_file():
            return path
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    hint = did_you_mean(name, names) or f"the names are {', '.join(names)}"
    raise FileNotFoundError(f"accelerate_config: {name} is neither a file nor a name; {hint}")
