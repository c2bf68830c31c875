"""One row, 32 and 1,024: microseconds per call, beside the bare product and LogisticRegression.

- ``dense``: `LogisticDuels` of 10, 77, 150 and 1,000 labels. Where `duelrank.export` and
  onnxruntime can be imported, also both models in onnxruntime, in single precision.
- ``anchored``: `AnchoredDuels` with ten rivals of every label.
- ``text``: BANKING77 as TF-IDF, with duels that keep training rows; the fit takes a minute.
- ``wrapped``: one row in a pipeline, as a list and as a dataframe.

Except for text, coefficients are random: speed does not depend on where they come from. BLAS and
onnxruntime have one thread each. ``python benchmarks/bench_single_rows.py dense`` runs one part.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from duelrank import AnchoredDuels, DuelRanker, LogisticDuels, pairs, predict_order
from duelrank._batches import batches
from duelrank._pairs import n_pairs
from side_by_side import best_of, record, skipped

BATCHES = (1, 32, 1024)
SECONDS = 0.5  # of runs, of which the best one counts
MOST_MARGINS = 2**24
Call = Callable[[Any], Any]


def logistic_ranker(n_classes: int, n_features: int) -> DuelRanker:
    """Make duels that follow scores with some noise, so that some of them contradict others."""
    rng = np.random.default_rng(0)
    first, second = pairs(n_classes)
    scores = rng.normal(size=(n_classes, n_features))
    engine = LogisticDuels()
    coef = 0.5 * rng.standard_normal((len(first), n_features))
    coef += scores[second]
    coef -= scores[first]
    engine.coef_ = coef
    engine.intercept_ = rng.normal(size=len(first))
    return fitted_ranker(engine, n_classes, n_features)


def anchored_ranker(n_classes: int, n_features: int) -> DuelRanker:
    """Make scores, and corrections a tenth as large of about seven duels a label."""
    rng = np.random.default_rng(0)
    n_duels = len(pairs(n_classes)[0])
    engine = AnchoredDuels(rivals=10)
    duels = np.sort(rng.choice(n_duels, 7 * n_classes, replace=False))
    engine.kept_ = {
        "columns": None,
        "score_coef": rng.normal(size=(n_features, n_classes)),
        "own_coef": 0.1 * rng.normal(size=(n_features, len(duels))),
    }
    engine.corrected_duels_ = duels
    engine.score_intercept_, engine.own_intercept_ = np.zeros(n_classes), np.zeros(len(duels))
    return fitted_ranker(engine, n_classes, n_features)


def fitted_ranker(engine: Any, n_classes: int, n_features: int) -> DuelRanker:
    engine.n_classes_, engine.n_features_in_ = n_classes, n_features
    ranker = DuelRanker(engine, random_state=0)
    ranker.classes_ = ranker.rank_columns_ = np.arange(n_classes)
    ranker.label_order_ = np.random.default_rng(0).permutation(n_classes)
    ranker.duels_, ranker.n_features_in_ = engine, n_features
    return ranker


def multinomial(n_classes: int, n_features: int) -> LogisticRegression:
    rng = np.random.default_rng(0)
    model = LogisticRegression()
    model.classes_, model.n_features_in_ = np.arange(n_classes), n_features
    model.coef_ = rng.normal(size=(n_classes, n_features))
    model.intercept_ = rng.normal(size=n_classes)
    return model


def microseconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    if first > 10 * SECONDS:
        return 1e6 * first
    return 1e6 * best_of(call, int(np.clip(SECONDS / first, 2, 2000)))[0]


def in_parts(call: Call, n_duels: int) -> Call:
    """Let a call that holds all margins together have some rows at a time, if there are many."""
    at_once = max(1, MOST_MARGINS // n_duels)
    return lambda X: [call(X[rows]) for rows in batches(len(X), at_once)]


def in_onnxruntime(ranker: DuelRanker, peer: LogisticRegression) -> Iterator[tuple[str, Call]]:
    """Yield both models in onnxruntime, if they can be had."""
    try:
        import onnxruntime
        from skl2onnx import to_onnx as peer_to_onnx

        from duelrank.export import to_onnx
    except ImportError as error:
        print(f"(without onnxruntime: {error})")
        return
    n_features = ranker.n_features_in_
    one_row = np.zeros((1, n_features), dtype=np.float32)
    no_map = {"zipmap": False}
    models = [
        ("duels, onnxruntime", to_onnx(ranker, outputs="order")),
        ("LogisticRegression, onnxruntime", peer_to_onnx(peer, one_row, options=no_map)),
    ]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for name, model in models:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        n_margins = n_pairs(len(ranker.classes_)) if "duels" in name else 1
        run = partial(run_in_session, session)
        yield name, in_parts(run, n_margins)


def run_in_session(session: Any, X: np.ndarray) -> Any:
    return session.run(None, {"X": X.astype(np.float32)})


def show(
    title: str, rows_of: Callable[[int], Any], calls: dict[str, Call], peer: str, key: str
) -> None:
    """Print the microseconds of every call for all batches, as multiples of the peer's too."""
    print(f"{title}\n{'':34}" + "".join(f"{f'{n:,} rows':>20}" for n in BATCHES), flush=True)
    table = {
        name: [microseconds(partial(call, rows_of(n))) for n in BATCHES]
        for name, call in calls.items()
    }
    for name, times in table.items():
        cells = (
            f"{own:12,.0f} ({own / other:5.2f})"
            for own, other in zip(times, table[peer], strict=True)
        )
        print(f"  {name:32}" + "".join(cells), flush=True)
        if name != peer and "product" not in name and "LogisticRegression" not in name:
            for n, own, other in zip(BATCHES, times, table[peer], strict=True):
                record(
                    f"single-rows/{key}/{name.replace(' ', '-')}/{n}",
                    f"{title}, {name}, {n:,} row{'s'[: n > 1]}",
                    1e-6 * own,
                    peer=peer,
                    theirs=1e-6 * other,
                )


PEER = "LogisticRegression.predict_proba"


def methods(ranker: DuelRanker) -> dict[str, Call]:
    return {
        "predict": ranker.predict,
        "predict_top(X, 5)": lambda X: ranker.predict_top(X, 5),
        "predict_order": ranker.predict_order,
    }


def dense() -> None:
    for n_features in (64, 384):
        for n_classes in (10, 77, 150, 1000) if n_features == 64 else (10, 77, 150):
            ranker, peer = (
                logistic_ranker(n_classes, n_features),
                multinomial(n_classes, n_features),
            )
            coef = ranker.duels_.coef_
            product = in_parts(lambda X, c=coef: X @ c.T, len(coef))
            calls = {"the bare product": product, **methods(ranker)}
            if n_classes <= 150:
                calls["predict_proba"] = ranker.predict_proba
            calls[PEER] = peer.predict_proba
            calls.update(in_onnxruntime(ranker, peer))
            X = np.random.default_rng(1).normal(size=(max(BATCHES), n_features))
            title = f"{n_classes:,} labels, {n_features} features ({coef.nbytes / 1e6:,.0f} MB)"
            key = f"dense/{n_classes}-labels/{n_features}-features"
            show(title, lambda n, X=X: X[:n], calls, PEER, key)


def anchored() -> None:
    for n_classes in (77, 1000):
        ranker, peer = anchored_ranker(n_classes, 64), multinomial(n_classes, 64)
        kept = ranker.duels_.kept_
        both = kept["score_coef"], kept["own_coef"]
        calls = {
            "the bare products": lambda X, both=both: [X @ coef for coef in both],
            **methods(ranker),
            PEER: peer.predict_proba,
        }
        X = np.random.default_rng(1).normal(size=(max(BATCHES), 64))
        title, key = f"{n_classes:,} labels, anchored duels", f"anchored/{n_classes}-labels"
        show(title, lambda n, X=X: X[:n], calls, PEER, key)


def text() -> None:
    from bench_text import banking

    X, y, X_test, _ = banking()
    ranker = DuelRanker(LogisticDuels(10), random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        peer = LogisticRegression(C=10, max_iter=20).fit(X, y)
    calls = {
        "the peer's product": lambda X: X @ peer.coef_.T,
        **methods(ranker),
        PEER: peer.predict_proba,
    }
    title = "77 labels, TF-IDF of BANKING77, kept training rows"
    show(title, lambda n: X_test[:n], calls, PEER, "text")


def wrapped() -> None:
    """One row of 77 labels and 64 features in the forms in which it may come."""
    ranker = logistic_ranker(77, 64)
    X = np.random.default_rng(1).normal(size=(100, 64))
    pipeline = make_pipeline(StandardScaler().fit(X), ranker)
    row = X[:1]
    calls: dict[str, Callable[[], Any]] = {
        "an array": partial(ranker.predict_order, row),
        "an array in single precision": partial(ranker.predict_order, row.astype(np.float32)),
        "a list": partial(ranker.predict_order, row.tolist()),
        "an array, through a pipeline": partial(predict_order, pipeline, row),
    }
    try:
        import pandas as pd
    except ImportError:
        print("(without a dataframe: pandas is not installed)")
    else:
        frame = pd.DataFrame(row, columns=[f"x{number}" for number in range(64)])
        named = logistic_ranker(77, 64)
        named.feature_names_in_ = named.duels_.feature_names_in_ = frame.columns.to_numpy(object)
        calls["a dataframe"] = partial(named.predict_order, frame)
    shortest = None
    for name, call in calls.items():
        own = microseconds(call)
        shortest = shortest or own
        print(f"  {name:32}{own:12,.0f} ({own / shortest:5.2f})", flush=True)


PARTS = {part.__name__: part for part in (dense, anchored, text, wrapped)}


def main() -> None:
    by_itself = Path(sys.argv[0]).name == Path(__file__).name
    with threadpool_limits(1):
        for name in (by_itself and sys.argv[1:]) or PARTS:
            if name == "text" and "DUELRANK_DATA" not in os.environ:
                skipped("text", "set DUELRANK_DATA to a folder with text/banking77_train.csv")
                continue
            print(f"{name}: microseconds per call (and as multiples of the peer's)", flush=True)
            PARTS[name]()


if __name__ == "__main__":
    main()
