"""`to_onnx`: a fitted ranker, and all that comes before it, as one ONNX model."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from duelrank import __version__
from duelrank._choices import ONNX_DTYPES, ONNX_OUTPUTS
from duelrank._parameters import check_choice
from duelrank._sklearn import predictor_inside, transformers_inside
from duelrank.export._converter import Request, register
from duelrank.export._duels import exported_engine, n_numbers
from duelrank.export._inputs import Input, check_transformers, inputs_of
from duelrank.export._nodes import ML_OPSET, OPSET
from duelrank.export._preprocessing import LOCALE, WORDS_OF_ONNX, converters
from duelrank.export._shortlists import Lists
from duelrank.rankers import DuelRanker
from duelrank.rankings import check_k
from duelrank.shortlists import shortlister_inside

LARGEST = 2**31 - 1  # bytes of a protocol buffer
# Above so many labels, the coupling of one point takes a second.
MOST_COUPLED = 300
DEFAULT_OUTPUTS = ("label", "ranks")


def to_onnx(
    model: Any,
    *,
    outputs: str | Iterable[str] | None = None,
    k: int | None = None,
    dtype: str = "float32",
    kinds: Mapping[str, str] | None = None,
) -> Any:
    """Write a fitted ranker as an ONNX model.

    The number of nodes does not depend on the number of labels. Whatever comes before the ranker in
    a pipeline is converted by skl2onnx.

    Parameters
    ----------
    model : fitted DuelRanker, or a pipeline, search or Shortlister that ends in one
        Its engine is `LogisticDuels`, `LogisticDuelsCV`, `AnchoredDuels`, `AnchoredDuelsCV`,
        `StumpDuels` or `ForestDuels`, or `AutoDuels` that has chosen one of these.
    outputs : str or iterable of str, default=None
        What the model answers with, in this order; n is the number of points, K that of labels:

        - "label": the first label, (n,), as by ``predict``;
        - "ranks": the place of every label, (n, K), as by ``predict_ranks``;
        - "order": all labels, best first, (n, K), as by ``predict_order``;
        - "top": the first k labels, (n, k), as by ``predict_top``;
        - "scores": (n, K) doubles, as by ``decision_function``, which returns the second column
          minus the first one if there are two labels;
        - "probabilities": (n, K) doubles, as by ``predict_proba``, for up to 300 labels;
        - "shortlist": which labels are in the list, (n, K) booleans, as by ``shortlist_mask`` of a
          `Shortlister`.

        Columns follow ``classes_``. By default the label and the ranks, and the list if the model
        makes lists.
    k : int, default=None
        How many labels "top" has.
    dtype : {"float32", "float64"}, default="float32"
        Type of the features and precision of the margins. Wins and ties are always counted in
        double precision.
    kinds : mapping of str to str, default=None
        "number" or "category" by name, for columns of which the model does not tell.

    Returns
    -------
    model : onnx.ModelProto
        It has one input "X" of numbers, (n, n_features), or of texts, (n,). If the first step of
        the model is a ColumnTransformer of a dataframe, it has one input for every column, named
        like it, (n, 1).

    Raises
    ------
    TypeError
        If a part of the model cannot be written as ONNX; it is named.
    ValueError
        If an argument is wrong, or the model would be larger than 2 GB.
    ImportError
        If onnx or skl2onnx are not installed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from duelrank import DuelRanker
    >>> X, y = load_iris(return_X_y=True)
    >>> exported = to_onnx(DuelRanker(random_state=0).fit(X, y), outputs=["label", "top"], k=2)
    >>> [output.name for output in exported.graph.output]
    ['label', 'top']
    """
    check_choice("dtype", dtype, ONNX_DTYPES)
    _check_installed()
    ranker, transformers = predictor_inside(model), transformers_inside(model)
    if not isinstance(ranker, DuelRanker):
        raise TypeError(
            "model must be a fitted DuelRanker, or a pipeline, search or Shortlister that ends in "
            f"one; got {type(ranker).__name__}."
        )
    check_is_fitted(ranker)
    shortlister, _ = shortlister_inside(model)
    names = _settled_outputs(outputs, has_lists=shortlister is not None)
    n_classes = len(ranker.classes_)
    if "top" in names:
        check_k(k, n_classes)  # type: ignore[arg-type]
    elif k is not None:
        raise ValueError(f"k is the length of the output 'top', which is not asked for; got k={k}.")
    lists = None
    if "shortlist" in names:
        if shortlister is None:
            raise ValueError("the output 'shortlist' needs a model that makes lists: Shortlister.")
        lists = Lists.of(shortlister)
    request = Request(names, k, np.dtype(dtype).type, lists)
    _check_ranker(ranker, request)
    check_transformers(transformers)
    return _converted(model, transformers, ranker, request, kinds)


def _converted(
    model: Any,
    transformers: list[Any],
    ranker: DuelRanker,
    request: Request,
    kinds: Mapping[str, str] | None,
) -> Any:
    """Let skl2onnx convert a model that has been checked."""
    from onnx import helper
    from skl2onnx import convert_sklearn

    inputs = inputs_of(model, transformers, kinds, request.dtype)
    taken = {given.name for given in inputs} & set(request.outputs)
    if taken:
        raise ValueError(f"column {taken.pop()!r} has the name of an output; rename it.")
    register()
    steps = [(f"step{number}", step) for number, step in enumerate(transformers)]
    convert, shapes = converters(request.dtype)
    options: dict[Any, Any] = {
        id(ranker): {"request": request},
        CountVectorizer: {"tokenexp": WORDS_OF_ONNX, "locale": LOCALE},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what skl2onnx says about its own versions
        try:
            exported = convert_sklearn(
                Pipeline([*steps, ("ranker", ranker)]) if steps else ranker,
                name="duelrank",
                initial_types=[given.for_skl2onnx for given in inputs],
                options=options,
                target_opset={"": OPSET, "ai.onnx.ml": ML_OPSET},
                custom_conversion_functions=convert,
                custom_shape_calculators=shapes,
            )
        except (RuntimeError, NotImplementedError) as error:
            raise TypeError(
                "a step before the ranker cannot be written as ONNX by skl2onnx: "
                f"{str(error).strip().splitlines()[0]}"
            ) from error
    _declare_inputs(exported.graph, inputs)
    _check_size(exported.ByteSize())
    exported.producer_name, exported.producer_version = "duelrank", __version__
    exported.domain, exported.doc_string = "duelrank", "Labels ranked by the duels they win."
    helper.set_model_props(exported, _facts(ranker, request))
    return exported


def _declare_inputs(graph: Any, inputs: list[Input]) -> None:
    """Give inputs their names and shapes; skl2onnx replaces blanks and other signs in names."""
    name_of = {}
    for declared, given in zip(graph.input, inputs, strict=True):
        name_of[declared.name] = given.name
        declared.name = given.name
        for dimension, length in zip(declared.type.tensor_type.shape.dim, given.shape, strict=True):
            if length is not None:
                dimension.dim_value = length
    for node in graph.node:
        for number, name in enumerate(node.input):
            node.input[number] = name_of.get(name, name)


def _check_installed() -> None:
    try:
        import onnx  # noqa: F401
        import skl2onnx  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"ONNX models need {error.name}; install it with: pip install 'duelrank[onnx]'"
        ) from error


def _settled_outputs(outputs: str | Iterable[str] | None, has_lists: bool) -> tuple[str, ...]:
    if outputs is None:
        return (*DEFAULT_OUTPUTS, "shortlist") if has_lists else DEFAULT_OUTPUTS
    names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    for name in names:
        check_choice("outputs", name, ONNX_OUTPUTS)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"outputs must be one or several different names, got {names!r}.")
    return names


def _check_ranker(ranker: DuelRanker, request: Request) -> None:
    """Raise if a ranker, or what is wanted of it, cannot be written."""
    engine, n_classes = exported_engine(ranker.duels_), len(ranker.classes_)
    for name in ("aggregation", "ties"):
        if getattr(ranker, name) == "feedback_arc_set":
            raise TypeError(
                f"{name}='feedback_arc_set' is a search, which cannot be written as ONNX."
            )
    _check_labels(ranker.classes_)
    lists = request.lists
    couples = (
        "probabilities" in request.outputs
        or ranker.aggregation == "coupling"
        or (lists is not None and lists.on_probabilities)
    )
    if couples and n_classes > MOST_COUPLED:
        raise ValueError(
            f"probabilities can be written as ONNX for up to {MOST_COUPLED} labels, got "
            f"{n_classes}; rankings, scores and lists by evidence need none."
        )
    _check_size(n_numbers(engine, n_classes) * np.dtype(request.dtype).itemsize)


def _check_labels(classes: NDArray[Any]) -> None:
    kind = classes.dtype.kind
    is_number = kind in "iu" and (len(classes) == 0 or int(classes.max()) < 2**63)
    if not (is_number or kind in "UT" or all(isinstance(label, str) for label in classes)):
        raise TypeError(
            "labels must be whole numbers or texts to be written as ONNX; got "
            f"{type(classes[0]).__name__}."
        )


def _check_size(n_bytes: int) -> None:
    if n_bytes > LARGEST:
        raise ValueError(
            f"the model would be {n_bytes / 1e9:.1f} GB, and an ONNX file holds 2 GB at most; "
            "dtype='float32' takes half as much as 'float64', and AnchoredDuels with few rivals "
            "have fewer coefficients than LogisticDuels."
        )


def _facts(ranker: DuelRanker, request: Request) -> dict[str, str]:
    """Return what the model says about itself."""
    return {
        "duelrank_version": __version__,
        "labels": json.dumps(ranker.classes_.tolist(), ensure_ascii=False),
        "engine": type(exported_engine(ranker.duels_)).__name__,
        "aggregation": ranker.aggregation,
        "ties": ranker.ties,
        "dtype": np.dtype(request.dtype).name,
    }
