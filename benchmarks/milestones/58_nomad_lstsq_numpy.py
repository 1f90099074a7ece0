import numpy as np

train = np.genfromtxt("input/train.csv", delimiter=",", names=True)
test = np.genfromtxt("input/test.csv", delimiter=",", names=True)
names = [n for n in test.dtype.names if n != "id"]


def design(table):
    Z = np.column_stack([table[n] for n in names])
    Z = (Z - MU) / SD
    return np.hstack([np.ones((len(Z), 1)), Z, Z**2])


raw = np.column_stack([train[n] for n in names])
MU, SD = raw.mean(0), raw.std(0) + 1e-9

A = design(train)
Y = np.log1p(np.column_stack([train["formation_energy_ev_natom"], train["bandgap_energy_ev"]]))
W = np.linalg.solve(A.T @ A + 1e-2 * np.eye(A.shape[1]), A.T @ Y)
print("train rmsle:", np.sqrt(((A @ W - Y) ** 2).mean(0)))

P = np.maximum(np.expm1(design(test) @ W), 0)
with open("submission.csv", "w") as f:
    f.write("id,formation_energy_ev_natom,bandgap_energy_ev\n")
    for i, (e, g) in zip(test["id"].astype(int), P):
        f.write(f"{i},{e:.6f},{g:.6f}\n")
