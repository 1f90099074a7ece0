import pandas as pd
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as LDA
from sklearn.preprocessing import LabelEncoder, StandardScaler

leaves = pd.read_csv('input/train.csv')
unknown = pd.read_csv('input/test.csv')

enc = LabelEncoder()
y = enc.fit_transform(leaves.pop('species'))
ids = unknown['id']

ss = StandardScaler()
ss.fit(leaves.drop(columns='id'))
A = ss.transform(leaves.drop(columns='id'))
B = ss.transform(unknown.drop(columns='id'))

lda = LDA(solver='lsqr', shrinkage='auto'); lda.fit(A, y)
probabilities = lda.predict_proba(B)

# one column per species, the id in front
answer = pd.DataFrame(probabilities, columns=enc.classes_)
answer.insert(0, 'id', ids)
answer.to_csv('submission.csv', index = False)
answer.tail()
