from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.multioutput import RegressorChain

ROOT = Path("input")
TARGETS = ["formation_energy_ev_natom", "bandgap_energy_ev"]


def read_xyz(path):
    atoms, lattice = [], []
    for line in path.read_text().splitlines():
        parts = line.split()
        if not parts:
            continue
        if parts[0] == "atom":
            atoms.append((parts[4], *map(float, parts[1:4])))
        elif parts[0] == "lattice_vector":
            lattice.append([float(v) for v in parts[1:4]])
    return atoms, np.array(lattice)


def geometry_features(split, idx):
    atoms, lattice = read_xyz(ROOT / split / str(idx) / "geometry.xyz")
    pos = np.array([a[1:] for a in atoms])
    d = np.linalg.norm(pos[:, None] - pos[None], axis=-1)[np.triu_indices(len(pos), 1)]
    return {"volume": abs(np.linalg.det(lattice)), "d_min": d.min(), "d_mean": d.mean(), "d_std": d.std()}


def load(split):
    table = pd.read_csv(ROOT / f"{split}.csv")
    extra = pd.DataFrame([geometry_features(split, i) for i in table["id"]])
    return pd.concat([table, extra], axis=1)


train, test = load("train"), load("test")
X, Y = train.drop(columns=["id", *TARGETS]), np.log1p(train[TARGETS])

model = RegressorChain(GradientBoostingRegressor(n_estimators=400, max_depth=4, learning_rate=0.03))
model.fit(X, Y)
out = np.expm1(model.predict(test.drop(columns="id"))).clip(min=0)

pd.DataFrame(out, columns=TARGETS).assign(id=test["id"])[["id", *TARGETS]].to_csv("submission.csv", index=False)
