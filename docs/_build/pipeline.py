"""
The picture of one completion's way, drawn from the text below: docs/pipeline-light.svg and docs/pipeline-dark.svg.

    python docs/_build/pipeline.py
"""

from html import escape
from pathlib import Path


# Column, row, title, what it says below
BOXES = {
    "prompt": (0, 0, "Prompt", "the task, or a", "solution to improve"),
    "policy": (1, 0, "Policy", "a language model", "writes a completion"),
    "instrument": (2, 0, "Instrument", "prints that mark", "7 milestones"),
    "execute": (3, 0, "Execute", "in a sandbox,", "timed: Δt"),
    "grade": (3, 1, "Grade", "the submission,", "on hidden labels"),
    "reward": (2, 1, "Reward", "score, or −10 and", "0.1 per milestone"),
    "update": (1, 1, "Update", "GRPO: advantage", "× weight by Δt"),
    "pool": (0, 1, "Solution pool", "valid programs and", "what they printed"),
}
# From, to, on which side each begins and ends
ARROWS = [
    ("prompt", "right", "policy", "left"),
    ("policy", "right", "instrument", "left"),
    ("instrument", "right", "execute", "left"),
    ("execute", "bottom", "grade", "top"),
    ("grade", "left", "reward", "right"),
    ("reward", "left", "update", "right"),
    ("update", "top", "policy", "bottom"),
    ("pool", "top", "prompt", "bottom"),
]
WIDTH, HEIGHT, BOX, TALL, GAP, ROW, MARGIN = 760, 292, 160, 92, 36, 126, 6
BELOW = "valid solutions"
THEMES = {
    "light": {
        "ink": "#1f2328",
        "soft": "#59636e",
        "line": "#59636e",
        "box": "#f6f8fa",
        "edge": "#d1d9e0",
        "own": "#0550ae",
    },
    "dark": {
        "ink": "#f0f6fc",
        "soft": "#9da7b3",
        "line": "#9da7b3",
        "box": "#151b23",
        "edge": "#3d444d",
        "own": "#79c0ff",
    },
}


def corner(name: str) -> tuple[int, int]:
    column, row = BOXES[name][:2]
    return MARGIN + column * (BOX + GAP), MARGIN + row * ROW


def end(name: str, side: str) -> tuple[float, float]:
    x, y = corner(name)
    return {
        "left": (x - 2, y + TALL / 2),
        "right": (x + BOX + 2, y + TALL / 2),
        "top": (x + BOX / 2, y - 2),
        "bottom": (x + BOX / 2, y + TALL + 2),
    }[side]


def draw(theme: str) -> str:
    """The picture in one theme."""
    colour = THEMES[theme]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        "<title>One completion's way: prompt, policy, instrument, execute, grade, reward, update; valid solutions go to the pool, "
        "which makes new prompts</title>",
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 10 5 0 10z" fill="{colour["line"]}"/></marker></defs>',
    ]
    for name, (_, _, title, *said) in BOXES.items():
        x, y = corner(name)
        lines.append(
            f'<rect x="{x}" y="{y}" width="{BOX}" height="{TALL}" rx="8" fill="{colour["box"]}" stroke="{colour["edge"]}"/>'
        )
        middle = x + BOX // 2
        lines.append(
            f'<text x="{middle}" y="{y + 28}" text-anchor="middle" font-size="18" font-weight="600" '
            f'fill="{colour["own"]}">{escape(title)}</text>'
        )
        for number, text in enumerate(said):
            lines.append(
                f'<text x="{middle}" y="{y + 54 + 21 * number}" text-anchor="middle" font-size="16" '
                f'fill="{colour["ink"]}">{escape(text)}</text>'
            )
    arrow = f'fill="none" stroke="{colour["line"]}" stroke-width="1.8" marker-end="url(#tip)"'
    for start, side, to, other in ARROWS:
        (x1, y1), (x2, y2) = end(start, side), end(to, other)
        lines.append(f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" {arrow}/>')
    # Under the lower row, from the reward to the pool
    (x1, y1), (x2, y2), depth = end("reward", "bottom"), end("pool", "bottom"), HEIGHT - 24
    lines.append(f'<path d="M{x1:g} {y1:g} V{depth} H{x2:g} V{y2 + 2:g}" {arrow}/>')
    lines.append(
        f'<text x="{(x1 + x2) / 2:g}" y="{HEIGHT - 5}" text-anchor="middle" font-size="15" fill="{colour["soft"]}">{BELOW}</text>'
    )
    return "\n".join([*lines, "</svg>\n"])


def pictures() -> dict[Path, str]:
    """The files, and what each should hold."""
    folder = Path(__file__).parents[1]
    return {folder / f"pipeline-{theme}.svg": draw(theme) for theme in THEMES}


if __name__ == "__main__":
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")
