import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import paired_cosine_distances

test = pd.read_csv("input/test.csv")
corpus = pd.concat([test["anchor"], test["target"]])

vec = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)).fit(corpus)
similarity = 1 - paired_cosine_distances(vec.transform(test["anchor"]), vec.transform(test["target"]))

submission = test[["id"]].assign(score=similarity)
submission.to_csv("submission.csv", index=False)
