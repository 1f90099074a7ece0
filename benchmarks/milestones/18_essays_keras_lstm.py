import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.models import Sequential
from tensorflow.keras.preprocessing.sequence import pad_sequences
from tensorflow.keras.preprocessing.text import Tokenizer

MAX_WORDS, MAX_LEN = 20000, 400

df_train = pd.read_csv("input/train.csv")
df_test = pd.read_csv("input/test.csv")

tok = Tokenizer(num_words=MAX_WORDS, oov_token="<oov>")
tok.fit_on_texts(df_train["full_text"])
x_train = pad_sequences(tok.texts_to_sequences(df_train["full_text"]), maxlen=MAX_LEN)
x_test = pad_sequences(tok.texts_to_sequences(df_test["full_text"]), maxlen=MAX_LEN)
y_train = tf.keras.utils.to_categorical(df_train["score"] - 1, 6)

model = Sequential()
model.add(layers.Embedding(MAX_WORDS, 64))
model.add(layers.Bidirectional(layers.LSTM(32, return_sequences=True)))
model.add(layers.GlobalMaxPooling1D())
model.add(layers.Dense(32, activation="relu"))
model.add(layers.Dropout(0.3))
model.add(layers.Dense(6, activation="softmax"))
model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])
model.summary()

history = model.fit(
    x_train,
    y_train,
    validation_split=0.1,
    epochs=4,
    batch_size=64,
    callbacks=[tf.keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)],
)

y_pred = np.argmax(model.predict(x_test), axis=1) + 1
pd.DataFrame({"essay_id": df_test["essay_id"], "score": y_pred}).to_csv("submission.csv", index=False)
