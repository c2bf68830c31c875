"""What fitted estimators of scikit-learn must hold, so that no prediction leaves an array.

A function with a name such as `linear_fits` takes a fitted object and tells whether its attributes
fit together; it may also raise. Others make such functions.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn import compose, impute, preprocessing
from sklearn.utils.validation import check_array

from duelrank import losses
from duelrank.storage._checks import check_histogram_boosting
from duelrank.storage._sklearn_models import BinMapper, CalibratedClassifier, HalfBinomialLoss, Tree
from duelrank.storage._text_checks import check_vectorizer

Test = Callable[[Any], Any]
LARGEST = 1e150  # of a number whose square must be finite
LARGEST_SHARE = 1 + 1e-6


def is_count(value: Any, least: int = 0) -> bool:
    """Tell whether this is an integer, of Python or numpy, that is not too small."""
    return isinstance(value, (int, np.integer)) and type(value) is not bool and int(value) >= least


def is_number(value: Any) -> bool:
    """Tell whether this is a finite number, of Python or numpy."""
    kinds = (int, float, np.integer, np.floating)
    return isinstance(value, kinds) and type(value) is not bool and bool(np.isfinite(value))


def is_numbers(value: Any, *shape: int | None, kinds: str = "f", finite: bool = True) -> bool:
    """Tell whether this is an array of finite numbers of a shape, in which None is any length."""
    return (
        type(value) is np.ndarray
        and value.dtype.kind in kinds
        and len(value.shape) == len(shape)
        and all(given in (None, there) for there, given in zip(value.shape, shape, strict=True))
        and (not finite or bool(np.isfinite(value).all()))
    )


def are_labels(classes: Any, least: int = 1) -> bool:
    """Tell whether this is a vector of different labels."""
    return (
        type(classes) is np.ndarray
        and classes.ndim == 1
        and classes.dtype.kind in "biufUO"
        and len(classes) >= least
        and len(set(classes.tolist())) == len(classes)
    )


def all_of(*tests: Test) -> Test:
    return lambda thing: all(test(thing) for test in tests)


def each_feature(*names: str, optional: Iterable[str] = ()) -> Test:
    """Return a test for one finite number per feature; optional ones may be None."""

    def test(thing: Any) -> bool:
        d = thing.n_features_in_
        return (
            all(is_numbers(getattr(thing, name), d) for name in names)
            and all(
                getattr(thing, name) is None or is_numbers(getattr(thing, name), d)
                for name in optional
            )
            and bool(np.all(getattr(thing, "scale_", None) != 0))  # it divides by these
        )

    return test


def linear_fits(model: Any) -> bool:
    """One row of coefficients per label, or one row for two labels."""
    n_labels = len(model.classes_)
    n_rows, d = 1 if n_labels == 2 else n_labels, model.n_features_in_
    return (
        are_labels(model.classes_, 2)
        and is_numbers(model.coef_, n_rows, d)
        and (
            is_numbers(model.intercept_, n_rows)
            or (type(model.intercept_) is float and np.isfinite(model.intercept_))
        )
    )


def ridge_fits(model: Any) -> bool:
    binarizer, d = model._label_binarizer, model.n_features_in_
    n_labels = len(binarizer.classes_)
    shape = (d,) if n_labels == 2 else (n_labels, d)
    return (
        type(binarizer) is preprocessing.LabelBinarizer
        and are_labels(binarizer.classes_, 2)
        and (is_numbers(model.coef_, *shape) or is_numbers(model.coef_, 1, d))
        and (
            is_number(model.intercept_)
            or is_numbers(model.intercept_, 1 if n_labels == 2 else n_labels)
        )
    )


def bayes(*names: str) -> Test:
    """Return a test for one number per label and feature."""

    def test(model: Any) -> bool:
        shape = len(model.classes_), model.n_features_in_
        return are_labels(model.classes_) and all(
            is_numbers(getattr(model, name), *shape) for name in names
        )

    return test


def each_label(*names: str) -> Test:
    def test(model: Any) -> bool:
        return all(
            is_numbers(getattr(model, name), len(model.classes_), finite=False)
            and not np.isnan(getattr(model, name)).any()
            for name in names
        )

    return test


def means_fit(model: Any) -> bool:
    """Check the normal distributions of features, whose distances to points are squared."""
    means, variances = np.abs(model.theta_), model.var_
    return bool((means <= LARGEST).all() and (variances > 0).all())


def are_shares(values: Any) -> bool:
    return bool(np.all((values > 0) & (values <= 1)))


def discriminant_fits(model: Any) -> bool:
    d = model.n_features_in_
    return (
        linear_fits(model)
        and is_numbers(model.means_, len(model.classes_), d)
        and is_numbers(model.priors_, len(model.classes_))
    )


def components_fits(model: Any) -> bool:
    n = len(model.components_)
    return (
        is_numbers(model.components_, n, model.n_features_in_)
        and is_numbers(model.explained_variance_, n)
        and is_numbers(model.explained_variance_ratio_, n, finite=False)
        and is_numbers(model.singular_values_, n)
    )


def pca_fits(model: Any) -> bool:
    return (
        components_fits(model)
        and is_numbers(model.mean_, model.n_features_in_)
        and is_count(model.n_components_)
        and model.n_components_ == len(model.components_)
    )


def quantiles_fits(model: Any) -> bool:
    return (
        is_count(model.n_quantiles_, 1)
        and is_numbers(model.references_, model.n_quantiles_)
        and is_numbers(model.quantiles_, model.n_quantiles_, model.n_features_in_, finite=False)
    )


def imputer_fits(model: Any) -> bool:
    d, statistics, indicator = model.n_features_in_, model.statistics_, model.indicator_
    if indicator is not None and not (
        type(indicator) is impute.MissingIndicator and indicator.n_features_in_ == d
    ):
        return False
    is_given = statistics.dtype.kind == "O" and all(map(_is_cell, statistics.tolist()))
    return (
        statistics.shape == (d,)
        and (is_given or statistics.dtype.kind in "iufU")
        and isinstance(model._fit_dtype, np.dtype)
        and isinstance(getattr(model, "_fill_dtype", model._fit_dtype), np.dtype)
        and (indicator is not None) == bool(model.add_indicator)
    )


def _is_cell(value: Any) -> bool:
    """Tell whether a value can stand in a cell of a table."""
    return value is None or isinstance(value, (str, bool, int, float, np.generic))


def indicator_fits(model: Any) -> bool:
    return (
        is_numbers(model.features_, None, kinds="i")
        and bool(np.all((model.features_ >= 0) & (model.features_ < model.n_features_in_)))
        and bool(np.all(np.diff(model.features_) > 0))
        and model._n_features == model.n_features_in_
        and type(model._precomputed) is bool
    )


def _categories(encoder: Any) -> bool:
    """Check categories and how rare ones are grouped. Positions are columns, unchecked later."""
    categories = encoder.categories_
    if not (
        type(categories) is list
        and len(categories) == encoder.n_features_in_
        and all(map(_are_categories, categories))
    ):
        return False
    groups = encoder.max_categories is not None or encoder.min_frequency is not None
    if type(encoder._infrequent_enabled) is not bool or encoder._infrequent_enabled != groups:
        return False
    names = ("_infrequent_indices", "_default_to_infrequent_mappings")
    if not groups:
        return not any(name in vars(encoder) for name in names)
    rare, places = (getattr(encoder, name) for name in names)
    return (
        type(rare) is list
        and type(places) is list
        and len(rare) == len(places) == len(categories)
        and all(map(_are_grouped, categories, rare, places))
    )


def _are_categories(known: Any) -> bool:
    if type(known) is not np.ndarray or known.ndim != 1 or known.dtype.kind not in "biufUO":
        return False
    if known.dtype.kind == "O":
        cells = known.tolist()
        return all(map(_is_cell, cells)) and len(set(cells)) == len(cells)
    if known.dtype.kind == "f" and len(known) and np.isnan(known[-1]):
        known = known[:-1]
    # Numbers are looked up by bisection, which can point behind the end if they are not sorted.
    return bool(np.all(known[1:] > known[:-1]))


def _are_grouped(known: Any, rare: Any, places: Any) -> bool:
    if rare is None or places is None:
        return rare is None and places is None
    n = len(known)
    if not (
        is_numbers(rare, None, kinds="i")
        and is_numbers(places, n, kinds="i")
        and len(rare) >= 1
        and bool(np.all(np.diff(rare) > 0))
        and rare[0] >= 0
        and rare[-1] < n
    ):
        return False
    is_rare = np.zeros(n, dtype=bool)
    is_rare[rare] = True
    expected = np.where(is_rare, n - len(rare), np.cumsum(~is_rare) - 1)
    return bool(np.array_equal(places, expected))


def _n_grouped(encoder: Any) -> list[int]:
    """Return how many columns there are for every feature, before any is dropped."""
    rare = encoder._infrequent_indices if encoder._infrequent_enabled else None
    sizes = [len(known) for known in encoder.categories_]
    if rare is None:
        return sizes
    return [n if r is None else n - len(r) + 1 for n, r in zip(sizes, rare, strict=True)]


def one_hot_fits(encoder: Any) -> bool:
    if not _categories(encoder):
        return False
    sizes = _n_grouped(encoder)
    dropped, original = encoder._drop_idx_after_grouping, encoder.drop_idx_
    if (dropped is None) != (original is None) or (dropped is None) != (encoder.drop is None):
        return False
    if dropped is not None:
        n_known = [len(known) for known in encoder.categories_]
        if not (_are_dropped(dropped, sizes) and _are_dropped(original, n_known)):
            return False
        sizes = [n - (i is not None) for n, i in zip(sizes, dropped.tolist(), strict=True)]
    made = encoder._n_features_outs
    return type(made) is list and all(map(is_count, made)) and made == sizes


def _are_dropped(places: Any, sizes: list[int]) -> bool:
    return (
        type(places) is np.ndarray
        and places.shape == (len(sizes),)
        and all(
            i is None or (is_count(i) and i < n)
            for i, n in zip(places.tolist(), sizes, strict=True)
        )
    )


def ordinal_fits(encoder: Any) -> bool:
    missing = encoder._missing_indices
    return (
        _categories(encoder)
        and type(missing) is dict
        and all(
            is_count(i)
            and i < len(encoder.categories_)
            and is_count(place)
            and place < len(encoder.categories_[i])
            for i, place in missing.items()
        )
    )


def weights_of_terms_fits(vectorizer: Any) -> bool:
    check_vectorizer(vectorizer)
    return _reads_texts(vectorizer)


def vocabulary_fits(vectorizer: Any) -> bool:
    check_vectorizer(vectorizer)
    return (
        _reads_texts(vectorizer)
        and type(vectorizer.fixed_vocabulary_) is bool
        and type(getattr(vectorizer, "_stop_words_id", 0)) is int
    )


def _reads_texts(vectorizer: Any) -> bool:
    """Check that no function that files may hold without trust, all of numbers, gets a text."""
    held = [vars(vectorizer).get(name) for name in ("preprocessor", "tokenizer", "analyzer")]
    return not any(
        isinstance(function, np.ufunc)
        or (isinstance(function, type) and function is not str)
        or checks_arrays(function)
        or str(getattr(function, "__module__", "")).startswith(("duelrank.", "sklearn."))
        for function in held
    )


def checks_arrays(function: Any) -> bool:
    """Tell whether this is the check of arrays, as boosting has it for its columns."""
    return (
        type(function) is functools.partial
        and function.func is check_array
        and not function.args
        and not vars(function)
        and set(function.keywords) <= {"dtype", "ensure_all_finite", "force_all_finite"}
    )


def function_fits(model: Any) -> bool:
    """Check that functions of numpy get the points alone, and no array to write to.

    What our scorers measure is no function of points.
    """
    pairs = (model.func, model.kw_args), (model.inverse_func, model.inv_kw_args)
    return all(
        not isinstance(function, type)
        and getattr(_without_arguments(function), "__module__", None) != losses.__name__
        and (inspect.isfunction(function) or more is None or (type(more) is dict and not more))
        for function, more in pairs
    )


def _without_arguments(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def search_fits(model: Any) -> bool:
    return (
        _are_results(model.cv_results_)
        and type(model.multimetric_) is bool
        and is_count(model.n_splits_, 1)
    )


def _are_results(results: Any) -> bool:
    """Check what a search has tried: arrays, which may be masked here and nowhere else."""
    return type(results) is dict and all(
        type(name) is str and type(values) in (np.ndarray, np.ma.MaskedArray, list)
        for name, values in results.items()
    )


def _tree(model: Any) -> bool:
    """Check that a tree takes the features and has the outputs that its estimator says."""
    grown = model.tree_
    return (
        type(grown) is Tree
        and type(model.n_features_in_) is int
        and grown.n_features == model.n_features_in_
        and type(model.n_outputs_) is int
        and grown.n_outputs == model.n_outputs_
        and is_count(model.max_features_, 1)
    )


def _classes_of_trees(model: Any) -> bool:
    n_classes = model.n_classes_
    if model.n_outputs_ == 1:
        return (
            are_labels(model.classes_) and is_count(n_classes) and n_classes == len(model.classes_)
        )
    return False  # labels of several outputs, which no ranker has


def tree_classifier_fits(model: Any) -> bool:
    return (
        _tree(model)
        and _classes_of_trees(model)
        and model.tree_.n_classes.tolist() == [len(model.classes_)]
        and _are_shares_of_labels(model.tree_.value)
    )


def _are_shares_of_labels(values: Any) -> bool:
    """Tell whether leaves hold shares, which may be rounded; they become probabilities."""
    return bool(0 <= values.min() <= values.max() <= LARGEST_SHARE)


def tree_regressor_fits(model: Any) -> bool:
    return _tree(model) and bool((model.tree_.n_classes == 1).all())


def forest(of: type) -> Test:
    def test(model: Any) -> bool:
        trees = model.estimators_
        return (
            type(trees) is list
            and len(trees) >= 1
            and type(model.n_features_in_) is int
            and type(model.n_outputs_) is int
            and type(model.estimator_) is type(model.estimator) is of
            and all(
                type(tree) is of
                and tree.n_features_in_ == model.n_features_in_
                and tree.n_outputs_ == model.n_outputs_
                for tree in trees
            )
        )

    return test


def forest_classifier(of: type) -> Test:
    def test(model: Any) -> bool:
        # The trees of a forest know labels as numbers.
        return (
            forest(of)(model)
            and _classes_of_trees(model)
            and all(len(tree.classes_) == len(model.classes_) for tree in model.estimators_)
        )

    return test


def boosting_fits(model: Any) -> bool:
    """Check boosting of two labels; its trees have been checked before they were built."""
    mapper, predictors = model._bin_mapper, model._predictors
    if not (
        type(mapper) is BinMapper
        and type(predictors) is list
        and all(type(trees) is list and len(trees) == 1 for trees in predictors)
        and type(model.n_trees_per_iteration_) is int
        and model.n_trees_per_iteration_ == 1
        and type(model.n_features_in_) is int
        and model._n_features == model.n_features_in_
        and are_labels(model.classes_, 2)
        and len(model.classes_) == 2
        and is_numbers(model._baseline_prediction, 1, 1)
        and type(model._loss) is HalfBinomialLoss
    ):
        return False
    if model._preprocessor is not None and not _reorders(model._preprocessor, model.n_features_in_):
        return False
    check_histogram_boosting(model)
    return True


def _reorders(table: Any, n_columns: int) -> bool:
    """Tell whether a table passes on every column once, as boosting does not count them."""
    if type(table) is not compose.ColumnTransformer or table.n_features_in_ != n_columns:
        return False
    kept = (preprocessing.OrdinalEncoder, preprocessing.FunctionTransformer)
    taken = np.zeros(n_columns, dtype=int)
    for name, part, chosen in table.transformers_:
        if type(part) is str and part == "drop":
            continue
        if type(part) not in kept or not is_numbers(chosen, n_columns, kinds="b"):
            return False
        if type(part) is preprocessing.FunctionTransformer and not checks_arrays(part.func):
            return False
        if table._transformer_to_input_indices[name] != np.flatnonzero(chosen).tolist():
            return False
        taken += chosen
    return bool((taken == 1).all())


def bins_fits(mapper: Any) -> bool:
    is_categorical, thresholds = mapper.is_categorical_, mapper.bin_thresholds_
    return (
        is_numbers(is_categorical, None, kinds="bu")
        and bool((is_categorical <= 1).all())
        and type(thresholds) is list
        and len(thresholds) == len(is_categorical)
        and all(is_numbers(values, None, finite=False) for values in thresholds)
        and all(
            bool(np.all((values >= 0) & (values <= 255) & (values == np.floor(values))))
            for values, categorical in zip(thresholds, is_categorical.tolist(), strict=True)
            if categorical
        )
    )


def calibrated_part_fits(part: Any) -> bool:
    return (
        are_labels(part.classes, 2)
        and type(part.calibrators) is list
        and len(part.calibrators) >= 1
        and all(hasattr(calibrator, "predict") for calibrator in part.calibrators)
        and hasattr(part.estimator, "classes_")
        and part.method in ("sigmoid", "isotonic", "temperature")
    )


def calibrated_fits(model: Any) -> bool:
    return (
        type(model.calibrated_classifiers_) is list
        and len(model.calibrated_classifiers_) >= 1
        and all(type(part) is CalibratedClassifier for part in model.calibrated_classifiers_)
        and are_labels(model.classes_, 2)
    )
