import pandas as pd
from xgboost import XGBClassifier

TRAIN_PATH = "input/train.csv"
TEST_PATH = "input/test.csv"
RUN_TRAINING = False


def main():
    df = pd.read_csv(TRAIN_PATH)
    test = pd.read_csv(TEST_PATH)
    cols = [c for c in test.columns if c not in ("id", "f_27")]
    model = XGBClassifier(n_estimators=800, max_depth=7)
    model.fit(df[cols], df["target"])
    test["target"] = model.predict_proba(test[cols])[:, 1]
    test[["id", "target"]].to_csv("submission.csv", index=False)


if RUN_TRAINING:
    main()
