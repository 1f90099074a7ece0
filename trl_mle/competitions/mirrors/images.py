"""Mirrors of the competitions with images."""

import io

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFilter

from trl_mle.competitions.mirrors.mirror import (
    VOCABULARY,
    Drawn,
    Mirror,
    consecutive_ids,
    exact_shares,
    integer_ids,
    mislabel,
    posterior,
)


_DISEASES = ["healthy", "multiple_diseases", "rust", "scab"]
_PLANT_NOISE = 0.08
_WIDTH, _HEIGHT = 96, 64  # pixels; the originals have 2048 x 1365


def _draw_plants(rows: int, random: np.random.RandomState) -> Drawn:
    disease = exact_shares([0.27, 0.09, 0.33, 0.31], rows, random)
    shown = mislabel(disease, len(_DISEASES), _PLANT_NOISE, random)
    images = [_jpeg(_plant(rust=number in (1, 2), scab=number in (1, 3), random=random)) for number in shown]
    targets = pd.DataFrame(np.eye(len(_DISEASES), dtype=int)[disease], columns=_DISEASES)
    ceiling = pd.DataFrame(posterior(shown, disease, len(_DISEASES), _PLANT_NOISE), columns=_DISEASES)
    return Drawn(targets.copy(), targets, ceiling, images)


def _plant(rust: bool, scab: bool, random: np.random.RandomState) -> Image.Image:
    """A leaf before blurred greenery: rust makes small orange spots, scab larger dark ones; light and hue vary."""
    coarse = random.randint(30, 150, (4, 6, 3)) * [0.7, 1.0, 0.6]
    image = Image.fromarray(coarse.astype(np.uint8)).resize((_WIDTH, _HEIGHT), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    x, y = random.uniform(40, 56), random.uniform(26, 38)
    a, b, tilt = random.uniform(34, 44), random.uniform(17, 25), random.uniform(-0.4, 0.4)

    def on_leaf(angle: float | np.ndarray, radius: float) -> np.ndarray:
        across, up = a * radius * np.cos(angle), b * radius * np.sin(angle)
        return np.stack(
            [x + across * np.cos(tilt) - up * np.sin(tilt), y + across * np.sin(tilt) + up * np.cos(tilt)], -1
        )

    green = np.array([70, 130, 45]) + random.randint(-25, 26, 3)
    draw.polygon(list(map(tuple, on_leaf(np.linspace(0, 2 * np.pi, 40), 1.0).tolist())), fill=tuple(green.tolist()))
    pale = tuple((green + 30).tolist())
    draw.line([tuple(on_leaf(np.pi, 0.95).tolist()), tuple(on_leaf(0, 0.95).tolist())], fill=pale, width=2)
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
    pixels = np.asarray(image.filter(ImageFilter.GaussianBlur(0.6))) * light + random.normal(
        0, 5, (_HEIGHT, _WIDTH, 1)
    )
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _jpeg(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()


_SPECIES = VOCABULARY["species"].split()
_LEAF_NOISE = 0.04


def _draw_leaves(rows: int, random: np.random.RandomState) -> Drawn:
    species = exact_shares([1.0] * len(_SPECIES), rows, random)
    shown = mislabel(species, len(_SPECIES), _LEAF_NOISE, random)
    # A species' outline is a circle with waves; its margin and texture are histograms.
    waves = random.normal(size=(len(_SPECIES), 6)) * 0.32 / np.arange(1, 7)
    phases = random.uniform(0, 2 * np.pi, (len(_SPECIES), 6))
    angles = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    own = waves[shown] + random.normal(size=(rows, 6)) * 0.16 / np.arange(1, 7)
    ripples = np.sin(np.arange(1, 7) * angles[:, None] + phases[shown][:, None])  # [row, angle, wave]
    radius = np.exp((ripples * own[:, None]).sum(axis=2))
    shape = radius / radius.sum(axis=1, keepdims=True) / 12 * (1 + random.normal(0, 0.03, (rows, 64)))

    features = {"margin": _histograms(shown, 60, random), "shape": shape, "texture": _histograms(shown, 40, random)}
    table = pd.concat(
        [
            pd.DataFrame(values.round(6), columns=[f"{name}{i}" for i in range(1, 65)])
            for name, values in features.items()
        ],
        axis=1,
    )
    table.insert(0, "species", np.array(_SPECIES)[species])
    targets = pd.DataFrame(np.eye(len(_SPECIES), dtype=int)[species], columns=_SPECIES)
    ceiling = pd.DataFrame(posterior(shown, species, len(_SPECIES), _LEAF_NOISE), columns=_SPECIES)
    return Drawn(table, targets, ceiling, [_jpeg(_leaf(row, angles)) for row in radius])


def _histograms(species: np.ndarray, samples: int, random: np.random.RandomState) -> np.ndarray:
    """Histograms of samples over 64 bins, drawn from the species' own distribution, which resembles the others'."""
    common = random.gamma(0.8, size=64)
    distributions = common * random.gamma(2.5, size=(len(_SPECIES), 64))
    distributions /= distributions.sum(axis=1, keepdims=True)
    return np.stack([random.multinomial(samples, distributions[number]) for number in species]) / samples


def _leaf(radius: np.ndarray, angles: np.ndarray) -> Image.Image:
    """The white silhouette on black, 64 x 64 pixels."""
    outline = 32 + 30 * np.stack([np.cos(angles), np.sin(angles)], axis=1) * (radius / radius.max())[:, None]
    image = Image.new("L", (64, 64))
    ImageDraw.Draw(image).polygon(list(map(tuple, outline.tolist())), fill=255)
    return image


IMAGE_MIRRORS = {
    "plant-pathology-2020-fgvc7": Mirror(
        rows=400,
        draw=_draw_plants,
        sample=dict.fromkeys(_DISEASES, 0.25),
        ids=consecutive_ids("Train_", "Test_"),
        attachment="images/{id}.jpg",
    ),
    "leaf-classification": Mirror(
        rows=990,
        draw=_draw_leaves,
        sample=dict.fromkeys(_SPECIES, 1 / len(_SPECIES)),
        ids=integer_ids(1, 1_000_000),
        attachment="images/{id}.jpg",
        least_rows=198,
    ),
}
