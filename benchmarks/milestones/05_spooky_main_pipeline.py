import argparse
import logging
from pathlib import Path

import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.svm import LinearSVC

logger = logging.getLogger(__name__)


def build_pipeline(c: float):
    features = FeatureUnion(
        [
            ("word", TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)),
            ("char", TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)),
        ]
    )
    return make_pipeline(features, CalibratedClassifierCV(LinearSVC(C=c), cv=3))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path("input"))
    parser.add_argument("--out", type=Path, default=Path("submission.csv"))
    parser.add_argument("-C", type=float, default=0.5)
    args = parser.parse_args()

    train = pd.read_csv(args.data / "train.csv")
    test = pd.read_csv(args.data / "test.csv")

    pipeline = build_pipeline(args.C)
    scores = cross_val_score(pipeline, train["text"], train["author"], cv=3, scoring="neg_log_loss")
    logger.info("cv log loss %.4f", -scores.mean())

    pipeline.fit(train["text"], train["author"])
    proba = pipeline.predict_proba(test["text"])
    (
        pd.DataFrame(proba, columns=pipeline.classes_, index=test["id"])
        .reset_index()
        .to_csv(args.out, index=False)
    )


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
