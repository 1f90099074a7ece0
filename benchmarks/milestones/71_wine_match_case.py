import argparse
import sys

import pandas as pd
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier


def make(kind):
    match kind:
        case "nb":
            return GaussianNB()
        case "tree":
            return DecisionTreeClassifier(max_depth=4)
        case _:
            return GradientBoostingClassifier()


def cli():
    ap = argparse.ArgumentParser()
    ap.add_argument("--model", default="nb", choices=["nb", "tree", "gb"])
    return ap.parse_args()


if __name__ == "__main__":
    opts = cli()
    train = pd.read_csv("input/train.csv")
    if "cultivar" not in train:
        print("no labels in train.csv", file=sys.stderr)
        sys.exit(1)
    test = pd.read_csv("input/test.csv")
    y = train.pop("cultivar")
    (model := make(opts.model)).fit(train.drop(columns="id"), y)
    test["cultivar"] = model.predict(test.drop(columns="id"))
    test[["id", "cultivar"]].to_csv("submission.csv", index=False)
