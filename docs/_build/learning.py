"""
The picture of learning, from committed results: docs/learning-light.svg and docs/learning-dark.svg.

    python docs/_build/learning.py
"""

import json
import math
from html import escape
from pathlib import Path


ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks/results/benchmark-pretrained-training/learning.jsonl"
# Name, runs (competition and arm), colour by theme
CURVES = [
    ("digits", [("digits", "none")], {"light": "#0550ae", "dark": "#79c0ff"}),
    ("mirror of spooky-author-identification, two seeds", [("mirror:spooky-author-identification", "none")], {"light": "#bc4c00", "dark": "#ffa657"}),
]  # fmt: skip
# Title, key, from, to, marks
PANELS = [
    ("Mean reward of a step", "reward", -10.0, 0.0, (-10, -8, -6, -4, -2, 0)),
    ("Best of 8, held-out log loss (lower is better)", "best of 8", math.log(0.1), math.log(2), (0.1, 0.2, 0.5, 1, 2)),
]
THEMES = {"light": ("#1f2328", "#59636e", "#d1d9e0"), "dark": ("#f0f6fc", "#9da7b3", "#3d444d")}  # ink, soft, lines
WIDTH, HEIGHT, TOP, TALL, LEFTS, WIDE = 760, 292, 34, 190, (40, 430), 310


def draw(theme: str) -> str:
    """The picture in one theme."""
    ink, soft, edge = THEMES[theme]
    runs = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    steps = len(runs[0]["reward"])
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="14">',
        "<title>Reward, and the best of 8 programs on held-out rows, by training step</title>",
    ]

    def text(x: float, y: float, words: str, anchor: str = "middle", fill: str = soft, **more: str) -> None:
        other = "".join(f' {name}="{value}"' for name, value in more.items())
        lines.append(f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}"{other}>{escape(words)}</text>')

    for left, (title, key, low, high, marks) in zip(LEFTS, PANELS, strict=True):
        is_log = key != "reward"

        def height(value: float, low: float = low, high: float = high, is_log: bool = is_log) -> float:
            share = ((math.log(value) if is_log else value) - low) / (high - low)
            return TOP + TALL * (1 - share)

        text(left, 20, title, "start", ink, **{"font-weight": "600"})
        for mark in marks:
            y = height(mark)
            lines.append(f'<path d="M{left} {y:.1f}h{WIDE}" stroke="{edge}"/>')
            text(left - 6, y + 5, f"{mark:g}".replace("-", "−"), "end")
        for step in (1, *range(6, steps + 1, 6)):
            text(left + WIDE * (step - 1) / (steps - 1), TOP + TALL + 20, str(step))
        for _, names, colours in CURVES:
            for run in runs:
                if (run["competition"], run["arm"]) not in names:
                    continue
                points = [
                    (left + WIDE * i / (steps - 1), height(value)) for i, value in enumerate(run[key]) if value is not None
                ]
                path = " ".join(f"{x:.1f} {y:.1f}" for x, y in points)
                lines.append(f'<path d="M{path}" fill="none" stroke="{colours[theme]}" stroke-width="2"/>')
                lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colours[theme]}"/>' for x, y in points]
    x = LEFTS[0]
    for name, _, colours in CURVES:
        lines.append(f'<path d="M{x} {HEIGHT - 16}h24" stroke="{colours[theme]}" stroke-width="3"/>')
        text(x + 32, HEIGHT - 11, name, "start", ink)
        x += 60 + 7 * len(name)
    text(LEFTS[1] + WIDE, HEIGHT - 11, "training step", "end")
    return "\n".join([*lines, "</svg>\n"])


def pictures() -> dict[Path, str]:
    """The files, and what each should hold."""
    return {ROOT / f"docs/learning-{theme}.svg": draw(theme) for theme in THEMES}


if __name__ == "__main__":
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")
