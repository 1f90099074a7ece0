"""Boosting on all features and on some that combine them."""

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier


def features(table):
    table = table.drop(columns="Id")
    table["above_water"] = table["Elevation"] - table["Vertical_Distance_To_Hydrology"]
    table["uphill"] = table["above_water"] - 0.2 * table["Horizontal_Distance_To_Hydrology"]
    table["northness"] = np.cos(np.deg2rad(table["Aspect"]))
    table["remote"] = table["Horizontal_Distance_To_Roadways"] * table["Horizontal_Distance_To_Fire_Points"]
    return table


train, test = pd.read_csv("input/train.csv"), pd.read_csv("input/test.csv")
y = train.pop("Cover_Type")
model = HistGradientBoostingClassifier(
    max_iter=50, learning_rate=0.1, max_leaf_nodes=8, l2_regularization=3, max_features=0.4, random_state=0
)
test["Cover_Type"] = model.fit(features(train), y).predict(features(test))
test[["Id", "Cover_Type"]].to_csv("submission.csv", index=False)
