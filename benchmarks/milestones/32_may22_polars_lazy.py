import polars as pl
from catboost import CatBoostClassifier, Pool

letters = [pl.col("f_27").str.slice(i, 1).alias(f"c{i}") for i in range(10)]

train_lazy = pl.scan_csv("input/train.csv").with_columns(letters).drop("f_27")
test_lazy = pl.scan_csv("input/test.csv").with_columns(letters).drop("f_27")

train = train_lazy.collect()
test = test_lazy.collect()

cat = [f"c{i}" for i in range(10)] + ["f_29", "f_30"]
features = [c for c in test.columns if c != "id"]
pool = Pool(train.select(features).to_pandas(), train["target"].to_numpy(), cat_features=cat)

model = CatBoostClassifier(
    iterations=3000,
    learning_rate=0.08,
    depth=8,
    eval_metric="AUC",
    random_seed=0,
    verbose=250,
)
model.fit(pool)

proba = model.predict_proba(test.select(features).to_pandas())[:, 1]
test.select("id").with_columns(pl.Series("target", proba)).write_csv("submission.csv")
