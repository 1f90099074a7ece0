"""First look at the data: which soil types matter?"""
import pandas as pd
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import seaborn as sns

train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")

print(train.describe().T)
print(train["Cover_Type"].value_counts(normalize=True))

soil = [c for c in train.columns if c.startswith("Soil_Type")]
shift = (train[soil].mean() - test[soil].mean()).abs().sort_values(ascending=False)
print("largest train/test shift:\n", shift.head())

fig, ax = plt.subplots(figsize=(12, 8))
sns.heatmap(train.drop(columns="Id").corr(), ax=ax, cmap="coolwarm", center=0)
fig.savefig("corr.png")

sns.kdeplot(data=train.sample(20000), x="Elevation", hue="Cover_Type")
plt.savefig("elevation.png")
# next: fit a model on Elevation + soil, then model.predict(test) and submission.csv
