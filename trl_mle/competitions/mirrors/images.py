"""Mirrors of the competitions with images."""

import io

import numpy as np
import pandas as pd
from numpy.random import RandomState
from PIL import Image, ImageDraw, ImageFilter

from trl_mle.competitions.mirrors.mirror import VOCABULARY, Drawn, Mirror, counted_ids, draw_classes, random_ids


_DISEASES = ["healthy", "multiple_diseases", "rust", "scab"]
_WIDTH, _HEIGHT = 96, 64  # pixels; the originals have 2048 x 1365


def _draw_plants(rows: int, random: RandomState) -> Drawn:
    diseases = draw_classes(_DISEASES, [0.27, 0.09, 0.33, 0.31], 0.08, rows, random)
    images = [_jpeg(_plant(number in (1, 2), number in (1, 3), random)) for number in diseases.shown]
    return Drawn(diseases.targets.copy(), diseases.targets, diseases.ceiling, images)


def _plant(rust: bool, scab: bool, random: RandomState) -> Image.Image:
    """A leaf before blurred greenery: rust makes small orange spots, scab larger dark ones; light and hue vary."""
    coarse = random.randint(30, 150, (4, 6, 3)) * [0.7, 1.0, 0.6]
    image = Image.fromarray(coarse.astype(np.uint8)).resize((_WIDTH, _HEIGHT), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    x, y = random.uniform(40, 56), random.uniform(26, 38)
    a, b, tilt = random.uniform(34, 44), random.uniform(17, 25), random.uniform(-0.4, 0.4)

    def on_leaf(angle: float | np.ndarray, radius: float) -> np.ndarray:
        across, up = a * radius * np.cos(angle), b * radius * np.sin(angle)
        sine, cosine = np.sin(tilt), np.cos(tilt)
        return np.stack([x + across * cosine - up * sine, y + across * sine + up * cosine], -1)

    green = np.array([70, 130, 45]) + random.randint(-25, 26, 3)
    draw.polygon(on_leaf(np.linspace(0, 2 * np.pi, 40), 1.0).flatten().tolist(), fill=tuple(green.tolist()))
    ends = [*on_leaf(np.pi, 0.95).tolist(), *on_leaf(0, 0.95).tolist()]
    draw.line(ends, fill=tuple((green + 30).tolist()), width=2)
    spots = [((200, 195, 150), 0.8, random.poisson(2))]  # glints, which mean nothing
    spots += [((190, 110, 30), 1.5, random.poisson(5) + 2)] if rust else []
    spots += [((58, 66, 32), 2.8, random.poisson(3) + 2)] if scab else []
    spots += [((105, 85, 40), 2.0, random.poisson(2))]  # dirt, which means nothing either
    for color, size, count in spots:
        for _ in range(count):
            center = on_leaf(random.uniform(0, 2 * np.pi), random.uniform(0, 0.85))
            radius = size * random.uniform(0.7, 1.3)
            shade = tuple((np.array(color) + random.randint(-18, 19, 3)).tolist())
            draw.ellipse([*(center - radius), *(center + radius)], fill=shade)
    light = random.uniform(0.7, 1.25) * random.uniform(0.9, 1.1, 3)
    blurred = np.asarray(image.filter(ImageFilter.GaussianBlur(0.6))) * light
    pixels = blurred + random.normal(0, 5, (_HEIGHT, _WIDTH, 1))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _jpeg(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


_SPECIES = VOCABULARY["species"].split()


def _draw_leaves(rows: int, random: RandomState) -> Drawn:
    species = draw_classes(_SPECIES, [1.0] * len(_SPECIES), 0.04, rows, random)
    shown = species.shown
    # A species' outline is a circle with waves; its margin and texture are histograms.
    waves = random.normal(size=(len(_SPECIES), 6)) * 0.32 / np.arange(1, 7)
    phases = random.uniform(0, 2 * np.pi, (len(_SPECIES), 6))
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    own = waves[shown] + random.normal(size=(rows, 6)) * 0.16 / np.arange(1, 7)
    ripples = np.sin(np.arange(1, 7) * angles[:, None] + phases[shown][:, None])  # [row, angle, wave]
    radius = np.exp((ripples * own[:, None]).sum(axis=2))
    shape = radius / radius.sum(axis=1, keepdims=True) / 12 * (1 + random.normal(0, 0.03, (rows, 64)))

    values = np.hstack([_histograms(shown, 60, random), shape, _histograms(shown, 40, random)])
    names = [f"{name}{i}" for name in ("margin", "shape", "texture") for i in range(1, 65)]
    table = pd.DataFrame(values.round(6), columns=names)
    table.insert(0, "species", np.array(_SPECIES)[species.labels])
    return Drawn(table, species.targets, species.ceiling, [_jpeg(_leaf(row, angles)) for row in radius])


def _histograms(species: np.ndarray, samples: int, random: RandomState) -> np.ndarray:
    """Histograms of samples over 64 bins, drawn from the species' own distribution, which resembles the others'."""
    common = random.gamma(0.8, size=64)
    distributions = common * random.gamma(2.5, size=(len(_SPECIES), 64))
    distributions /= distributions.sum(axis=1, keepdims=True)
    return np.stack([random.multinomial(samples, distributions[number]) for number in species]) / samples


def _leaf(radius: np.ndarray, angles: np.ndarray) -> Image.Image:
    """The white silhouette on black, 64 x 64 pixels."""
    outline = 32 + 30 * np.stack([np.cos(angles), np.sin(angles)], axis=1) * (radius / radius.max())[:, None]
    image = Image.new("L", (64, 64))
    ImageDraw.Draw(image).polygon(outline.flatten().tolist(), fill=255)
    return image


IMAGE_MIRRORS = {
    "plant-pathology-2020-fgvc7": Mirror(_draw_plants, counted_ids("Train_", "Test_")),
    "leaf-classification": Mirror(_draw_leaves, random_ids(1, 1_000_000)),
}
