import optuna
import pandas as pd
import numpy as np
from sklearn.metrics import mean_squared_log_error
from sklearn.model_selection import train_test_split
from xgboost import XGBRegressor

optuna.logging.set_verbosity(optuna.logging.WARNING)

df = pd.read_csv("input/train.csv").drop("id", axis=1)
Y = df[["formation_energy_ev_natom", "bandgap_energy_ev"]]
X = df.drop(Y.columns, axis=1)
x1, x2, y1, y2 = train_test_split(X, Y, random_state=0)


def objective(trial):
    params = {
        "n_estimators": trial.suggest_int("n_estimators", 100, 600),
        "max_depth": trial.suggest_int("max_depth", 2, 8),
        "learning_rate": trial.suggest_float("learning_rate", 0.01, 0.3, log=True),
        "subsample": trial.suggest_float("subsample", 0.5, 1.0),
    }
    m = XGBRegressor(**params, objective="reg:squaredlogerror")
    m.fit(x1, y1)
    return mean_squared_log_error(y2, m.predict(x2).clip(0)) ** 0.5


study = optuna.create_study(direction="minimize")
study.optimize(objective, n_trials=30)
print("best", study.best_value, study.best_params)

best = XGBRegressor(**study.best_params, objective="reg:squaredlogerror")
best.fit(X, Y)

sub = pd.read_csv("input/sample_submission.csv")
test = pd.read_csv("input/test.csv")
sub[list(Y.columns)] = best.predict(test.drop("id", axis=1)).clip(0)
sub.to_csv("submission.csv", index=False)
