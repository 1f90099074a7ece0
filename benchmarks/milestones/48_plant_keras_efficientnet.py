import pandas as pd
import tensorflow as tf
from tensorflow.keras import Model, layers
from tensorflow.keras.applications import EfficientNetB0

IMG, BATCH = 224, 16
AUTO = tf.data.AUTOTUNE


def decode(path, label=None):
    img = tf.image.decode_jpeg(tf.io.read_file(path), channels=3)
    img = tf.image.resize(img, (IMG, IMG))
    return img if label is None else (img, label)


def augment(img, label):
    return tf.image.random_flip_up_down(tf.image.random_flip_left_right(img)), label


train, test = (pd.read_csv(f"input/{name}.csv") for name in ("train", "test"))
label_cols = train.columns[1:]
train_paths = ("input/images/" + train.image_id + ".jpg").values
test_paths = ("input/images/" + test.image_id + ".jpg").values

ds_train = (
    tf.data.Dataset.from_tensor_slices((train_paths, train[label_cols].values.astype("float32")))
    .shuffle(2048)
    .map(decode, AUTO)
    .map(augment, AUTO)
    .batch(BATCH)
    .prefetch(AUTO)
)
ds_test = tf.data.Dataset.from_tensor_slices(test_paths).map(decode, AUTO).batch(BATCH)

strategy = tf.distribute.get_strategy()
with strategy.scope():
    base = EfficientNetB0(include_top=False, weights="imagenet", pooling="avg", input_shape=(IMG, IMG, 3))
    x = layers.Dropout(0.3)(base.output)
    model = Model(base.input, layers.Dense(4, activation="softmax")(x))
    model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["categorical_accuracy"])

model.fit(ds_train, epochs=8, verbose=2)
probs = model.predict(ds_test)

sub = pd.read_csv("input/sample_submission.csv")
sub.loc[:, label_cols] = probs
sub.to_csv("submission.csv", index=False)
