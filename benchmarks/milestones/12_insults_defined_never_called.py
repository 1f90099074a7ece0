import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression


def load_data():
    train = pd.read_csv("input/train.csv")
    test = pd.read_csv("input/test.csv")
    return train, test


def train_model(train):
    vec = TfidfVectorizer()
    X = vec.fit_transform(train["Comment"])
    model = LogisticRegression()
    model.fit(X, train["Insult"])
    return vec, model


def make_submission(vec, model, test):
    test["Insult"] = model.predict_proba(vec.transform(test["Comment"]))[:, 1]
    test.to_csv("submission.csv", index=False)


def main():
    train, test = load_data()
    vec, model = train_model(train)
    make_submission(vec, model, test)
