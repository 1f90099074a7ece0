import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.preprocessing import LabelEncoder
from xgboost import XGBClassifier

np.random.seed(42)

train = pd.read_csv("input/train.csv")
test = pd.read_csv("input/test.csv")
train = train.loc[train["Cover_Type"] != 5].reset_index(drop=True)


def add_features(df):
    df = df.copy()
    df["water"] = np.hypot(df["Horizontal_Distance_To_Hydrology"], df["Vertical_Distance_To_Hydrology"])
    df["north"] = np.cos(np.radians(df["Aspect"]))
    df["n_soils"] = df.filter(like="Soil_Type").sum(axis=1)
    return df


encoder = LabelEncoder()
y = encoder.fit_transform(train["Cover_Type"])
X = add_features(train.drop(columns=["Id", "Cover_Type"]))
X_test = add_features(test.drop(columns="Id"))

models = {
    "lgbm": (LGBMClassifier(n_estimators=500, num_leaves=127), 0.4),
    "xgb": (XGBClassifier(n_estimators=500, max_depth=8, tree_method="hist"), 0.4),
    "et": (ExtraTreesClassifier(n_estimators=200, n_jobs=-1), 0.2),
}

blend = np.zeros((len(test), len(encoder.classes_)))
for name, (model, weight) in models.items():
    print("fitting", name)
    model.fit(X, y)
    blend += weight * model.predict_proba(X_test)
    print(name, "done")

sub = pd.DataFrame({"Id": test["Id"], "Cover_Type": encoder.inverse_transform(blend.argmax(axis=1))})
sub.to_csv("submission.csv", index=False)
