from pandas import read_csv
from sklearn.ensemble import ExtraTreesClassifier

get = lambda name: read_csv("input/" + name + ".csv", index_col="id")

(
    get("test")
    .assign(
        cultivar=lambda test: ExtraTreesClassifier(n_estimators=400, random_state=0)
        .fit(get("train").drop(columns="cultivar"), get("train")["cultivar"])
        .predict(test)
    )[["cultivar"]]
    .to_csv("submission.csv")
)
