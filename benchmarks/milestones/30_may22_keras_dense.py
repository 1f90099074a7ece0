import pandas as pd
import numpy as np
from sklearn.preprocessing import StandardScaler
from sklearn.model_selection import StratifiedKFold
from tensorflow import keras
from tensorflow.keras import layers, regularizers

EPOCHS, BATCH = 30, 2048


def prepare(path):
    df = pd.read_csv(path)
    letters = np.stack([df["f_27"].str.get(i).map(ord) - 65 for i in range(10)], axis=1)
    num = df[[c for c in df.columns if c.startswith("f_") and c != "f_27"]].to_numpy()
    return np.hstack([num, letters]).astype("float32"), df.get("target"), df["id"]


def make_model(n):
    inp = keras.Input(shape=(n,))
    x = inp
    for units in (64, 64, 64, 16):
        x = layers.Dense(units, activation="swish", kernel_regularizer=regularizers.l2(30e-6))(x)
    out = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(inp, out)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["AUC"])
    return model


X, y, _ = prepare("input/train.csv")
X_test, _, test_id = prepare("input/test.csv")
y = y.to_numpy()

preds = []
for fold, (tr, va) in enumerate(StratifiedKFold(n_splits=5, shuffle=True, random_state=3).split(X, y)):
    scaler = StandardScaler().fit(X[tr])
    model = make_model(X.shape[1])
    lr = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.7, patience=4)
    es = keras.callbacks.EarlyStopping(monitor="val_loss", patience=12, restore_best_weights=True)
    model.fit(
        scaler.transform(X[tr]), y[tr],
        validation_data=(scaler.transform(X[va]), y[va]),
        epochs=EPOCHS, batch_size=BATCH, callbacks=[lr, es], verbose=0,
    )
    fold_pred = model.predict(scaler.transform(X_test), batch_size=BATCH).ravel()
    preds.append(fold_pred)
    keras.backend.clear_session()
    print(f"fold {fold} done")

pd.DataFrame({"id": test_id, "target": np.mean(preds, axis=0)}).to_csv("submission.csv", index=False)
