from lightgbm import LGBMClassifier
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import cohen_kappa_score, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
import pandas as pd

DATA = "input"

# ---------------------------------------------------------------- data
train_essays = pd.read_csv(f"{DATA}/train.csv", encoding="utf-8")
test_essays = pd.read_csv(f"{DATA}/test.csv", encoding="utf-8")
target = train_essays.pop("score")

# ---------------------------------------------------------------- model
pipe = Pipeline(
    steps=[
        ("tfidf", TfidfVectorizer(min_df=5, max_df=0.9, ngram_range=(1, 2))),
        ("svd", TruncatedSVD(n_components=100, random_state=0)),
        ("clf", LGBMClassifier(class_weight="balanced", verbose=-1)),
    ]
)
search = GridSearchCV(
    pipe,
    param_grid={"clf__num_leaves": [15, 31], "clf__learning_rate": [0.05, 0.1]},
    scoring=make_scorer(cohen_kappa_score, weights="quadratic"),
    cv=3,
    n_jobs=2,
    refit=True,
)
search.fit(train_essays["full_text"], target)
print(f"best params: {search.best_params_}, QWK {search.best_score_:.3f}")

# ---------------------------------------------------------------- submission
result = pd.DataFrame({"essay_id": test_essays["essay_id"]})
result["score"] = search.best_estimator_.predict(test_essays["full_text"])
result.to_csv("submission.csv", index=False)
