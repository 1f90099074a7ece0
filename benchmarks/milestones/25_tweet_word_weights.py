# Give every word a weight for each sentiment (how much more often is it selected there than in the other one?)
# and pick the span with the largest sum.
import pandas as pd
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import train_test_split

df = pd.read_csv('input/train.csv').dropna()
test = pd.read_csv('input/test.csv').fillna('')
fit_part, check_part = train_test_split(df, test_size=0.1, random_state=5)

vec = CountVectorizer(binary=True, lowercase=True, token_pattern=r'\S+', min_df=2)
vec.fit(fit_part['text'])
vocab = vec.get_feature_names_out()

def frequency(sentiment):
    rows = fit_part.loc[fit_part['sentiment'] == sentiment, 'selected_text']
    return np.asarray(vec.transform(rows).mean(axis=0)).ravel()

good, bad = frequency('positive'), frequency('negative')
weights = {
    'positive': dict(zip(vocab, good - bad)),
    'negative': dict(zip(vocab, bad - good)),
}

def best_span(text, sentiment):
    words = text.split()
    if sentiment not in weights or not words:
        return text
    gains = np.array([weights[sentiment].get(w.lower(), 0.0) for w in words])
    sums = np.concatenate([[0.0], gains.cumsum()])
    top, span = 0.0, (0, len(words))
    for i in range(len(words)):
        for j in range(i + 1, len(words) + 1):
            if sums[j] - sums[i] > top:
                top, span = sums[j] - sums[i], (i, j)
    return ' '.join(words[span[0]:span[1]])

def overlap(a, b):
    a, b = set(a.lower().split()), set(b.lower().split())
    return len(a & b) / max(1, len(a | b))

guesses = [best_span(t, s) for t, s in zip(check_part['text'], check_part['sentiment'])]
print('held-out jaccard', np.mean([overlap(g, b) for g, b in zip(guesses, check_part['selected_text'])]))

submission = pd.read_csv('input/sample_submission.csv')
for row in range(len(test)):
    submission.loc[row, 'selected_text'] = best_span(test['text'][row], test['sentiment'][row])
submission.to_csv('submission.csv', index=False)
