"""Names that the interpreter knows: kinds of values, library functions, and its own limits."""

import ast
import re

from trl_mle.instrumentation.milestones import TEST_DATA, TRAIN_DATA


# Kinds of values, and the data they derive from
TRAIN, TEST = TRAIN_DATA, TEST_DATA
MODEL, TRAINER, OPTIMIZER, READER, WRITER = "model", "trainer", "optimizer", "reader", "writer"
LAZY = "lazy"  # a lazy table, read when collected
PARSER, NAMESPACE = "parser", "namespace"  # of the command line
DATA = frozenset({TRAIN, TEST})

UNKNOWN = "\0"  # an unknown part of a path
MAX_TEXTS = 8  # possible paths of one value
MAX_TEXT_LENGTH = 1000  # characters of each: a program can double a string in a loop
MAX_ELEMENTS = 8  # maximum number of loop elements to follow one by one
MAX_DEPTH = 2  # of lists in lists whose elements are followed
MAX_CALLS = 8  # maximum depth of followed calls
# Expressions and statements, after which calls and loops are no longer followed one by one
MAX_WORK = 20_000

READS = re.compile(
    r"(pandas|polars|cudf|dask\.dataframe)\.read_\w+|numpy\.(load|loadtxt|genfromtxt|fromfile)|PIL\.Image\.open"
    r"|cv2\.imread|imageio(\.v\d)?\.imread|skimage\.io\.imread|matplotlib\.(pyplot|image)\.imread"
    r"|(torch|joblib)\.load|torchvision\.(io\.\w+|datasets\.\w+)|datasets\.(load_dataset|load_from_disk|Dataset\.from_\w+)"
)
SCANS = re.compile(r"(polars|dask\.dataframe)\.scan_\w+")
IMAGES = re.compile(r"(PIL\.Image|cv2|imageio|skimage|matplotlib|torchvision\.io)\..*")
OPENS = re.compile(r"open|io\.open|codecs\.open|(gzip|bz2|lzma)\.open")
# Functions that take open files, models or paths, and pass them on
HANDS_ON = re.compile(
    r"csv\.(reader|writer|DictReader|DictWriter)|iter|next|list|tuple|set|sorted|reversed|tqdm(\.\w+)*\.tqdm"
    r"|copy\.(deep)?copy|sklearn\.base\.clone|torch\.(compile|nn\.DataParallel)|accelerate\.\w+"
)
PATHS = re.compile(r"str|os\.fspath|os\.path\.(abspath|expanduser|realpath|normpath)|glob\.i?glob")
SPLITS = re.compile(r"sklearn\.model_selection\.(\w+\.)?train_test_split|torch\.utils\.data\.random_split")

MODELS = re.compile(
    r"sklearn\.(linear_model|ensemble|tree|svm|neighbors|naive_bayes|neural_network|discriminant_analysis"
    r"|gaussian_process|kernel_ridge|multiclass|multioutput|calibration|dummy|isotonic|semi_supervised"
    r"|cross_decomposition|mixture)\.(_\w+\.)?[A-Z]\w+"
    r"|sklearn\.(experimental\.)?compose\.TransformedTargetRegressor|sklearn\.model_selection\.(_\w+\.)?\w+(SearchCV|Classifier|ClassifierCV)"
    r"|lightgbm\.(sklearn\.)?LGBM\w+|xgboost\.(sklearn\.)?XGB\w+|catboost\.CatBoost\w*"
    r"|torch\.nn\.Sequential|torchvision\.models\.\w+|timm\.create_model"
    r"|(tensorflow\.)?keras\.(models\.)?(Sequential|Model)|(tensorflow\.)?keras\.applications\.\w+\.?\w*"
    r"|transformers\.(Auto|TFAuto|Bert|Roberta|Deberta|DistilBert)\w*(Model|For)\w*\.from_(pretrained|config)"
    r"|sentence_transformers\.SentenceTransformer"
)
NOT_MODELS = re.compile(
    r".*\.(RandomTreesEmbedding|NearestNeighbors|KNeighborsTransformer|RadiusNeighborsTransformer|KernelDensity"
    r"|LocalOutlierFactor|NeighborhoodComponentsAnalysis|KDTree|BallTree|PLSSVD|BernoulliRBM|DistanceMetric)"
)
PIPELINES = re.compile(r"(sklearn|imblearn)\.pipeline\.(Pipeline|make_pipeline)")
TRAINERS = re.compile(r"(transformers|lightning|pytorch_lightning|lightning\.pytorch)\.\w*Trainer")
TRAINING_FUNCTIONS = re.compile(r"(lightgbm|xgboost|catboost)\.(\w+\.)?train")
SOLVERS = re.compile(
    r"(numpy|scipy)\.linalg\.(solve|lstsq)|numpy\.polyfit|scipy\.optimize\.(minimize|curve_fit|least_squares|nnls)"
)
ADAPTERS = re.compile(r"peft\.get_peft_model")  # complete a network
OPTIMIZERS = re.compile(r"torch\.optim\.(\w+\.)?[A-Z]\w+|transformers\.AdamW")
NETWORKS = re.compile(
    r"torch\.nn\.Module|(tensorflow\.)?keras\.(models\.)?Model|(lightning|pytorch_lightning|lightning\.pytorch)"
    r"\.LightningModule|transformers\.\w*PreTrainedModel"
)
# A star import of their modules may define them
STARRED = (READS, MODELS, SPLITS, PIPELINES, TRAINING_FUNCTIONS, OPTIMIZERS, SOLVERS)
WRITES = re.compile(r"numpy\.savetxt|shutil\.(copy|copy2|copyfile|move)|os\.(rename|replace)")

EXITS = {"exit", "quit", "sys.exit", "os._exit", "os.abort"}

FITS = {"fit", "fit_predict"}
BATCH_FITS = {"partial_fit", "train_on_batch"}
PREDICTS = {"predict", "predict_proba", "predict_log_proba", "decision_function", "predict_on_batch"}
TABLE_WRITES = {"to_csv", "write_csv", "write_text", "write_bytes"}
KEEPS_MODEL = {*FITS, *BATCH_FITS, "to", "cuda", "cpu", "eval", "train", "half", "float", "set_params"}
ADDS = {"append", "extend", "add", "insert", "update", "setdefault"}
ROW_WRITES = {"write", "writelines", "writerow", "writerows"}
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
