"""
Finding the steps of a machine-learning program by following its data.

The program is interpreted over abstract values: what a value is (a model, an open file, ...), which data it derives
from, which paths it may be. Calls of the program's own functions are followed with their arguments; loops over known
elements are followed element by element. So `load("train.csv")` and `load("test.csv")` are different steps of one
statement, `return pd.read_csv(path)`, and belong to the statements that call `load`.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from trl_mle.instrumentation.milestones import (
    IMPORTS,
    MODEL_BUILT,
    MODEL_TRAINED,
    PREDICTIONS,
    SUBMISSION,
    TEST_DATA,
    TRAIN_DATA,
)
from trl_mle.instrumentation.verify import bound_names


# What a value is, or which data it derives from.
TRAIN, TEST = TRAIN_DATA, TEST_DATA
MODEL, TRAINER, OPTIMIZER, READER, WRITER = "model", "trainer", "optimizer", "reader", "writer"
LAZY = "lazy"  # a table that is read when it is collected
PARSER, NAMESPACE = "parser", "namespace"  # of the command line
DATA = frozenset({TRAIN, TEST})

UNKNOWN = "\0"  # an unknown part of a path
MAX_TEXTS = 8  # paths that one value may be
MAX_TEXT_LENGTH = 1000  # of one of them: a program can double a string in a loop
MAX_ELEMENTS = 8  # elements for which a loop is followed one by one
MAX_CALLS = 8  # calls within calls that are followed
MAX_WORK = 20_000  # expressions interpreted before calls and loops are no longer followed one by one

READS = re.compile(
    r"(pandas|polars|cudf|dask\.dataframe)\.read_\w+|numpy\.(load|loadtxt|genfromtxt|fromfile)|PIL\.Image\.open"
    r"|cv2\.imread|imageio(\.v\d)?\.imread|skimage\.io\.imread|matplotlib\.(pyplot|image)\.imread"
    r"|(torch|joblib)\.load|torchvision\.(io\.\w+|datasets\.\w+)|datasets\.(load_dataset|load_from_disk|Dataset\.from_\w+)"
)
SCANS = re.compile(r"(polars|dask\.dataframe)\.scan_\w+")
IMAGES = re.compile(r"(PIL\.Image|cv2|imageio|skimage|matplotlib|torchvision\.io)\..*")
OPENS = re.compile(r"open|io\.open|codecs\.open|(gzip|bz2|lzma)\.open")
# Functions that take an open file, or models, or paths, and hand them on.
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


@dataclass(frozen=True, eq=False)
class _Value:
    tags: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()  # the strings or paths it may be
    items: "dict[object, _Value] | None" = None  # the elements of a list, tuple or dict, where all are known
    name: str = ""  # dotted name of something imported or built in
    code: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | None = None  # defined in the program
    scope: "_Scope | None" = None  # where `code` looks names up
    instance: ast.ClassDef | None = None  # the class of the program it is an instance of
    built: "_Evaluation | None" = None  # where it was complete, for a model that more can be added to

    @property
    def data(self) -> frozenset[str]:
        return self.tags & DATA

    @property
    def known(self) -> bool:
        return bool(self.tags or self.texts or self.name or self.code or self.instance) or self.items is not None


NOTHING = _Value()


@dataclass(eq=False)
class _Scope:
    parent: "_Scope | None" = None
    variables: dict[str, _Value] = field(default_factory=dict)
    global_names: set[str] = field(default_factory=set)

    def get(self, name: str) -> _Value:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return _Value(name=name)

    def set(self, name: str, value: _Value) -> None:
        scope = self
        if name in self.global_names:
            while scope.parent is not None:
                scope = scope.parent
        scope.variables[name] = value


@dataclass(eq=False)
class _Evaluation:
    """One evaluation of a statement: in one call, with one element of a loop."""

    statement: ast.stmt
    parent: "_Evaluation | None"  # the evaluation of the statement that made the call, or of the loop
    conditional: bool  # the call, or the round of the loop, may go past the statement
    returns: "list[_Evaluation]"  # the evaluations of `return` in the same call
    outer: "_Evaluation | None" = None  # of the statement whose block it is in, or that made the call
    milestones: set[str] = field(default_factory=set)
    data: set[str] = field(default_factory=set)  # from which its values derive

    def can_be_lifted(self, milestone: str) -> bool:
        """Whether the parent can be completed only with the step done."""
        if not self.conditional:
            return True
        return self in self.returns and all(milestone in other.milestones for other in self.returns)


def find_steps(tree: ast.Module) -> list[tuple[int, str]]:
    """
    Find the statements after which milestones are reached.

    Args:
        tree (`ast.Module`):
            The program.

    Returns:
        `list[tuple[int, str]]`: Line at which the statement starts, and milestone.
    """
    flow = _Flow(_constants(tree))
    flow.run(tree.body, _Scope())
    by_statement: dict[ast.stmt, list[_Evaluation]] = {}
    for evaluation in flow.evaluations:
        by_statement.setdefault(evaluation.statement, []).append(evaluation)
    _lift(by_statement)
    if not flow.counts[PREDICTIONS]:
        _predict_by_rule(flow, by_statement)
    steps = {
        (statement.lineno, milestone)
        for statement, evaluations in by_statement.items()
        for milestone in evaluations[0].milestones
    }
    for block in flow.blocks:
        imports = [statement for statement in block if _imports(statement)]
        if imports:
            steps.add((imports[-1].lineno, IMPORTS))
            break
    return sorted(steps)


def _constants(tree: ast.Module) -> dict[str, bool]:
    """The names that are bound once, to a constant: whether it is true."""
    bound = Counter(name for node in ast.walk(tree) for name in bound_names(node))
    constants = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=ast.Constant(value)) if bound[name] == 1:
                constants[name] = bool(value)
    return constants


def _predict_by_rule(flow: "_Flow", by_statement: dict[ast.stmt, list[_Evaluation]]) -> None:
    """
    Predictions of no known model: by rules, constants, models of the program's own. They are made where what goes into the
    submission was last changed, if that is computed from the test data or put into a column.
    """

    def within(statement: ast.stmt) -> list[_Evaluation]:
        inner = [node for node in ast.walk(statement) if isinstance(node, ast.stmt) and node is not statement]
        return [evaluation for node in inner for evaluation in by_statement.get(node, [])]

    def loads(evaluations: list[_Evaluation]) -> bool:
        return any({TRAIN_DATA, TEST_DATA} & evaluation.milestones for evaluation in evaluations)

    def predicts(statement: ast.stmt) -> bool:
        own, inner = by_statement[statement], within(statement)
        if loads(inner) or (loads(own) and not isinstance(statement, ast.For)):  # a loop may read row by row
            return False
        return _fills_column(statement) or any(TEST in evaluation.data for evaluation in [*own, *inner])

    submissions = {e.statement: e for e in flow.evaluations if SUBMISSION in e.milestones}
    changed: dict[ast.stmt, set[str]] = {}
    for submission in submissions.values():
        place: _Evaluation | None = submission
        while place is not None and place.statement in flow.block:
            names = {node.id for node in ast.walk(place.statement) if isinstance(node, ast.Name)}
            block = flow.block[place.statement]
            before = block[: block.index(place.statement)]
            changed |= {statement: _changed(statement) for statement in before if statement not in changed}
            last = next((statement for statement in reversed(before) if changed[statement] & names), None)
            if last is not None and predicts(last):
                for evaluation in by_statement[last]:
                    evaluation.milestones.add(PREDICTIONS)
            elif any(TEST_DATA in evaluation.milestones for evaluation in within(place.statement)):
                place.milestones.add(PREDICTIONS)  # row by row, from one file into the other
            elif last is None:
                place = place.outer
                continue
            break


def _changed(statement: ast.stmt) -> set[str]:
    """Names of the variables that a statement binds, or that it changes in place, but for a selection of rows or columns."""
    names: set[str] = set()
    is_selection = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Subscript)
    for node in ast.walk(statement) if not isinstance(statement, DEFINITIONS) else ():
        match node:
            case ast.Name(name, ctx=ast.Store()) if not is_selection:
                names.add(name)
            case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
                names.add(_base(node))
            case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in ADDS | ROW_WRITES:
                names.add(_base(value))
    return names


def _base(node: ast.expr) -> str:
    """The variable of `variable.loc[row, column]`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _fills_column(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in ast.walk(statement))


def _lift(by_statement: dict[ast.stmt, list[_Evaluation]]) -> None:
    """
    Move a step to the statement that made the call, or to the loop, where the statement itself is not the place for a
    print: nothing follows a `return`, and a print after what is a step in one call and none in another would be false.
    """
    changed = True
    while changed:
        changed = False
        for statement, evaluations in by_statement.items():
            for milestone in set.union(*(evaluation.milestones for evaluation in evaluations)):
                holders = [evaluation for evaluation in evaluations if milestone in evaluation.milestones]
                if len(holders) == len(evaluations) and not isinstance(statement, ast.Return | ast.Raise):
                    continue
                liftable = [holder for holder in holders if holder.can_be_lifted(milestone)]
                for holder in liftable:
                    if holder.parent is not None:
                        holder.parent.milestones.add(milestone)
                for holder in holders:
                    holder.milestones.discard(milestone)
                changed = True


def _imports(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Try):
        return any(_imports(inner) for inner in statement.body)
    if isinstance(statement, ast.ImportFrom):
        return statement.module != "__future__"
    return isinstance(statement, ast.Import)


def _join(values: Iterable[_Value]) -> _Value:
    """A value that may be any of these."""
    values = [value for value in values if value.known]
    if len(values) < 2:
        return values[0] if values else NOTHING
    items = [value.items for value in values if value.items is not None]
    same_keys = len(items) == len(values) and all(item.keys() == items[0].keys() for item in items)
    definite = next((value for value in values if value.name or value.code or value.instance), NOTHING)
    return replace(
        definite,
        tags=frozenset().union(*(value.tags for value in values)),
        texts=_few(text for value in values for text in value.texts),
        items={key: _join(item[key] for item in items) for key in items[0]} if same_keys else None,
    )


def _few(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(sorted(set(texts))[:MAX_TEXTS])


def _derived(values: Iterable[_Value]) -> _Value:
    """A value computed from these by unknown means."""
    return _Value(tags=frozenset().union(*(value.data for value in values)))


def _collection(items: dict[object, _Value]) -> _Value:
    joined = _join(items.values())
    return _Value(tags=joined.tags, texts=joined.texts, items=items)


def _element(value: _Value) -> _Value:
    if value.items is not None:
        return _join(value.items.values())
    return _Value(tags=value.tags, texts=value.texts)


def _concatenated(parts: list[_Value], separator: str) -> _Value:
    """Strings or paths, one after the other."""
    texts = [""]
    if any(part.texts for part in parts):
        for index, part in enumerate(parts):
            between = separator if index else ""
            texts = [left + between + right for left in texts for right in sorted(part.texts or {UNKNOWN})][:MAX_TEXTS]
            texts = [text[-MAX_TEXT_LENGTH:] for text in texts]  # what a path is called stands at its end
    return _Value(tags=_derived(parts).tags, texts=_few(texts) - {""})


def _kinds_of_paths(texts: Iterable[str]) -> set[str]:
    return {kind for text in texts if (kind := _kind_of_path(text)) is not None}


def _kind_of_path(text: str) -> str | None:
    """Whether a file holds training or test data, by the innermost of file and folders whose name says so."""
    parts = [part for part in re.split(r"[/\\]", text.lower()) if part]
    if parts and "submission" in parts[-1]:
        return None
    for part in parts[:-4:-1]:
        found = set(re.findall(r"(?<![a-z])[xy]?(train|test)", part))
        if found:
            return {"train": TRAIN, "test": TEST}[found.pop()] if len(found) == 1 else None
    return None


def _is_submission(value: _Value) -> bool:
    return bool(value.texts) and all(re.split(r"[/\\]", text)[-1] == "submission.csv" for text in value.texts)


class _Flow:
    """Interprets a program and records the evaluations of its statements, with the milestones they reach."""

    def __init__(self, constants: dict[str, bool]) -> None:
        self.constants = constants
        self.evaluations: list[_Evaluation] = []
        self.block: dict[ast.stmt, list[ast.stmt]] = {}
        self.modules: list[str] = []  # from which everything is imported
        self.defaults: dict[object, _Value] = {}  # of the command line's arguments
        self.loaded: dict[str, list[_Evaluation]] = {TRAIN: [], TEST: []}  # where the data were
        self.columns_read: dict[str, _Evaluation] = {}  # where some columns of the data were read last
        self.blocks: list[list[ast.stmt]] = []  # in the order of execution
        self.classes: dict[ast.ClassDef, _Scope] = {}
        self.bases: dict[ast.ClassDef, list[_Value]] = {}
        self.calls: list[ast.AST] = []
        self.counts: Counter[str] = Counter()
        self.work = 0
        # The place in the running program:
        self.evaluation = _Evaluation(ast.Pass(), None, False, [])
        self.parent: _Evaluation | None = None
        self.loops: list[_Evaluation] = []  # the loops around, outermost first, those of callers among them
        self.columns: list[_Evaluation] = []  # those of them that go through the columns of the predictions
        self.returns: list[_Evaluation] = []
        self.returned: list[_Value] = []
        self.conditional = False
        self.hint = ""  # the name of the variable that the running statement assigns to
        self.call_hint = ""

    # Milestones

    def reach(self, milestone: str, *, batch: bool = False) -> None:
        """The running statement reaches a milestone; with `batch`, the outermost loop around it does."""
        evaluation = self.loops[0] if batch and self.loops else self.evaluation
        if milestone == PREDICTIONS and self.columns:
            evaluation = self.columns[0]
        evaluation.milestones.add(milestone)
        self.counts[milestone] += 1
        if milestone in DATA:
            self.loaded[milestone].append(evaluation)

    def complete(self, model: _Value) -> _Value:
        """Something is added to a model that is not trained: only now it is built."""
        if model.built is None or self.counts[MODEL_TRAINED]:
            return model
        model.built.milestones.discard(MODEL_BUILT)
        return replace(model, built=self.build().built)

    def read_image(self, path: _Value) -> _Value:
        """An image is read: the data are there with the last of them, not with the table of labels. One that may belong to
        either leaves open when they are."""
        kinds = _kinds_of_paths(path.texts) or path.data or DATA
        for kind in kinds:
            if kind in path.data or len(kinds) > 1:
                while self.loaded[kind]:
                    self.loaded[kind].pop().milestones.discard(kind)
        if len(kinds) == 1:
            [kind] = kinds
            self.reach(kind)
        return _Value(tags=frozenset(kinds))

    def read_columns(self, path: _Value) -> _Value:
        """Some columns are read: the data are there with the last of several such calls."""
        table = self.read(path)
        for kind in table.data:
            if self.columns_read.get(kind, self.evaluation) is not self.evaluation:
                self.columns_read[kind].milestones.discard(kind)
            self.columns_read[kind] = self.evaluation
        return table

    def read(self, path: _Value) -> _Value:
        """A file is read. Where its path is not known, the name of the variable tells."""
        kinds = _kinds_of_paths(path.texts)
        if not kinds and (not path.texts or any(UNKNOWN in text for text in path.texts)):
            kinds = _kinds_of_paths([self.hint])
        if len(kinds) == 1:
            [kind] = kinds
            self.reach(kind)
        return _Value(tags=frozenset(kinds))

    def write(self, path: _Value) -> _Value:
        if _is_submission(path):
            self.reach(SUBMISSION)
        return NOTHING

    def predict(self, arguments: list[_Value], *, batch: bool = False) -> _Value:
        """A model predicts. Predictions for training or validation data are no milestone."""
        data = _derived(arguments)
        if TEST in data.tags or not data.tags:
            self.reach(PREDICTIONS, batch=batch)
        return data

    # Statements

    def run(self, block: list[ast.stmt], scope: _Scope) -> None:
        reached: list[ast.stmt] = []
        self.blocks.append(reached)
        outer = self.evaluation
        for statement in block:
            reached.append(statement)
            self.block[statement] = block
            self.evaluation = _Evaluation(statement, self.parent, self.conditional, self.returns, outer)
            self.evaluations.append(self.evaluation)
            self.hint = self.call_hint if isinstance(statement, ast.Return) else ""
            self.statement(statement, scope)
            if self.ends(statement, scope):
                break
        self.evaluation = outer

    def ends(self, statement: ast.stmt, scope: _Scope) -> bool:
        """Whether what follows in the block is not reached."""
        match statement:
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                return True
            case ast.Expr(value=ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name()) as function)):
                return self.value(function, scope).name in EXITS
        return False

    def certain(self, test: ast.expr) -> bool | None:
        """Whether a condition holds, if that is certain."""
        match test:
            case ast.Constant(value):
                return bool(value)
            case ast.Name(name) if name in self.constants:
                return self.constants[name]
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.certain(operand)
                return None if inner is None else not inner
        return None

    def branches(self, blocks: list[list[ast.stmt]], scope: _Scope) -> None:
        """Blocks of which one runs."""
        before, conditional = dict(scope.variables), self.conditional
        after = []
        self.conditional = True
        for block in blocks:
            scope.variables = dict(before)
            self.run(block, scope)
            after.append(scope.variables)
        self.conditional = conditional
        names = {name: None for variables in after for name in variables}
        scope.variables = {name: _join(variables[name] for variables in after if name in variables) for name in names}

    def statement(self, statement: ast.stmt, scope: _Scope) -> None:
        match statement:
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.split(".")[0]
                    scope.set(alias.asname or top, _Value(name=alias.name if alias.asname else top))
            case ast.ImportFrom(module=module, names=[ast.alias(name="*")]):
                self.modules.append(str(module))
            case ast.ImportFrom(module=module, names=names):
                for alias in names:
                    scope.set(alias.asname or alias.name, _Value(name=f"{module}.{alias.name}"))
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                scope.set(name, _Value(code=statement, scope=scope))
            case ast.ClassDef(name=name, body=body):
                self.bases[statement] = [self.value(base, scope) for base in statement.bases]
                self.classes[statement] = _Scope(scope)
                self.run(body, self.classes[statement])
                scope.set(name, _Value(code=statement, scope=scope))
            case ast.Global(names=names):
                scope.global_names.update(names)
            case ast.Assign(targets=[ast.Tuple() as left], value=ast.Tuple() as right) if len(left.elts) == len(
                right.elts
            ):
                pairs = list(zip(left.elts, right.elts, strict=True))
                assigned = [self.assigned_value(target, value, scope) for target, value in pairs]
                for target, one in zip(left.elts, assigned, strict=True):
                    self.assign(target, one, scope)
            case ast.Assign(targets=targets, value=value):
                one = self.assigned_value(targets[0], value, scope)
                for target in targets:
                    self.assign(target, one, scope)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.assign(target, self.assigned_value(target, value, scope), scope)
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                parts = [self.value(target, scope), self.value(value, scope)]
                added = replace(_join(parts), texts=_concatenated(parts, "").texts, items=None)
                self.assign(target, added, scope)
            case ast.AugAssign(target=target, op=ast.Sub(), value=ast.BinOp(op=ast.Mult()) as value) if self.loops:
                step, old = self.value(value, scope), self.value(target, scope)
                if (
                    TRAIN in step.tags and TRAIN not in old.tags
                ):  # down a gradient; the data themselves are only scaled
                    self.reach(MODEL_TRAINED, batch=True)
            case ast.Return(value=result):
                self.returns.append(self.evaluation)
                self.returned.append(self.value(result, scope) if result else NOTHING)
            case (
                ast.For(target=target, iter=iterable, body=body, orelse=orelse)
                | ast.AsyncFor(target=target, iter=iterable, body=body, orelse=orelse)
            ):
                columns = len(self.columns)
                if _stores_by(target, body):
                    self.columns.append(self.evaluation)
                self.loop(target, self.elements(self.value(iterable, scope)), body, scope)
                del self.columns[columns:]
                self.run(orelse, scope)
            case ast.While(test=test, body=body, orelse=orelse):
                self.value(test, scope)
                self.loops.append(self.evaluation)
                self.run(body, scope)
                self.loops.pop()
                self.run(orelse, scope)
            case ast.If(test=test, body=body, orelse=orelse) if (certain := self.certain(test)) is not None:
                self.run(body if certain else orelse, scope)
            case ast.If(test=test, body=body, orelse=orelse):
                self.value(test, scope)
                self.branches([body, orelse], scope)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                self.with_block(items, body, scope)
            case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
                conditional = self.conditional
                self.conditional |= any(not isinstance(handler.body[-1], ast.Raise) for handler in handlers)
                self.run(body, scope)
                self.run(orelse, scope)
                self.conditional = conditional
                self.branches([[], *(handler.body for handler in handlers)], scope)
                self.run(finalbody, scope)
            case ast.Match(subject=subject, cases=cases):
                self.value(subject, scope)
                self.branches([[], *(case.body for case in cases)], scope)
            case _:
                for child in ast.iter_child_nodes(statement):
                    if isinstance(child, ast.expr):
                        self.value(child, scope)

    def assigned_value(self, target: ast.expr, value: ast.expr, scope: _Scope) -> _Value:
        match target:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
                self.hint = name
            case _:
                self.hint = ""
        return self.value(value, scope)

    def assign(self, target: ast.expr, value: _Value, scope: _Scope) -> None:
        match target:
            case ast.Name(id=name):
                scope.set(name, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                elements = value.items or {}
                for index, one in enumerate(targets):
                    self.assign(one, elements.get(index, _Value(tags=value.tags)), scope)
            case ast.Starred(value=inner):
                self.assign(inner, _Value(tags=value.tags), scope)
            case ast.Attribute(value=base, attr=attribute):
                owner = self.value(base, scope)
                if owner.instance is not None:
                    self.classes[owner.instance].set(attribute, value)
                elif owner.built is not None:  # `model.fc = ...`
                    self.assign(base, self.complete(owner), scope)
            case ast.Subscript(value=ast.Name(id=name), slice=key):
                old = scope.get(name)
                keys = [key.value] if isinstance(key, ast.Constant) else list(self.value(key, scope).texts)
                known = old.items is not None and len(keys) == 1
                items = {**(old.items or {}), keys[0]: value} if known else None
                scope.set(name, replace(old, tags=old.tags | value.tags, items=items))

    def loop(self, target: ast.expr, elements: list[_Value], body: list[ast.stmt], scope: _Scope) -> None:
        parent, conditional = self.parent, self.conditional
        self.loops.append(self.evaluation)
        if len(elements) > 1:
            self.parent, self.conditional = self.evaluation, False
        for element in elements:
            self.assign(target, element, scope)
            self.run(body, scope)
        self.loops.pop()
        self.parent, self.conditional = parent, conditional

    def elements(self, iterable: _Value) -> list[_Value]:
        """What a loop goes through, one by one if that is known."""
        if READER in iterable.tags:
            return [self.read(iterable)]
        if iterable.items is not None and 0 < len(iterable.items) <= MAX_ELEMENTS and self.work <= MAX_WORK:
            if all(isinstance(key, str) for key in iterable.items):
                return [_Value(texts=frozenset({str(key)})) for key in iterable.items]
            return list(iterable.items.values())
        return [_element(iterable)]

    def with_block(self, items: list[ast.withitem], body: list[ast.stmt], scope: _Scope) -> None:
        written = []
        for item in items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, scope)
                name = ast.unparse(item.optional_vars)
                used = any(isinstance(node, ast.Name) and node.id == name for line in body for node in ast.walk(line))
                if WRITER in value.tags and used:
                    written.append(value)
        self.run(body, scope)
        for value in written:
            self.write(value)

    # Expressions

    def value(self, node: ast.expr, scope: _Scope) -> _Value:
        value = self.computed(node, scope)
        self.evaluation.data |= value.data
        return value

    def computed(self, node: ast.expr, scope: _Scope) -> _Value:
        self.work += 1
        match node:
            case ast.Constant(value=str(text)):
                return _Value(texts=frozenset({text}))
            case ast.Name(id=name):
                found = scope.get(name)
                return self.imported(name) if found.name == name and self.modules else found
            case ast.Yield(value=ast.expr() as inner) | ast.YieldFrom(value=inner):
                self.returned.append(self.value(inner, scope))
                return NOTHING
            case ast.Call():
                return self.call(node, scope)
            case ast.Attribute(value=base, attr=attribute):
                return self.attribute(self.value(base, scope), attribute)
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                values = [self.value(element, scope) for element in elements]
                if any(isinstance(element, ast.Starred) for element in elements):
                    return replace(_join(values), items=None)
                return _collection(dict(enumerate(values)))
            case ast.Dict(keys=keys, values=elements):
                values = [self.value(element, scope) for element in elements]
                names = [key.value if isinstance(key, ast.Constant) else None for key in keys]
                if None in names:
                    return replace(_join(values), items=None)
                return _collection(dict(zip(names, values, strict=True)))
            case ast.Subscript(value=base, slice=key):
                return self.subscript(self.value(base, scope), key, scope)
            case ast.JoinedStr(values=parts):
                return _concatenated([self.value(part, scope) for part in parts], "")
            case ast.FormattedValue(value=inner) | ast.Await(value=inner) | ast.Starred(value=inner):
                return self.value(inner, scope)
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as operator, right=right):
                operands = [self.value(left, scope), self.value(right, scope)]
                if any(MODEL in operand.tags for operand in operands):  # lists of models
                    return replace(_join(operands), items=None)
                return _concatenated(operands, "/" if isinstance(operator, ast.Div) else "")
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.value(test, scope)
                return _join([self.value(body, scope), self.value(orelse, scope)])
            case ast.BoolOp(values=elements):
                return _join([self.value(element, scope) for element in elements])
            case ast.NamedExpr(target=target, value=value):
                result = self.value(value, scope)
                self.assign(target, result, scope)
                return result
            case ast.Lambda():
                return _Value(code=node, scope=scope)
            case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
                values = self.comprehension(node.generators, lambda inner: self.value(element, inner), scope)
                known = len(values) > 1
                return _collection(dict(enumerate(values))) if known else replace(_join(values), items=None)
            case ast.DictComp(key=key, value=element):
                pairs = self.comprehension(
                    node.generators,
                    lambda inner: _collection({0: self.value(key, inner), 1: self.value(element, inner)}),
                    scope,
                )
                items: dict[object, _Value] = {}
                for pair in pairs:
                    assert pair.items is not None
                    items[min(pair.items[0].texts, default=None)] = pair.items[1]
                return replace(_collection(items), items=None if None in items else items)
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return _derived([self.value(child, scope) for child in children])

    def imported(self, name: str) -> _Value:
        """A name that one of `from module import *` may have brought."""
        names = [f"{module}.{name}" for module in self.modules]
        known = (READS, MODELS, SPLITS, PIPELINES, TRAINING_FUNCTIONS, OPTIMIZERS, SOLVERS)
        return _Value(name=next((one for one in names if any(kind.fullmatch(one) for kind in known)), name))

    def comprehension(
        self, generators: list[ast.comprehension], element: Callable[[_Scope], _Value], scope: _Scope
    ) -> list[_Value]:
        first, *others = generators
        values = []
        for item in self.elements(self.value(first.iter, scope)):
            inner = _Scope(scope)
            self.assign(first.target, item, inner)
            for other in others:
                self.assign(other.target, _join(self.elements(self.value(other.iter, inner))), inner)
            for condition in first.ifs:
                self.value(condition, inner)
            values.append(element(inner))
        return values

    def attribute(self, base: _Value, name: str) -> _Value:
        if base.name:
            return _Value(name=f"{base.name}.{name}")
        cls = base.instance or (base.code if isinstance(base.code, ast.ClassDef) else None)
        if cls is not None:
            found = self.member(cls, name)
            if found is not None:
                return found
        if NAMESPACE in base.tags and base.items is not None:
            return base.items.get(name, NOTHING)
        if MODEL in base.tags:
            return _Value(tags=frozenset({MODEL})) if "estimator" in name or "model" in name else NOTHING
        return _derived([base])

    def member(self, cls: ast.ClassDef, name: str) -> _Value | None:
        if name in self.classes[cls].variables:
            return self.classes[cls].variables[name]
        for base in self.bases[cls]:
            if isinstance(base.code, ast.ClassDef):
                found = self.member(base.code, name)
                if found is not None:
                    return found
        return None

    def subscript(self, base: _Value, key: ast.expr, scope: _Scope) -> _Value:
        index = self.value(key, scope)
        if base.items is not None:
            keys = [key.value] if isinstance(key, ast.Constant) else list(index.texts)
            if len(keys) == 1 and keys[0] in base.items:
                return base.items[keys[0]]
        if base.name:
            return NOTHING
        return replace(_element(base), texts=frozenset())

    # Calls

    def call(self, node: ast.Call, scope: _Scope) -> _Value:
        receiver = NOTHING
        if isinstance(node.func, ast.Attribute):
            receiver = self.value(node.func.value, scope)
            callee = self.attribute(receiver, node.func.attr)
        else:
            callee = self.value(node.func, scope)
        arguments = [self.value(argument, scope) for argument in node.args]
        keywords = {keyword.arg or "**": self.value(keyword.value, scope) for keyword in node.keywords}
        everything = [*arguments, *keywords.values()]

        if MODELS.fullmatch(callee.name) and _is_headless(node):
            return _Value(tags=frozenset({MODEL}))
        if callee.name:
            result = self.library(callee.name, arguments, keywords)
            if result is not None:
                return result
        if isinstance(callee.code, ast.ClassDef):
            return self.construct(callee, arguments, keywords)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr == "add" and receiver.built is not None:  # a layer
                self.assign(node.func.value, self.complete(receiver), scope)
                return NOTHING
            if node.func.attr in ADDS and receiver.instance is None:
                self.add(node.func.value, receiver, everything, scope)
                return NOTHING
            result = self.method(receiver, callee, node.func, arguments, keywords)
            if result is not None:
                return result
        elif callee.code is not None:
            return self.follow(callee, arguments, keywords)
        elif MODEL in callee.tags:
            # The forward pass of a network: only clearly test data counts, training calls it too.
            data = _derived(everything)
            return self.predict(everything, batch=True) if TEST in data.tags else data
        if any(READER in value.tags for value in everything):  # json.load(file), csv, pickle, ...
            return self.read(_join(value for value in everything if READER in value.tags))
        for value in everything:  # callbacks
            if isinstance(value.code, ast.FunctionDef | ast.Lambda):
                self.follow(value, [], {})
        return _derived([receiver, *everything])

    def library(self, name: str, arguments: list[_Value], keywords: dict[str, _Value]) -> _Value | None:
        """A call of a function that is imported or built in; `None` if nothing is known about it."""
        everything = [*arguments, *keywords.values()]
        first = everything[0] if everything else NOTHING
        if SCANS.fullmatch(name):
            return _Value(tags=frozenset({LAZY}), texts=first.texts)
        if READS.fullmatch(name) and IMAGES.fullmatch(name):
            return self.read_image(first)
        if READS.fullmatch(name) and "usecols" in keywords:
            return self.read_columns(first)
        if name == "datasets.load_dataset" and keywords.get("data_files", NOTHING).items:
            files = keywords["data_files"].items or {}
            return _collection({key: self.read(path) for key, path in files.items()})
        if READS.fullmatch(name):
            return _derived([self.read(path) for path in (everything if name.startswith("datasets.") else [first])])
        if OPENS.fullmatch(name):
            mode = keywords.get("mode", arguments[1] if len(arguments) > 1 else NOTHING)
            writes = any(set(text) & set("wax") for text in mode.texts)
            return _Value(tags=frozenset({WRITER if writes else READER}), texts=first.texts)
        if name in {"os.path.join", "pathlib.Path", "pathlib.PurePath"}:
            return _concatenated(arguments, "/")
        if PATHS.fullmatch(name):
            return _Value(tags=first.data, texts=first.texts)
        if name in {"os.getenv", "os.environ.get"}:
            return _Value(texts=arguments[1].texts if len(arguments) > 1 else frozenset())
        if name == "zip" and everything and all(value.items is not None for value in everything):
            rows = zip(*(list((value.items or {}).values()) for value in everything), strict=False)
            return _collection({index: _collection(dict(enumerate(row))) for index, row in enumerate(rows)})
        if name == "enumerate" and first.items is not None:
            rows = zip([NOTHING] * len(first.items), first.items.values(), strict=True)
            return _collection({index: _collection(dict(enumerate(row))) for index, row in enumerate(rows)})
        if name in {"zip", "enumerate"}:
            return _Value(tags=_join(everything).tags)
        if HANDS_ON.fullmatch(name):
            if name in {"list", "tuple", "set", "sorted"} and READER in first.tags:
                return self.read(first)
            return first
        if name == "dict" and not arguments:
            return _collection(dict(keywords.items()))
        if SPLITS.fullmatch(name):
            return _Value(tags=frozenset({TRAIN}))
        if name == "dataclasses.field":
            return NOTHING  # its factory is called for each instance
        if name == "argparse.ArgumentParser":
            return _Value(tags=frozenset({PARSER}))
        if ADAPTERS.fullmatch(name):
            return self.complete(first)
        if SOLVERS.fullmatch(name) and any(TRAIN in value.tags for value in everything):
            self.reach(MODEL_BUILT)
            self.reach(MODEL_TRAINED)
            return _derived(everything)
        if PIPELINES.fullmatch(name):
            return self.build() if any(MODEL in value.tags for value in everything) else NOTHING
        if MODELS.fullmatch(name) and not NOT_MODELS.fullmatch(name):
            return self.build()
        if TRAINING_FUNCTIONS.fullmatch(name):
            self.reach(MODEL_TRAINED)
            return self.build()
        if TRAINERS.fullmatch(name):
            if "model_init" in keywords:
                self.follow(keywords["model_init"], [], {})
            return _Value(tags=frozenset({TRAINER}))
        if OPTIMIZERS.fullmatch(name):
            return _Value(tags=frozenset({OPTIMIZER}))
        if WRITES.fullmatch(name):
            return self.write(first if name == "numpy.savetxt" else everything[-1] if everything else NOTHING)
        return None

    def build(self) -> _Value:
        self.reach(MODEL_BUILT)
        return _Value(tags=frozenset({MODEL}), built=self.evaluation)

    def construct(self, callee: _Value, arguments: list[_Value], keywords: dict[str, _Value]) -> _Value:
        """An instance of a class of the program."""
        cls = callee.code
        assert isinstance(cls, ast.ClassDef)
        if self.is_network(cls):
            self.reach(MODEL_BUILT)
            return _Value(tags=frozenset({MODEL}), instance=cls)
        data = _derived([*arguments, *keywords.values()])
        is_model = self.member(cls, "fit") is not None and self.member(cls, "predict") is not None
        instance = _Value(tags=data.tags | {MODEL} if is_model else data.tags, instance=cls)
        initializer = self.member(cls, "__init__")
        if initializer is not None:
            self.follow(initializer, [instance, *arguments], keywords)
        if is_model:
            self.reach(MODEL_BUILT)
        return instance

    def is_network(self, cls: ast.ClassDef) -> bool:
        """Whether it is a network of torch or keras. A loss function is a `Module` too, but not the model."""
        return "loss" not in cls.name.lower() and any(
            NETWORKS.fullmatch(base.name) or (isinstance(base.code, ast.ClassDef) and self.is_network(base.code))
            for base in self.bases[cls]
        )

    def method(
        self,
        receiver: _Value,
        callee: _Value,
        func: ast.Attribute,
        arguments: list[_Value],
        keywords: dict[str, _Value],
    ) -> _Value | None:
        """A call of a method; `None` if nothing is known about it."""
        name = func.attr
        everything = [*arguments, *keywords.values()]
        first = everything[0] if everything else NOTHING
        is_step = name in FITS | BATCH_FITS | PREDICTS
        if callee.code is not None and not (is_step and receiver.instance and self.is_network(receiver.instance)):
            before = self.counts.copy()
            bound = [receiver, *arguments] if receiver.instance and not _is_static(callee.code) else arguments
            result = self.follow(callee, bound, keywords)
            if MODEL in receiver.tags and name in FITS and self.counts[MODEL_TRAINED] == before[MODEL_TRAINED]:
                self.reach(MODEL_TRAINED)
            if MODEL in receiver.tags and name in PREDICTS and self.counts[PREDICTIONS] == before[PREDICTIONS]:
                self.predict(arguments)
            return receiver if name in FITS else result

        if TRAINER in receiver.tags and name in {"fit", "train"}:
            self.reach(MODEL_TRAINED)
            return NOTHING
        if {MODEL, TRAINER} & receiver.tags and name in PREDICTS:
            return self.predict(everything)
        if MODEL in receiver.tags and name in FITS | BATCH_FITS:
            self.reach(MODEL_TRAINED, batch=name in BATCH_FITS)
            return receiver
        if MODEL in receiver.tags and name in KEEPS_MODEL:
            return receiver
        if name == "step" and self.is_optimizer(receiver, func.value, first):
            self.reach(MODEL_TRAINED, batch=True)
            return NOTHING

        if name in TABLE_WRITES:
            is_path = name.startswith("write_") and receiver.texts
            return self.write(receiver if is_path else keywords.get("path_or_buf", first))
        if name in {"read_text", "read_bytes"} and receiver.texts:
            return self.read(receiver)
        if name == "open" and receiver.texts:
            return self.library("open", [receiver, *arguments], keywords)
        if name in {"read", "readlines"} and READER in receiver.tags:
            return self.read(receiver)
        if LAZY in receiver.tags:
            return self.read(_Value(texts=receiver.texts)) if name == "collect" else receiver
        if name == "add_argument" and PARSER in receiver.tags:
            names = [min(value.texts, default="") for value in arguments]
            names += sorted(keywords.get("dest", NOTHING).texts)
            if names:
                self.defaults[names[-1].lstrip("-").replace("-", "_")] = keywords.get("default", NOTHING)
            return NOTHING
        if name == "parse_args" and PARSER in receiver.tags:
            return _Value(tags=frozenset({NAMESPACE}), items=dict(self.defaults))
        if name == "close" and WRITER in receiver.tags:
            return self.write(receiver)
        if name == "joinpath":
            return _concatenated([receiver, *arguments], "/")
        if name == "format" and receiver.texts:
            return _Value(texts=_few(re.sub(r"\{.*?\}", UNKNOWN, text) for text in receiver.texts))
        if name in {"glob", "rglob", "resolve", "absolute", "as_posix", "expanduser"} and receiver.texts:
            return _concatenated([receiver, *arguments], "/")
        if name in {"items", "values", "keys"} and receiver.items is not None:
            return _view(receiver.items, name)
        if name in {"items", "values", "copy", "get", "pop"}:
            return replace(_element(receiver), texts=frozenset()) if name != "copy" else receiver
        return None

    def add(self, collection: ast.expr, old: _Value, arguments: list[_Value], scope: _Scope) -> None:
        """`collection.append(value)` and the like."""
        items = old.items
        if items is not None and len(arguments) == 1 and len(items) < MAX_ELEMENTS:
            items = {**items, len(items): arguments[0]}
        else:
            items = None
        added = _join([_element(old), *arguments])
        self.assign(collection, _Value(tags=added.tags, texts=added.texts, items=items), scope)

    def is_optimizer(self, receiver: _Value, node: ast.expr, first: _Value) -> bool:
        """`optimizer.step()` or `scaler.step(optimizer)`; where the value is not known, the name tells."""
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return OPTIMIZER in receiver.tags | first.tags or "optim" in name.lower()

    def follow(self, callee: _Value, arguments: list[_Value], keywords: dict[str, _Value]) -> _Value:
        """Interpret the body of a function of the program with these arguments."""
        code = callee.code
        too_deep = code in self.calls or len(self.calls) >= MAX_CALLS or self.work > MAX_WORK
        if code is None or isinstance(code, ast.ClassDef) or too_deep:
            return _derived([*arguments, *keywords.values()])
        scope = _Scope(callee.scope)
        self.bind(code.args, arguments, keywords, scope, callee.scope or scope)
        self.calls.append(code)
        if isinstance(code, ast.Lambda):
            result = self.value(code.body, scope)
        else:
            place = self.parent, self.loops, self.returns, self.returned, self.conditional, self.hint, self.call_hint
            self.parent, self.loops, self.returns, self.returned = self.evaluation, [*self.loops], [], []
            self.conditional, self.call_hint = False, self.hint
            self.run(code.body, scope)
            result = _join(self.returned)
            self.parent, self.loops, self.returns, self.returned = place[:4]
            self.conditional, self.hint, self.call_hint = place[4:]
        self.calls.pop()
        return result

    def bind(
        self,
        parameters: ast.arguments,
        arguments: list[_Value],
        keywords: dict[str, _Value],
        scope: _Scope,
        definition: _Scope,
    ) -> None:
        positional = [*parameters.posonlyargs, *parameters.args]
        defaults: list[ast.expr | None] = [
            *[None] * (len(positional) - len(parameters.defaults)),
            *parameters.defaults,
        ]
        for parameter, default in [
            *zip(positional, defaults, strict=True),
            *zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True),
        ]:
            fallback = NOTHING if default is None else self.value(default, definition)
            scope.set(parameter.arg, keywords.get(parameter.arg, fallback))
        for parameter, value in zip(positional, arguments, strict=False):
            scope.set(parameter.arg, value)
        if parameters.vararg is not None:
            rest = arguments[len(positional) :]
            scope.set(parameters.vararg.arg, _collection(dict(enumerate(rest))))
        if parameters.kwarg is not None:
            scope.set(parameters.kwarg.arg, replace(_join(keywords.values()), items=None))


def _stores_by(target: ast.expr, body: list[ast.stmt]) -> bool:
    """Whether a loop stores something under its variable, `predictions[column] = ...`."""
    return isinstance(target, ast.Name) and any(
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and any(isinstance(inner, ast.Name) and inner.id == target.id for inner in ast.walk(node.slice))
        for statement in body
        for node in ast.walk(statement)
    )


def _is_headless(call: ast.Call) -> bool:
    """Whether a pretrained network is made without its last layers, which others are to replace."""
    return any(
        keyword.arg == "include_top" and isinstance(keyword.value, ast.Constant) and not keyword.value.value
        for keyword in call.keywords
    )


def _is_static(code: ast.AST) -> bool:
    decorators = code.decorator_list if isinstance(code, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return any(isinstance(decorator, ast.Name) and decorator.id == "staticmethod" for decorator in decorators)


def _view(items: dict[object, _Value], method: str) -> _Value:
    """`items()`, `values()` and `keys()` of a dict."""
    keys = [_Value(texts=frozenset({key})) if isinstance(key, str) else NOTHING for key in items]
    if method == "items":
        pairs = zip(keys, items.values(), strict=True)
        return _collection({index: _collection(dict(enumerate(pair))) for index, pair in enumerate(pairs)})
    return _collection(dict(enumerate(keys if method == "keys" else items.values())))
