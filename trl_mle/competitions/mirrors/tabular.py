"""Mirrors of the competitions with tables of numbers."""

import numpy as np
import pandas as pd
from numpy.random import RandomState

from trl_mle.competitions.mirrors.mirror import VOCABULARY, Drawn, Mirror, counted_ids, cut, draw_yes_or_no, random_ids


def _draw_may_2022(rows: int, random: RandomState) -> Drawn:
    numbers: dict[str, np.ndarray] = {f"f_{i:02}": random.normal(size=rows).round(6) for i in range(7)}
    numbers |= {f"f_{i:02}": random.poisson(2.2, rows) for i in range(7, 19)}
    numbers |= {f"f_{i}": random.normal(scale=2.4, size=rows).round(6) for i in range(19, 27)}
    # A letter is the rarer, the later it stands in the alphabet.
    frequency = 0.8 ** np.arange(20)
    letters = random.choice(list("ABCDEFGHIJKLMNOPQRST"), (rows, 10), p=frequency / frequency.sum())
    numbers["f_27"] = np.array(["".join(row) for row in letters])
    numbers["f_28"] = random.normal(scale=240, size=rows).round(6)
    numbers["f_29"] = random.choice(2, rows, p=[0.65, 0.35])
    numbers["f_30"] = random.choice(3, rows)
    table = pd.DataFrame(numbers)

    distinct = np.array([len(set(row)) for row in letters])
    logits = (
        0.6 * table["f_24"] / 2.4
        + 0.35 * (table["f_08"] - table["f_10"]) / 1.5
        + 1.3 * np.sign(table["f_21"] * table["f_02"]) * (np.abs(table["f_02"]) > 0.4)
        + 1.1 * table["f_05"] * np.tanh(table["f_22"])
        + np.where(table["f_30"] == 1, 1.2, -0.6) * np.tanh(table["f_26"] + 1.5 * table["f_00"])
        + 0.8 * (distinct - 7)
        + 0.9 * (letters[:, 0] <= "B")
    ).to_numpy()
    labels, chances = draw_yes_or_no(logits, 0.51, 0.7, random)
    target = pd.DataFrame({"target": labels})
    return Drawn(table.join(target), target, pd.DataFrame({"target": chances}))


def _adapt_may_2022(files: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    gold = files["private/test.csv"]
    whole = files["public/test.csv"].assign(target=gold["target"].to_numpy())
    return files | {"private/test.csv": whole, "private/gold_submission.csv": gold}


def _draw_dec_2021(rows: int, random: RandomState) -> Drawn:
    elevation = random.normal(2950, 250, rows).clip(1880, 3850)
    aspect = random.randint(0, 360, rows)
    slope = random.gamma(4, 3.4, rows).clip(0, 52)
    to_water = random.gamma(1.3, 210, rows).clip(0, 1400)
    above_water = random.normal(45, 55, rows)
    to_road = random.gamma(2, 900, rows).clip(0, 7000)
    to_fire = random.gamma(2.2, 760, rows).clip(0, 7000)
    sun = np.deg2rad(aspect[:, None] - np.array([90, 180, 270]))  # 9am, noon, 3pm
    shade = 215 + 28 * np.cos(sun) * slope[:, None] / 14 - np.array([0, -8, 70]) + random.normal(0, 8, (rows, 3))
    # Wilderness areas and soils lie at their own heights, more or less.
    height = elevation + random.normal(0, 180, rows)
    by_height = 3 - cut(height, [0.1, 0.35, 0.1, 0.45])
    wilderness = np.where(random.random_sample(rows) < 0.25, random.randint(0, 4, rows), by_height)
    soil = (cut(height + random.normal(0, 150, rows), [1.0] * 40) * 27 + random.choice([0, 27], rows)) % 40
    numbers = [elevation, aspect, slope, to_water, above_water, to_road, *shade.clip(0, 254).T, to_fire]
    columns = dict(zip(VOCABULARY["forest"], numbers, strict=True))
    columns |= {f"Wilderness_Area{i + 1}": wilderness == i for i in range(4)}
    columns |= {f"Soil_Type{i + 1}": soil == i for i in range(40)}
    table = pd.DataFrame(columns).round().astype(int)

    # Near water a type grows higher up; a soil is wet, dry or rocky, and each type likes one of them.
    height = elevation - 0.9 * above_water - 0.22 * to_water + 60 * np.cos(np.deg2rad(aspect))
    fits = -(((height[:, None] + 60 - np.array(VOCABULARY["elevation"])) / 110) ** 2) / 2
    likes = soil[:, None] * 7 % 3 == np.arange(7) % 3
    comfort = 0.9 * fits + 1.2 * np.array(VOCABULARY["wilderness"])[wilderness] + 1.8 * likes
    comfort += np.where(to_road[:, None] * to_fire[:, None] > 2.5e6, 1.2, -1.2) * np.where(np.arange(7) % 2, 1, -1)
    comfort += np.log([0.3, 0.5, 0.12, 0.03, 0.012, 0.06, 0.08])
    label = pd.DataFrame({"Cover_Type": 1 + (comfort + 0.5 * random.gumbel(size=(rows, 7))).argmax(axis=1)})
    return Drawn(table.join(label), label, pd.DataFrame({"Cover_Type": 1 + comfort.argmax(axis=1)}))


_ANGLES = ("alpha", "beta", "gamma")


def _draw_nomad(rows: int, random: RandomState) -> Drawn:
    facts = VOCABULARY["crystals"]
    group = random.randint(0, len(facts["spacegroup"]), rows)
    atoms = np.array([random.choice(facts["atoms"][number]) for number in group])
    cations = atoms * 2 // 5
    share = random.dirichlet([0.9, 0.9, 0.9], rows)
    al = np.rint(share[:, 0] * cations).astype(int)
    ga = np.minimum(np.rint(share[:, 1] * cations).astype(int), cations - al)
    percent = np.stack([al, ga, cations - al - ga], axis=1) / cations[:, None]

    radius = percent @ np.array(VOCABULARY["radius"])
    strain = random.normal(0, 0.012, (rows, 3))
    vectors = np.array(facts["vectors"])[group] * (0.75 + 0.4 * radius[:, None] + strain)
    angles = np.array(facts["angles"])[group] + random.normal(0, 0.02, (rows, 3))
    stretch = strain[:, 2] - strain[:, :2].mean(axis=1)
    mixing = (percent * (1 - percent)).sum(axis=1)

    offset = np.array(facts["formation"])[group]
    formation = offset * (0.35 + 0.9 * mixing) + 0.12 * percent[:, 2] * (group % 2)
    formation = formation + 60 * stretch**2 + 1.2 * np.abs(strain.sum(1))
    gap = 4.6 * percent[:, 0] + 2.9 * percent[:, 1] + 1.3 * percent[:, 2] - 1.1 * mixing
    gap += np.array(facts["bandgap"])[group] * (1 + percent[:, 0]) - 9 * stretch
    truth = pd.DataFrame({"formation_energy_ev_natom": formation.clip(0.002), "bandgap_energy_ev": gap.clip(0.05)})
    noisy = pd.DataFrame(np.expm1(np.log1p(truth) + random.normal(size=(rows, 2)) * [0.01, 0.03]))
    noisy = noisy.clip(lower=0.0001).round(4)
    table = pd.DataFrame(
        {
            "spacegroup": np.array(facts["spacegroup"])[group],
            "number_of_total_atoms": atoms.astype(float),
            **{f"percent_atom_{name}": percent[:, i].round(4) for i, name in enumerate(("al", "ga", "in"))},
            **{f"lattice_vector_{i + 1}_ang": vectors[:, i].round(4) for i in range(3)},
            **{f"lattice_angle_{name}_degree": angles[:, i].round(4) for i, name in enumerate(_ANGLES)},
        }
    )
    geometries = [
        _geometry(vectors[i], angles[i], [al[i], ga[i], cations[i] - al[i] - ga[i], atoms[i] - cations[i]], random)
        for i in range(rows)
    ]
    return Drawn(table.join(noisy), noisy, truth, geometries)


def _geometry(vectors: np.ndarray, angles: np.ndarray, counts: list[int], random: RandomState) -> bytes:
    """A cell in the xyz form of the competition: three lattice vectors, then an atom a line, in angstrom."""
    alpha, beta, gamma = np.deg2rad(angles)
    x, y = np.cos(beta), (np.cos(alpha) - np.cos(beta) * np.cos(gamma)) / np.sin(gamma)
    directions = [[1, 0, 0], [np.cos(gamma), np.sin(gamma), 0], [x, y, np.sqrt(1 - x * x - y * y)]]
    lattice = np.array(directions) * vectors[:, None]
    positions = random.random_sample((sum(counts), 3)) @ lattice
    names = ["Al"] * counts[0] + ["Ga"] * counts[1] + ["In"] * counts[2] + ["O"] * counts[3]
    lines = ["#=======================================================", "#Created by trl_mle: synthetic"]
    lines += [f"lattice_vector {x:.7f} {y:.7f} {z:.7f}" for x, y, z in lattice.tolist()]
    atoms = zip(positions.tolist(), names, strict=True)
    lines += [f"atom {x:.7f} {y:.7f} {z:.7f} {name}" for (x, y, z), name in atoms]
    return ("\n".join(lines) + "\n").encode()


TABULAR_MIRRORS = {
    "tabular-playground-series-may-2022": Mirror(_draw_may_2022, random_ids(0, 900_000), _adapt_may_2022),
    "tabular-playground-series-dec-2021": Mirror(_draw_dec_2021, random_ids(0, 4_000_000)),
    "nomad2018-predict-transparent-conductors": Mirror(_draw_nomad, counted_ids(start=1)),
}
