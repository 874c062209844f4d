"""Names of ``tf.estimator`` that are not here: the error of each says what to write."""

from __future__ import annotations

__all__ = ["OF_ESTIMATOR", "OF_ESTIMATORS"]

MODEL_FN = "sd.estimator.Estimator(model_fn)"
EXPORTER = "an object with a name and a method export; see sd.estimator.Exporter"
VALUES = "estimator.get_variable_value(name), or exporters= of an EvalSpec"
LISTENER = "an sd.estimator.CheckpointSaverListener, by saving_listeners="
OF_ESTIMATOR = {
    **dict.fromkeys(
        [
            "BaselineClassifier",
            "BaselineEstimator",
            "BaselineRegressor",
            "BinaryClassHead",
            "BoostedTreesClassifier",
            "BoostedTreesEstimator",
            "BoostedTreesRegressor",
            "DNNEstimator",
            "DNNLinearCombinedClassifier",
            "DNNLinearCombinedEstimator",
            "DNNLinearCombinedRegressor",
            "Head",
            "LinearEstimator",
            "LogisticRegressionHead",
            "MultiClassHead",
            "MultiHead",
            "MultiLabelHead",
            "PoissonRegressionHead",
            "RegressionHead",
        ],
        MODEL_FN,
    ),
    **dict.fromkeys(["BestExporter", "FinalExporter", "LatestExporter"], EXPORTER),
    **dict.fromkeys(
        [
            "CheckpointSaverHook",
            "LoggingTensorHook",
            "NanTensorHook",
            "SessionRunHook",
            "StepCounterHook",
            "StopAtStepHook",
            "SummarySaverHook",
        ],
        LISTENER,
    ),
    **dict.fromkeys(["VocabInfo", "WarmStartSettings"], "a model_fn that makes layers with these weights"),
    **dict.fromkeys(["classifier_parse_example_spec", "regressor_parse_example_spec"], "nothing: input_fn gives arrays by name"),
    "add_metrics": "eval_metric_ops= of the EstimatorSpec",
}
OF_ESTIMATORS = dict.fromkeys(["experimental_export_all_saved_models", "export_saved_model", "export_savedmodel"], VALUES)
