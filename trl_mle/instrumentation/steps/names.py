"""Names of libraries' functions and methods by which steps are recognized."""

import re


_SKLEARN_MODELS = (
    r"sklearn\.(linear_model|ensemble|tree|svm|neighbors|naive_bayes|neural_network|discriminant_analysis"
    r"|gaussian_process|kernel_ridge|multiclass|multioutput|calibration|dummy|isotonic|semi_supervised"
    r"|cross_decomposition|mixture)\.(_\w+\.)?(?!RandomTreesEmb|NearestN|KNeighborsTrans|RadiusNeighborsTrans|KernelD"
    r"|LocalOut|NeighborhoodC|KDTree|BallTree|PLSSVD|BernoulliRBM|Distance)[A-Z]\w+"
    r"|sklearn\.(experimental\.)?compose\.TransformedTargetRegressor"
    r"|sklearn\.model_selection\.(_\w+\.)?\w+(SearchCV|Classifier|ClassifierCV)"
)
_OTHER_MODELS = (
    r"lightgbm\.(sklearn\.)?LGBM\w+|xgboost\.(sklearn\.)?XGB\w+|catboost\.CatBoost\w*"
    r"|torch\.nn\.Sequential|torchvision\.models\.\w+|timm\.create_model"
    r"|(tensorflow\.)?keras\.((models\.)?(Sequential|Model)|applications\.\w+\.?\w*)"
    r"|transformers\.(Auto|TFAuto|Bert|Roberta|Deberta|DistilBert)\w*(Model|For)\w*\.from_(pretrained|config)"
    r"|sentence_transformers\.SentenceTransformer"
)
_PATTERNS = {
    "image": r"PIL\.Image\.open|cv2\.imread|(imageio(\.v\d)?|skimage\.io|matplotlib\.(pyplot|image))\.imread"
    r"|torchvision\.io\.\w+",
    "read": r"(pandas|polars|cudf|dask\.dataframe)\.read_\w+|numpy\.(load|loadtxt|genfromtxt|fromfile)"
    r"|(torch|joblib)\.load|torchvision\.datasets\.\w+|datasets\.(load_from_disk|Dataset\.from_(csv|json|parquet))",
    "files": r"datasets\.load_dataset",
    "later": r"dataclasses\.field",
    "open": r"((io|codecs|gzip|bz2|lzma)\.)?open",
    "path": r"os\.path\.join|pathlib\.(Pure)?Path",
    "adapter": r"peft\.get_peft_model",
    "solver": r"(numpy|scipy)\.linalg\.(solve|lstsq)|numpy\.polyfit"
    r"|scipy\.optimize\.(minimize|curve_fit|least_squares|nnls)",
    "pipeline": r"(sklearn|imblearn)\.pipeline\.(Pipeline|make_pipeline)",
    "model": f"{_SKLEARN_MODELS}|{_OTHER_MODELS}",
    "train": r"(lightgbm|xgboost|catboost)\.(\w+\.)?train",
    "trainer": r"(transformers|lightning|pytorch_lightning|lightning\.pytorch)\.\w*Trainer",
    "optimizer": r"torch\.optim\.(\w+\.)?[A-Z]\w+|transformers\.AdamW",
    "savetxt": r"numpy\.savetxt",
    "move": r"shutil\.(copy|copy2|copyfile|move)|os\.(rename|replace)",
}
MAX_LENGTH = 200  # characters of a dotted name that may be known
FUNCTIONS = {kind: re.compile(pattern) for kind, pattern in _PATTERNS.items()}


def kind_of(name: str) -> str:
    """What a function does, a key of `FUNCTIONS`; empty if nothing is known, as of long names, which take long."""
    patterns = FUNCTIONS.items() if len(name) <= MAX_LENGTH else ()
    return next((kind for kind, pattern in patterns if pattern.fullmatch(name)), "")


NETWORKS = re.compile(
    r"torch\.nn\.Module|(tensorflow\.)?keras\.(models\.)?Model|transformers\.\w*PreTrainedModel"
    r"|(lightning|pytorch_lightning|lightning\.pytorch)\.LightningModule"
)
EXITS = {"exit", "quit", "sys.exit", "os._exit", "os.abort"}

# Methods
FITS = {"fit", "fit_predict"}
BATCH_FITS = {"partial_fit", "train_on_batch"}
PREDICTS = {"predict", "predict_proba", "predict_log_proba", "decision_function", "predict_on_batch"}
TABLE_WRITES = {"to_csv", "write_csv"}
ADDS = {"append", "extend", "add", "insert", "update", "setdefault"}
ROW_WRITES = {"write", "writelines", "writerow", "writerows"}
