import numpy as np
import pandas as pd

targets = ['formation_energy_ev_natom', 'bandgap_energy_ev']

# the best constant for RMSLE is the mean of the logarithms
train = pd.read_csv('input/train.csv')
sub = pd.read_csv('input/sample_submission.csv')
for t in targets:
    sub[t] = np.expm1(np.log1p(train[t]).mean())
sub.to_csv('submission.csv', index=False)
print(sub.describe())
