"""
Writes the recipes that differ only in the competition: `python recipes/make_recipes.py`.

To change a setting of all of them, edit `recipes/templates/`; for a single competition, edit this file. Then run it
again.
"""

from pathlib import Path
from string import Template

from trl_mle.competitions.catalog import MLEBENCH_COMPETITIONS
from trl_mle.competitions.mirrors import MIRRORS


RECIPES = Path(__file__).parent

# Competitions for which 600 seconds are too few: their data, and the memory that programs need, in MB
LARGE = {
    "lmsys-chatbot-arena": ("50,000 long conversations, 180 MB of text", 32768),
    "plant-pathology-2020-fgvc7": ("1,600 photos of 2048 x 1365 pixels to read", 16384),
    "tabular-playground-series-dec-2021": ("3.6 million rows of 54 features to train on", 32768),
    "tabular-playground-series-may-2022": ("800,000 rows to train on", 16384),
}


def recipes() -> dict[Path, str]:
    """The text of each file."""
    paper, starter = (
        Template((RECIPES / "templates" / f"{name}.template").read_text(encoding="utf-8"))
        for name in ("qwen2.5-3b-instruct", "starter")
    )
    texts = {}
    for competition in MLEBENCH_COMPETITIONS:
        settings = {"why_longer": "", "timeout_s": 600, "memory_mb": 16384}
        if competition in LARGE:
            what, memory_mb = LARGE[competition]
            why = f" The competition has\n# {what}, so programs take longer than elsewhere."
            settings = {"why_longer": why, "timeout_s": 1200, "memory_mb": memory_mb}
        path = RECIPES / "qwen2.5-3b-instruct" / f"{competition}.yaml"
        texts[path] = paper.substitute(settings, competition=competition)
        if competition in MIRRORS:
            texts[RECIPES / "starter" / f"mirror-{competition}.yaml"] = starter.substitute(competition=competition)
    return texts


if __name__ == "__main__":
    for path, text in recipes().items():
        path.write_text(text, encoding="utf-8")
