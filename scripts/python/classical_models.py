#!/usr/bin/env python3
"""Trains small classical models of scikit-learn, XGBoost and LightGBM, and writes what skl2onnx and onnxmltools export of
them, with seeded inputs and the outputs of onnxruntime's CPU provider:

    DIRECTORY/<case>/model.onnx
    DIRECTORY/<case>/in_<name>.npy, out_<name>.npy
    DIRECTORY/manifest.json             see model_cases.py

    python classical_models.py DIRECTORY [--only a,b]

Where a model ends in ZipMap, the case has `outputs`, those to request: ZipMap's input in place of its output.
"""

import os
import warnings

import lightgbm
import numpy as np
import onnx
import onnxruntime
import xgboost
from model_cases import Generator, rng, save_case
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as BoosterFloats
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType
from sklearn import cluster, decomposition, ensemble, gaussian_process, impute, linear_model, naive_bayes, neighbors, neural_network, pipeline, preprocessing, svm, tree

ROWS, FEATURES = 120, 5
ROWS_OF_RUNS = (1, 40)


def data(classes=None):
    """Features, and classes or numbers that depend on them."""
    random = rng(f"data {classes}")
    x = random.standard_normal((ROWS, FEATURES)).astype(np.float32)
    score = x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + 0.1 * random.standard_normal(ROWS)
    if classes is None:
        return x, score.astype(np.float32)
    return x, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes)).astype(np.int64)


def fitted(model, classes=None):
    x, y = data(classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(x, y)


def sklearn(model, classes=None, zipmap=False, target_opset=None, features=FloatTensorType):
    model = fitted(model, classes)
    options = {id(model): {"zipmap": zipmap}} if hasattr(model, "predict_proba") else None
    return convert_sklearn(model, initial_types=[("X", features([None, FEATURES]))], options=options, target_opset=target_opset)


def boosted(model, classes=None):
    model = fitted(model, classes)
    if isinstance(model, lightgbm.LGBMModel):
        return convert_lightgbm(model, initial_types=[("X", BoosterFloats([None, FEATURES]))], zipmap=False)
    return convert_xgboost(model, initial_types=[("X", BoosterFloats([None, FEATURES]))])


def encoder():
    """Integer categories to columns of 0 and 1, then a linear model."""
    codes = rng("codes").integers(0, 4, (ROWS, 2))
    model = pipeline.make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression())
    model.fit(codes, (codes.sum(axis=1) % 2))
    return convert_sklearn(model, initial_types=[("X", Int64TensorType([None, 2]))], options={id(model): {"zipmap": False}})


SKLEARN = {
    "linear_regression": (linear_model.LinearRegression(), None),
    "ridge": (linear_model.Ridge(), None),
    "logistic_two": (linear_model.LogisticRegression(), 2),
    "logistic_three": (linear_model.LogisticRegression(), 3),
    "sgd_classifier": (linear_model.SGDClassifier(loss="log_loss", random_state=0), 3),
    "decision_tree_regressor": (tree.DecisionTreeRegressor(max_depth=6, random_state=0), None),
    "decision_tree_two": (tree.DecisionTreeClassifier(max_depth=5, random_state=0), 2),
    "decision_tree_three": (tree.DecisionTreeClassifier(max_depth=5, random_state=0), 3),
    "random_forest_regressor": (ensemble.RandomForestRegressor(20, max_depth=6, random_state=0), None),
    "random_forest_two": (ensemble.RandomForestClassifier(20, max_depth=6, random_state=0), 2),
    "random_forest_three": (ensemble.RandomForestClassifier(20, max_depth=6, random_state=0), 3),
    "extra_trees": (ensemble.ExtraTreesClassifier(10, max_depth=6, random_state=0), 3),
    "gradient_boosting_regressor": (ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0), None),
    "gradient_boosting_two": (ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0), 2),
    "gradient_boosting_three": (ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0), 3),
    "svr": (svm.SVR(), None),
    "svr_poly": (svm.SVR(kernel="poly"), None),
    "one_class_svm": (svm.OneClassSVM(), None),
    "svc_two": (svm.SVC(), 2),
    "svc_three": (svm.SVC(), 3),
    "svc_probability_two": (svm.SVC(probability=True, random_state=0), 2),
    "svc_probability_three": (svm.SVC(probability=True, random_state=0), 3),
    "linear_svc": (svm.LinearSVC(random_state=0), 3),
    "scaled_logistic": (pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()), 2),
    "imputed_normalized": (pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.Normalizer(), linear_model.Ridge()), None),
    "binarized": (pipeline.make_pipeline(preprocessing.Binarizer(threshold=0.25), linear_model.Ridge()), None),
    "reduced_neighbors": (pipeline.make_pipeline(decomposition.PCA(3), neighbors.KNeighborsClassifier(3)), 2),
    "perceptrons": (neural_network.MLPClassifier((8,), max_iter=50, random_state=0), 3),
    "gaussian_bayes": (naive_bayes.GaussianNB(), 3),
    "k_means": (cluster.KMeans(3, n_init=1, random_state=0), None),
}

# Models that are exported for doubles, too. onnxruntime refuses what skl2onnx makes of others.
OF_DOUBLES = (
    "linear_regression", "ridge", "logistic_two", "logistic_three", "sgd_classifier", "random_forest_two",
    "random_forest_three", "scaled_logistic", "binarized",
    "reduced_neighbors", "perceptrons", "gaussian_bayes", "k_means",
)

CASES = {name: (lambda model=model, classes=classes: sklearn(model, classes)) for name, (model, classes) in SKLEARN.items()}
CASES |= {f"{name}_of_doubles": (lambda given=SKLEARN[name]: sklearn(*given, features=DoubleTensorType)) for name in OF_DOUBLES}
CASES |= {
    "random_forest_zipmap": lambda: sklearn(ensemble.RandomForestClassifier(10, max_depth=4, random_state=0), 3, zipmap=True),
    "logistic_zipmap": lambda: sklearn(linear_model.LogisticRegression(), 2, zipmap=True),
    "random_forest_ml_1": lambda: sklearn(ensemble.RandomForestClassifier(5, max_depth=4, random_state=0), 3, target_opset={"": 12, "ai.onnx.ml": 1}),
    "isolation_forest": lambda: sklearn(ensemble.IsolationForest(n_estimators=10, random_state=0), target_opset={"": 17, "ai.onnx.ml": 3}),
    "one_hot_logistic": encoder,
    "xgboost_regressor": lambda: boosted(xgboost.XGBRegressor(n_estimators=20, max_depth=4)),
    "xgboost_two": lambda: boosted(xgboost.XGBClassifier(n_estimators=20, max_depth=4), 2),
    "xgboost_three": lambda: boosted(xgboost.XGBClassifier(n_estimators=20, max_depth=4), 3),
    "lightgbm_regressor": lambda: boosted(lightgbm.LGBMRegressor(n_estimators=20, verbose=-1)),
    "lightgbm_two": lambda: boosted(lightgbm.LGBMClassifier(n_estimators=20, verbose=-1), 2),
    "lightgbm_three": lambda: boosted(lightgbm.LGBMClassifier(n_estimators=20, verbose=-1), 3),
}


TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}


def write(directory, name):
    """Writes the case `name` and gives its entry for the manifest."""
    model = CASES[name]()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    tensors = [output.name for output in session.get_outputs() if output.type.startswith("tensor")]
    more = {}
    for node in model.graph.node:
        if node.op_type == "ZipMap":
            # onnxruntime returns only outputs of the model.
            seen = onnx.ModelProto.FromString(model.SerializeToString())
            seen.graph.output.append(onnx.ValueInfoProto(name=node.input[0]))
            session = onnxruntime.InferenceSession(seen.SerializeToString(), providers=["CPUExecutionProvider"])
            tensors.append(node.input[0])
            more = {"outputs": tensors}
    folder = os.path.join(directory, name)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    runs = []
    for rows in ROWS_OF_RUNS:
        random = rng(f"{name} {rows}")
        width = given.shape[1]
        numbers = random.integers(0, 5, (rows, width)) if given.type == "tensor(int64)" else random.standard_normal((rows, width))
        x = numbers.astype(TYPES[given.type])
        runs.append(({given.name: x}, dict(zip(tensors, session.run(tensors, {given.name: x}), strict=True))))
    return save_case(folder, name, runs, **more)


if __name__ == "__main__":
    Generator(CASES, write).main(__doc__)
