# margin, shape and texture are three sequences of 64 numbers: a small 1D convolution over them
import numpy as np
import pandas as pd
from keras import Sequential
from keras.layers import Conv1D, Dense, Dropout, GlobalAveragePooling1D, Input, MaxPooling1D
from keras.optimizers import SGD
from keras.utils import to_categorical

def sequences(df):
    parts = [df[[f'{kind}{i}' for i in range(1, 65)]].to_numpy() for kind in ('margin', 'shape', 'texture')]
    return np.stack(parts, axis=-1)

train = pd.read_csv('input/train.csv')
test = pd.read_csv('input/test.csv')
codes, species = pd.factorize(train['species'], sort=True)

X, X_test = sequences(train), sequences(test)
center, spread = X.mean(axis=0), X.std(axis=0) + 1e-9
X, X_test = (X - center) / spread, (X_test - center) / spread

model = Sequential([
    Input((64, 3)),
    Conv1D(64, 5, padding='same', activation='relu'),
    MaxPooling1D(2),
    Conv1D(128, 5, padding='same', activation='relu'),
    GlobalAveragePooling1D(),
    Dropout(0.4),
    Dense(256, activation='relu'),
    Dense(len(species), activation='softmax'),
])
sgd = SGD(learning_rate=0.01, nesterov=True, momentum=0.9)
model.compile(loss='categorical_crossentropy', optimizer=sgd, metrics=['accuracy'])

model.fit(X, to_categorical(codes), epochs=60, batch_size=16, validation_split=0.1, verbose=2)
print('train loss, accuracy:', model.evaluate(X, to_categorical(codes), verbose=0))

y_prob = model.predict(X_test)
table = pd.DataFrame(y_prob, index=test['id'], columns=species)
with open('submission.csv', 'w') as fp:
    fp.write(table.to_csv())
