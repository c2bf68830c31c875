"""The types of scikit-learn that a model file may hold without being trusted by name.

scikit-learn checks what users give it, not what a fitted estimator holds, and some of its compiled
code follows fitted arrays without looking. So there is one table here, `AUDITED`: every type in it
has the names of all its fitted attributes, and a check of what these hold: types, shapes, ranges,
and that numbers are finite. `_audit` looks at everything that can be reached from a loaded model,
and refuses whatever is not in the table.

The types are those that the command makes, those inside this library's engines, and others that
predict by plain arithmetic on arrays of numbers. The rule for a new type: its predictions must not
be able to leave the bounds of an array if its check has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import ne
from typing import Any, NamedTuple

import numpy as np
from sklearn import (
    calibration,
    compose,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    frozen,
    impute,
    linear_model,
    model_selection,
    naive_bayes,
    pipeline,
    preprocessing,
    svm,
    tree,
)
from sklearn.feature_extraction import text
from sklearn.neighbors import BallTree, KDTree

from duelrank.storage._fitted_checks import (
    Test,
    all_of,
    are_labels,
    are_shares,
    bayes,
    bins_fits,
    boosting_fits,
    calibrated_fits,
    calibrated_part_fits,
    components_fits,
    discriminant_fits,
    each_feature,
    each_label,
    forest,
    forest_classifier,
    function_fits,
    imputer_fits,
    indicator_fits,
    is_count,
    is_number,
    linear_fits,
    means_fit,
    one_hot_fits,
    ordinal_fits,
    pca_fits,
    quantiles_fits,
    ridge_fits,
    search_fits,
    tree_classifier_fits,
    tree_regressor_fits,
    vocabulary_fits,
    weights_of_terms_fits,
)
from duelrank.storage._sklearn_models import (
    BinMapper,
    CalibratedClassifier,
    CyHalfBinomialLoss,
    HalfBinomialLoss,
    Interval,
    LogitLink,
    MetadataRequest,
    MethodMetadataRequest,
    PassthroughScorer,
    RemainderColumns,
    Scorer,
    SigmoidCalibration,
    TemperatureScaling,
    Tree,
    TreePredictor,
)
from duelrank.storage._text_checks import check_columns


class Audited(NamedTuple):
    """What a fitted object of a type holds besides its parameters.

    Attributes
    ----------
    fitted : tuple of str
        The attributes that it has after fit, and none of them before.
    optional : tuple of str
        Attributes that it may have: after some fits, or in some versions of scikit-learn.
    fits : callable
        Takes a fitted object and tells whether the attributes fit together. It may also raise.
    """

    fitted: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    fits: Test = bool


# What scikit-learn may set on any estimator.
ANYWHERE = ("n_features_in_", "feature_names_in_", "_sklearn_output_config", "_metadata_request")


def _table_fits(transformer: Any) -> bool:
    """Check the parts of a ColumnTransformer, and that they make columns side by side."""
    parts = transformer.transformers_
    names = [part[0] for part in parts]
    inputs = transformer._transformer_to_input_indices
    check_columns(transformer)
    return (
        type(parts) is list
        and all(type(part) is tuple and len(part) == 3 for part in parts)
        and all(type(name) is str for name in names)
        and len(set(names)) == len(names)
        and type(inputs) is dict
        and set(names) <= set(inputs)
        and all(
            type(places) is list
            and all(is_count(place) and place < transformer.n_features_in_ for place in places)
            for places in inputs.values()
        )
        and _takes_places(transformer)
        and all(_is_step(part) for _, part, _ in parts)
        and all(_is_fitted(part) for name, part, _ in parts if inputs[name])
        and type(transformer.sparse_output_) is bool
        and type(transformer._columns) is list
        and type(transformer._remainder) is tuple
    )


def _takes_places(transformer: Any) -> bool:
    """Tell whether the columns of all parts are those whose places a ColumnTransformer holds.

    It takes columns by their names or places where it was fitted on an array, and else by the
    places that it holds besides.
    """
    names = vars(transformer).get("feature_names_in_", ())
    place_of = {name: place for place, name in enumerate(names)}
    for name, _, columns in transformer.transformers_:
        taken = _places_of(columns, place_of, transformer.n_features_in_)
        places = transformer._transformer_to_input_indices[name]
        if len(taken) != len(places) or any(map(ne, taken, places)):
            return False
    return True


def _places_of(columns: Any, place_of: dict[str, int], n_columns: int) -> Sequence[int]:
    """Return the places of the columns that a part takes; raises if one is not there."""
    if isinstance(columns, slice):
        ends = [columns.start, columns.stop]
        if any(isinstance(end, str) for end in ends):  # by name, a slice includes its end
            first, last = (None if end is None else place_of[end] for end in ends)
            columns = slice(first, None if last is None else last + 1, columns.step)
        return range(n_columns)[columns]
    if isinstance(columns, str) or is_count(columns, -n_columns):
        return _places_of([columns], place_of, n_columns)
    chosen = list(columns.data if type(columns) is RemainderColumns else columns)
    if chosen and all(isinstance(column, (bool, np.bool_)) for column in chosen):
        if len(chosen) != n_columns:
            raise IndexError
        return [place for place, is_in in enumerate(chosen) if is_in]
    return [
        place_of[column] if isinstance(column, str) else range(n_columns)[column]
        for column in chosen
    ]


def _is_fitted(part: Any) -> bool:
    """Tell whether a part is fitted, as far as its type is known here."""
    spec = AUDITED.get(type(part))
    return spec is None or all(name in vars(part) for name in spec.fitted)


def _is_step(part: Any) -> bool:
    """Tell whether a part can be one of a pipeline, union or ColumnTransformer."""
    return part is None or type(part) is str or hasattr(part, "fit")


def _steps(names_and_parts: Any) -> bool:
    return type(names_and_parts) is list and all(
        type(item) is tuple and len(item) == 2 and type(item[0]) is str and _is_step(item[1])
        for item in names_and_parts
    )


def _pipeline_fits(model: Any) -> bool:
    """Check that all steps are fitted or none is, and that every step takes what comes."""
    if not _steps(model.steps) or not model.steps:
        return False
    known = [
        step for _, step in model.steps if type(step) in AUDITED and AUDITED[type(step)].fitted
    ]
    check_columns(model)
    return len(set(map(_is_fitted, known))) <= 1


def _union_fits(model: Any) -> bool:
    return _steps(model.transformer_list)


LINEAR = ("coef_", "intercept_", "classes_", "n_features_in_")
COUNTED = ("n_features_in_", "classes_", "class_count_", "feature_count_")
NAIVE = (*COUNTED, "feature_log_prob_", "class_log_prior_")
TREE = ("tree_", "n_features_in_", "n_outputs_", "max_features_")
CLASSES = ("classes_", "n_classes_")
FOREST = ("estimators_", "estimator_", "n_features_in_", "n_outputs_")
# What forests remember of the rows, and parameters that they pass on to trees.
OF_FORESTS = (
    "_n_samples",
    "_n_samples_bootstrap",
    "_sample_weight",
    "estimator",
    "estimator_params",
    "oob_decision_function_",
    "oob_prediction_",
    "oob_score_",
)
GROUPS = ("_infrequent_indices", "_default_to_infrequent_mappings")
VOCABULARY = ("vocabulary_", "fixed_vocabulary_")
# What vectorizers remember of stop words; terms that older versions have left out.
OLD_VOCABULARY = ("_stop_words_id", "stop_words_")
SEARCH = ("cv_results_", "best_index_", "n_splits_", "multimetric_", "scorer_")
OF_SEARCHES = (
    "best_estimator_",
    "best_params_",
    "best_score_",
    "refit_time_",
    "_checked_cv_orig",
)

AUDITED: dict[type, Audited] = {
    # What holds other estimators.
    pipeline.Pipeline: Audited(fits=_pipeline_fits),
    pipeline.FeatureUnion: Audited(fits=_union_fits),
    compose.ColumnTransformer: Audited(
        (
            "transformers_",
            "output_indices_",
            "n_features_in_",
            "_columns",
            "_transformer_to_input_indices",
            "_remainder",
            "sparse_output_",
        ),
        ("_name_to_fitted_passthrough", "force_int_remainder_cols"),
        _table_fits,
    ),
    frozen.FrozenEstimator: Audited(),
    model_selection.GridSearchCV: Audited(SEARCH, OF_SEARCHES, search_fits),
    model_selection.RandomizedSearchCV: Audited(SEARCH, OF_SEARCHES, search_fits),
    calibration.CalibratedClassifierCV: Audited(
        ("calibrated_classifiers_", "classes_"), fits=calibrated_fits
    ),
    # Scales.
    preprocessing.StandardScaler: Audited(
        ("scale_", "mean_", "var_", "n_samples_seen_", "n_features_in_"),
        fits=each_feature(optional=("scale_", "mean_", "var_")),
    ),
    preprocessing.MinMaxScaler: Audited(
        (
            "scale_",
            "min_",
            "data_min_",
            "data_max_",
            "data_range_",
            "n_samples_seen_",
            "n_features_in_",
        ),
        fits=each_feature("scale_", "min_", "data_min_", "data_max_", "data_range_"),
    ),
    preprocessing.MaxAbsScaler: Audited(
        ("scale_", "max_abs_", "n_samples_seen_", "n_features_in_"),
        fits=each_feature("scale_", "max_abs_"),
    ),
    preprocessing.RobustScaler: Audited(
        ("center_", "scale_", "n_features_in_"), fits=each_feature(optional=("center_", "scale_"))
    ),
    preprocessing.Normalizer: Audited(("n_features_in_",)),
    preprocessing.Binarizer: Audited(("n_features_in_",)),
    preprocessing.QuantileTransformer: Audited(
        ("n_quantiles_", "references_", "quantiles_", "n_features_in_"), fits=quantiles_fits
    ),
    preprocessing.PowerTransformer: Audited(
        ("lambdas_", "n_features_in_"),
        ("_scaler",),
        all_of(
            each_feature("lambdas_"),
            lambda model: (
                not model.standardize or type(model._scaler) is preprocessing.StandardScaler
            ),
        ),
    ),
    preprocessing.FunctionTransformer: Audited(fits=function_fits),
    decomposition.PCA: Audited(
        (
            "components_",
            "explained_variance_",
            "explained_variance_ratio_",
            "singular_values_",
            "mean_",
            "n_components_",
            "noise_variance_",
            "n_samples_",
            "n_features_in_",
        ),
        ("_fit_svd_solver",),
        pca_fits,
    ),
    decomposition.TruncatedSVD: Audited(
        (
            "components_",
            "explained_variance_",
            "explained_variance_ratio_",
            "singular_values_",
            "n_features_in_",
        ),
        fits=components_fits,
    ),
    feature_selection.VarianceThreshold: Audited(
        ("variances_", "n_features_in_"), fits=each_feature("variances_")
    ),
    # Cells of tables.
    impute.SimpleImputer: Audited(
        ("statistics_", "indicator_", "_fit_dtype", "n_features_in_"),
        ("_fill_dtype",),
        imputer_fits,
    ),
    impute.MissingIndicator: Audited(
        ("features_", "_n_features", "_precomputed", "n_features_in_"), fits=indicator_fits
    ),
    preprocessing.OneHotEncoder: Audited(
        (
            "categories_",
            "drop_idx_",
            "_drop_idx_after_grouping",
            "_n_features_outs",
            "_infrequent_enabled",
            "n_features_in_",
        ),
        GROUPS,
        one_hot_fits,
    ),
    preprocessing.OrdinalEncoder: Audited(
        ("categories_", "_missing_indices", "_infrequent_enabled", "n_features_in_"),
        GROUPS,
        ordinal_fits,
    ),
    preprocessing.LabelEncoder: Audited(("classes_",), fits=lambda e: are_labels(e.classes_)),
    preprocessing.LabelBinarizer: Audited(
        ("classes_", "y_type_", "sparse_input_"), fits=lambda e: are_labels(e.classes_)
    ),
    # Texts.
    text.CountVectorizer: Audited(VOCABULARY, OLD_VOCABULARY, vocabulary_fits),
    text.TfidfVectorizer: Audited((*VOCABULARY, "_tfidf"), OLD_VOCABULARY, vocabulary_fits),
    text.TfidfTransformer: Audited((), ("idf_",), weights_of_terms_fits),
    text.HashingVectorizer: Audited((), OLD_VOCABULARY, weights_of_terms_fits),
    # Classifiers whose predictions are arithmetic.
    linear_model.LogisticRegression: Audited(LINEAR, ("n_iter_", "multi_class"), linear_fits),
    svm.LinearSVC: Audited(LINEAR, ("n_iter_",), linear_fits),
    linear_model.RidgeClassifier: Audited(
        ("coef_", "intercept_", "_label_binarizer", "n_features_in_"),
        ("n_iter_", "solver_", "classes_"),
        ridge_fits,
    ),
    discriminant_analysis.LinearDiscriminantAnalysis: Audited(
        (*LINEAR, "means_", "priors_"),
        (
            "_max_components",
            "_n_features_out",
            "covariance_",
            "explained_variance_ratio_",
            "scalings_",
            "xbar_",
        ),
        discriminant_fits,
    ),
    naive_bayes.GaussianNB: Audited(
        (
            "classes_",
            "theta_",
            "var_",
            "epsilon_",
            "class_count_",
            "class_prior_",
            "n_features_in_",
        ),
        fits=all_of(
            bayes("theta_", "var_"),
            each_label("class_count_", "class_prior_"),
            lambda model: means_fit(model) and are_shares(model.class_prior_),
        ),
    ),
    naive_bayes.BernoulliNB: Audited(
        NAIVE, fits=all_of(bayes("feature_log_prob_"), each_label("class_log_prior_"))
    ),
    naive_bayes.MultinomialNB: Audited(
        NAIVE, fits=all_of(bayes("feature_log_prob_"), each_label("class_log_prior_"))
    ),
    naive_bayes.ComplementNB: Audited(
        (*NAIVE, "feature_all_"),
        fits=all_of(bayes("feature_log_prob_"), each_label("class_log_prior_")),
    ),
    # Trees, whose nodes are checked before they are built.
    tree.DecisionTreeClassifier: Audited((*TREE, *CLASSES), fits=tree_classifier_fits),
    tree.ExtraTreeClassifier: Audited((*TREE, *CLASSES), fits=tree_classifier_fits),
    tree.DecisionTreeRegressor: Audited(TREE, ("class_weight",), tree_regressor_fits),
    tree.ExtraTreeRegressor: Audited(TREE, ("class_weight",), tree_regressor_fits),
    ensemble.RandomForestClassifier: Audited(
        (*FOREST, *CLASSES), OF_FORESTS, forest_classifier(tree.DecisionTreeClassifier)
    ),
    ensemble.ExtraTreesClassifier: Audited(
        (*FOREST, *CLASSES), OF_FORESTS, forest_classifier(tree.ExtraTreeClassifier)
    ),
    ensemble.RandomForestRegressor: Audited(
        FOREST, (*OF_FORESTS, "class_weight"), forest(tree.DecisionTreeRegressor)
    ),
    ensemble.ExtraTreesRegressor: Audited(
        FOREST, (*OF_FORESTS, "class_weight"), forest(tree.ExtraTreeRegressor)
    ),
    ensemble.HistGradientBoostingClassifier: Audited(
        (
            "_predictors",
            "_bin_mapper",
            "_baseline_prediction",
            "_loss",
            "_preprocessor",
            "_n_features",
            "classes_",
            "is_categorical_",
            "n_trees_per_iteration_",
            "n_features_in_",
        ),
        (
            "_feature_subsample_rng",
            "_fitted_with_sw",
            "_is_categorical_remapped",
            "_label_encoder",
            "_random_seed",
            "_scorer",
            "_use_validation_data",
            "do_early_stopping_",
            "train_score_",
            "validation_score_",
        ),
        boosting_fits,
    ),
    BinMapper: Audited(
        ("is_categorical_", "bin_thresholds_"),
        ("missing_values_bin_idx_", "n_bins_non_missing_"),
        bins_fits,
    ),
}


def _number_of(*names: str) -> Test:
    return lambda thing: all(is_number(getattr(thing, name)) for name in names)


# The methods whose metadata can be asked for; older versions of scikit-learn have one each.
REQUESTED = (
    "decision_function",
    "fit",
    "inverse_transform",
    "partial_fit",
    "predict",
    "predict_log_proba",
    "predict_proba",
    "score",
    "split",
    "transform",
)

# Objects that are no estimators: all their attributes, and what these must be.
HELPERS: dict[type, Audited] = {
    HalfBinomialLoss: Audited(
        ("closs", "link"),
        (
            "approx_hessian",
            "constant_hessian",
            "device",
            "interval_y_pred",
            "interval_y_true",
            "n_classes",
            "xp",
        ),
        lambda loss: (
            type(loss.closs) is CyHalfBinomialLoss
            and type(loss.link) is LogitLink
            and getattr(loss, "xp", None) is None
        ),
    ),
    LogitLink: Audited((), ("interval_y_pred",)),
    Interval: Audited(("low", "high", "low_inclusive", "high_inclusive")),
    CalibratedClassifier: Audited(
        ("estimator", "calibrators", "classes", "method"), fits=calibrated_part_fits
    ),
    SigmoidCalibration: Audited(("a_", "b_"), fits=_number_of("a_", "b_")),
    TemperatureScaling: Audited(("beta_",), fits=_number_of("beta_")),
    RemainderColumns: Audited(
        ("data",), ("future_dtype", "warning_was_emitted", "warning_enabled")
    ),
    compose.make_column_selector: Audited(("pattern", "dtype_include", "dtype_exclude")),
    PassthroughScorer: Audited(("_estimator",), ("_metadata_request",)),
    Scorer: Audited(
        ("_score_func", "_sign", "_kwargs", "_response_method"), ("_metadata_request",)
    ),
    MetadataRequest: Audited((), ("owner", "_obj", *REQUESTED)),
    MethodMetadataRequest: Audited((), ("owner", "method", "_requests")),
    **{
        kind: Audited(
            (),
            (
                "n_splits",
                "shuffle",
                "random_state",
                "n_repeats",
                "cv",
                "cvargs",
                "test_size",
                "train_size",
                "_default_test_size",
                "max_train_size",
                "gap",
            ),
        )
        for kind in (
            model_selection.GroupKFold,
            model_selection.KFold,
            model_selection.LeaveOneOut,
            model_selection.RepeatedKFold,
            model_selection.RepeatedStratifiedKFold,
            model_selection.ShuffleSplit,
            model_selection.StratifiedGroupKFold,
            model_selection.StratifiedKFold,
            model_selection.StratifiedShuffleSplit,
            model_selection.TimeSeriesSplit,
        )
    },
}
HELPERS.pop(type(None), None)  # stands for types that this version of scikit-learn does not have

# Compiled objects that are checked or made anew when a file is unpacked.
CHECKED_BEFORE = (Tree, TreePredictor, CyHalfBinomialLoss, BallTree, KDTree)


def audited_names() -> list[str]:
    """Return the full names of all types of scikit-learn in the tables, as skops writes them."""
    return sorted(f"{kind.__module__}.{kind.__name__}" for kind in chain(AUDITED, HELPERS))
