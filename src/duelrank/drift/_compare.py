"""New rows against a profile: tests, and what they tell in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_consistent_length

from duelrank._classifiers import known_labels
from duelrank._sklearn import as_indexable
from duelrank.drift._check import (
    ACCURACY,
    FIRST_PLACES,
    LABEL_SHARES,
    LENGTHS,
    MEAN_PLACES,
    NEW_LABELS,
    UNLIKE,
    Check,
    Figure,
    Finding,
)
from duelrank.drift._columns import Column, column_names, read_column
from duelrank.drift._figures import figure_of
from duelrank.drift._profile import Bins, Profile, Values, count_buckets
from duelrank.drift._ranked import LIST, MOST_LABELS, Ranked, rank_rows
from duelrank.drift._seen import Seen, seen_by
from duelrank.drift._statistics import (
    holm,
    nothing_new,
    same_mean,
    same_order,
    same_share,
    same_shares,
    smallest_of,
    smallest_told,
    total_variation,
)
from duelrank.drift._unlike import Unlike, find_unlike, never_seen, quoted, written

__all__ = ["compare"]

LEVEL = 0.05  # how often a check raises an alarm, if nothing changed
SMALLEST_CHANGE = 0.05  # of a distribution; less is a trifle, however sure it is
SMALLEST_SHARE = 0.01  # of rows with something never seen
FEW_ROWS = 0.2  # a check is told to be weak, if it misses changes of so many rows
MOST_UNSEEN = 20  # categories of a column that are named
LABELS_TOLD = 3
MOST_FIGURES = 6
# A label that has not come is missed, if so many rows would hardly ever be without it.
NEVER = 1e-3
LEAST, BEYOND_DOUBT = 1e-300, 1e-12
UNCHANGED = "as in training"


class Test(NamedTuple):
    """One test of one thing; a change below `smallest` is a trifle."""

    p_value: float
    change: float
    smallest: float
    told: str
    training: str
    new: str


def compare(
    profile: Profile,
    model: Any,
    X: Any,
    y: Any = None,
    *,
    kinds: Mapping[str, str | None] | None = None,
    level: float = LEVEL,
    row_numbers: Any = None,
    unreadable: Mapping[str, str] | None = None,
) -> Check:
    """Tell whether new rows are like those that a model was fitted on.

    Every column, the labels, the rankings and the lists are tested, and the p-values are corrected
    for their number by Holm's method. So if nothing changed, a check raises an alarm in at most
    about a share `level` of all cases. Changes below 5% of the rows raise none, however many rows
    there are.

    Parameters
    ----------
    profile : Profile
        Of the rows that the model was fitted on.
    model : fitted classifier, pipeline or search
        The model.
    X : dataframe or array with n rows, or list of n texts
        The new rows. Columns that are missing are findings, and nothing is ranked then.
    y : array-like of shape (n,), default=None
        Their labels, if they are known; None or "" where one is not.
    kinds : mapping of str to str, default=None
        Kinds of columns by their names; by default those of training.
    level : float, default=0.05
        How often a check may raise an alarm, if nothing changed.
    row_numbers : array-like of int, of shape (n,), default=None
        Numbers of the rows, if X holds some rows of a larger table.
    unreadable : mapping of str to str, default=None
        Columns that are not in X because they hold something else, and what.

    Returns
    -------
    check : Check
        What changed, worst first.
    """
    if not isinstance(level, Real) or isinstance(level, bool) or not 0 < float(level) < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}.")
    X = as_indexable(X)
    n_rows = int(X.shape[0])
    if n_rows == 0:
        raise ValueError("X must hold at least one row, got none.")
    numbers = np.arange(n_rows) if row_numbers is None else np.asarray(row_numbers)
    check_consistent_length(X, numbers)
    unreadable = unreadable or {}
    names = column_names(X)
    seen = seen_by(model)
    if len(profile.label_counts) != min(len(known_labels(model)), MOST_LABELS):
        profile = profile.of_columns()  # labels have come or gone since it was made
    findings = list(_lost_columns(profile, names, unreadable))
    kinds = {name: column.kind for name, column in profile.columns.items()} | dict(kinds or {})
    tested: list[tuple[str, str, list[Test]]] = []
    columns: dict[str, Column] = {}
    for name in names:
        if name not in profile.columns:
            continue
        try:
            columns[name] = read_column(X, name, kinds.get(name), seen)
        except (TypeError, ValueError):
            findings.append(_of_another_kind(name, profile.columns[name].kind, "other cells"))
            continue
        tests = list(_column_tests(name, columns[name], profile, seen))
        tested.append(("column", name, tests))
    unlike = find_unlike(columns, profile.columns, seen, profile.n_rows, numbers)
    if profile.columns:
        tested.append(("row", UNLIKE, list(_unlike_tests(profile, columns, seen, unlike))))
    notes, codes = [], None
    if y is not None:
        codes, unknown, labelled = _codes(y, known_labels(model))
        check_consistent_length(X, codes)
        tested += _label_tests(profile, model, codes[labelled], unknown)
    ranked = None
    if findings:
        notes.append(
            "nothing was ranked, because the model needs columns that are missing or hold "
            "something else"
        )
    elif not profile.label_counts:
        notes.append(
            "labels and rankings were not compared, because the model was updated; columns were "
            "compared with those of its first fit"
        )
    elif profile.ranked is None:
        notes.append("there were too few training rows to say how the model ranks new ones")
    else:
        try:
            ranked = rank_rows(model, X, codes)
        except ValueError as error:
            notes.append(f"nothing was ranked: {str(error).splitlines()[0]}")
    if ranked is not None and profile.ranked is not None:
        tested += _ranking_tests(profile.ranked, ranked, known_labels(model))
    described = [name for name in names if name not in profile.columns]
    if described and profile.columns:
        listed = ", ".join(described[:5]) + (", ..." if len(described) > 5 else "")
        notes.append(f"not compared, because the profile does not know them: {listed}")
    made = _settle(tested, float(level))
    findings += made
    told_from = smallest_told(profile.n_rows, n_rows, level / max(len(made), 1))
    if told_from > FEW_ROWS and not any(finding.alarm for finding in findings):
        notes.append(
            f"{n_rows} new row{'s are' if n_rows > 1 else ' is'} few: a change of less than about "
            f"{told_from:.0%} of the rows cannot be seen"
        )
    # Alarms first, the largest change first; of the others, those closest to an alarm.
    findings.sort(key=lambda f: (not f.alarm, -f.change if f.alarm else f.p_value))
    return Check(
        n_rows=n_rows,
        n_training_rows=profile.n_rows,
        level=float(level),
        findings=tuple(findings),
        unseen_values=_unseen_values(columns, profile, seen),
        unusual_rows=unlike.shown,
        n_unlike=int(unlike.rows.sum()),
        figures=_figures(findings, columns, profile),
        notes=tuple(notes),
    )


def _settle(tested: list[tuple[str, str, list[Test]]], level: float) -> list[Finding]:
    """Turn tests into findings, with p-values that allow for all of them."""
    chosen, values = [], []
    for part, name, tests in tested:
        if not tests:
            continue
        # Among changes that are no trifles the surest one, or else the surest one of all; of those
        # that are beyond doubt, the largest one.
        large = [test for test in tests if test.change >= test.smallest] or tests
        test = min(large, key=lambda one: (max(one.p_value, BEYOND_DOUBT), -one.change))
        chosen.append((part, name, test))
        values.append(min(1.0, len(tests) * test.p_value))
    made = []
    for (part, name, test), value in zip(chosen, holm(np.array(values)), strict=True):
        alarm = bool(value < level and test.change >= test.smallest)
        told = test.told if alarm else UNCHANGED
        p_value = max(float(value), LEAST)  # 0 is for what needs no test
        shown = test.training, test.new, test.change
        made.append(Finding(part, name, told, *shown, p_value, alarm))
    return made


# Columns


def _lost_columns(
    profile: Profile, names: list[str], unreadable: Mapping[str, str]
) -> Iterator[Finding]:
    there = set(names)
    for name, column in profile.columns.items():
        if name in unreadable:
            yield _of_another_kind(name, column.kind, unreadable[name])
        elif name not in there:
            yield Finding("column", name, "missing", column.kind, "no such column", 1.0, 0.0, True)


def _of_another_kind(name: str, kind: str, what: str) -> Finding:
    return Finding("column", name, "of another kind", kind, what, 1.0, 0.0, True)


def _column_tests(name: str, column: Column, profile: Profile, seen: Seen) -> Iterator[Test]:
    known = profile.columns[name]
    n_rows = len(column.missing)
    old, new = (known.missing, profile.n_rows), (int(column.missing.sum()), n_rows)
    if old[0] or new[0]:
        change = abs(new[0] / new[1] - old[0] / old[1])
        more = "more" if new[0] / new[1] > old[0] / old[1] else "fewer"
        lacking = "empty" if column.kind == "text" else "missing"
        p_value = same_share(old, new)
        shares = [f"{share:.1%}" for share in (old[0] / old[1], new[0] / new[1])]
        yield Test(p_value, change, SMALLEST_CHANGE, f"{more} {lacking}", *shares)
    for measure, bins in known.measures.items():
        if measure in column.measures:
            yield _measure_test(measure, bins, column.measures[measure], column.kind)
    if column.values is not None and known.values is not None:
        is_new = never_seen(name, column, known, seen)
        there, new = column.values[~column.missing].tolist(), column.values[is_new].tolist()
        yield from _value_tests(known.values, Counter(there), Counter(new))


def _measure_test(measure: str, bins: Bins, numbers: NDArray[np.float64], kind: str) -> Test:
    old, new = bins.compared_with(numbers)
    if old.sum() == 0 or new.sum() == 0:
        return Test(1.0, 0.0, SMALLEST_CHANGE, "as before", "", "")
    change, p_value = same_order(old, new)
    if bins.single:  # the distance of few values would be too careful
        change, p_value = total_variation(old, new), same_shares(old, new)
    known = numbers[~np.isnan(numbers)]
    # Shares of words are mostly 0, so their mean tells more than their median.
    if measure == "unknown":
        shown = [f"{mean:.0%}" for mean in (bins.mean, float(known.mean()))]
    else:
        centres = bins.quantile(0.5), float(np.quantile(known, 0.5, method="inverted_cdf"))
        shown = [_CENTRES[measure].format(written(centre, kind)) for centre in centres]
    apart = np.cumsum(old) / old.sum() - np.cumsum(new) / new.sum()
    higher = float(apart[np.argmax(np.abs(apart))]) > 0
    return Test(p_value, change, SMALLEST_CHANGE, _TOLD[measure][higher], *shown)


_CENTRES = {
    "value": "median {}",
    "words": "{} words",
    "length": "length {}",
    "cosine": "cosine {}",
}
_TOLD = {
    "value": ("lower", "higher"),
    "words": ("shorter texts", "longer texts"),
    "unknown": ("fewer unknown words", "more unknown words"),
    "length": ("shorter", "longer"),
    "cosine": ("another direction", "nearer to the mean"),
}


def _value_tests(known: Values, counter: Counter[str], found: Counter[str]) -> Iterator[Test]:
    """Test categories: those of new rows, and among them those that were never seen."""
    n_old, n_new = sum(known.counts) + known.others, counter.total()
    if n_old == 0 or n_new == 0:
        return
    if found:
        rows = np.array(list(found.values()))
        yield Test(
            nothing_new(rows, known.n_single, known.n_values, n_old, n_new),
            max(rows.sum() / n_new - known.n_single / n_old, 0.0),
            SMALLEST_SHARE,
            f"never seen: {', '.join(quoted(value) for value, _ in found.most_common(3))}",
            "0.0%",
            f"{rows.sum() / n_new:.1%}",
        )
    names = known.names
    mine = [counter[value] for value in names]
    old = np.array([*known.counts, known.others]) / n_old
    new = np.array([*mine, n_new - sum(mine)]) / n_new
    most = int(np.argmax(np.abs(old - new)))
    called = quoted(names[most]) if most < len(names) else "other values"
    told = f"{'more' if new[most] > old[most] else 'less'} {called}"
    shares = [f"{share[most]:.1%}" for share in (old, new)]
    if most == len(names) and found.total() / n_new > (new[most] - old[most]) / 2:
        told = f"never seen: {', '.join(quoted(value) for value, _ in found.most_common(3))}"
        shares = ["0.0%", f"{found.total() / n_new:.1%}"]
    buckets = np.array(known.buckets), count_buckets(counter, known.salt)
    yield Test(same_shares(*buckets), total_variation(*buckets), SMALLEST_CHANGE, told, *shares)


def _unseen_values(
    columns: Mapping[str, Column], profile: Profile, seen: Seen
) -> dict[str, dict[str, int]]:
    found = {}
    for name, column in columns.items():
        is_new = never_seen(name, column, profile.columns[name], seen)
        if column.values is not None and is_new.any():
            found[name] = dict(Counter(column.values[is_new].tolist()).most_common(MOST_UNSEEN))
    return found


def _unlike_tests(
    profile: Profile, columns: Mapping[str, Column], seen: Seen, unlike: Unlike
) -> Iterator[Test]:
    """Test how many rows are unlike training.

    New values may come in many rows each, which is no matter of chance for single rows. So a value
    counts once, and on its own if it has many rows.
    """
    before, now = profile.n_unlike / profile.n_rows, float(unlike.rows.mean())
    told = "more of them" if now > before else "as before"
    about = (max(now - before, 0.0), SMALLEST_SHARE, told, f"{before:.1%}", f"{now:.1%}")
    old, new = (profile.n_unlike, profile.n_rows), (unlike.n_apart, len(unlike.rows))
    yield Test(same_share(old, new, "greater"), *about)
    for name, column in columns.items():
        known = profile.columns[name]
        if column.values is not None and known.values is not None:
            found = Counter(column.values[never_seen(name, column, known, seen)].tolist())
            rows = np.array(list(found.values()), dtype=np.int64)
            single, different = known.values.n_single, known.values.n_values
            yield Test(nothing_new(rows, single, different, old[1], new[1]), *about)


# Labels


def _codes(y: Any, classes: NDArray[Any]) -> tuple[NDArray[np.intp], list[str], NDArray[np.bool_]]:
    """Return labels as codes, −1 for others, with the unknown ones and where there are labels."""
    labels = y.tolist() if hasattr(y, "tolist") else list(y)
    there = [not (label is None or label == "" or label != label) for label in labels]
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    codes = [code_of.get(label, -1) if t else -1 for label, t in zip(labels, there, strict=True)]
    unknown = [
        str(label) for label, code, t in zip(labels, codes, there, strict=True) if t and code < 0
    ]
    return np.array(codes, dtype=np.intp), unknown, np.array(there, dtype=bool)


def _label_tests(
    profile: Profile, model: Any, codes: NDArray[np.intp], unknown: list[str]
) -> list[tuple[str, str, list[Test]]]:
    """Test labels; `codes` are those of all labelled rows."""
    if len(codes) == 0:
        return []
    classes = known_labels(model)
    n_kept = len(profile.label_counts)
    counts = np.bincount(codes[codes >= 0], minlength=len(classes))
    old = np.array([*profile.label_counts, profile.other_labels])
    new = np.array([*counts[:n_kept], counts[n_kept:].sum()])
    tests: list[tuple[str, str, list[Test]]] = []
    names = [*map(str, classes[:n_kept].tolist()), "other labels"]
    found = Counter(unknown)
    rows = np.array(list(found.values()), dtype=np.int64)
    if old.sum():
        test = _shares_test(old, new, names)
        # Labels that only new rows have are shares too: all of these, and rare ones, are joined.
        every = np.append(old, 0 * rows), np.append(new, rows)
        test = test._replace(p_value=same_shares(*every), change=total_variation(*every))
        expected = old[:-1] / old.sum()
        gone = (new[:-1] == 0) & ((1 - expected) ** int(new.sum()) < NEVER)
        if gone.any():
            missed = np.flatnonzero(gone)[np.argsort(-expected[gone], kind="stable")]
            told = ", ".join(quoted(names[place]) for place in missed[:LABELS_TOLD].tolist())
            more = f" and {len(missed) - LABELS_TOLD} more" if len(missed) > LABELS_TOLD else ""
            test = test._replace(told=f"{test.told}; vanished: {told}{more}")
        tests.append(("label", LABEL_SHARES, [test]))
    n_old = int(old.sum()) or profile.n_rows  # of a model that was updated, there were as many
    if unknown:
        common = found.most_common(LABELS_TOLD)
        test = Test(
            nothing_new(rows, profile.single_labels, len(classes), n_old, len(codes)),
            len(unknown) / len(codes),
            0.0,
            f"not known to the model: {', '.join(quoted(label) for label, _ in common)}",
            "0.0%",
            f"{len(unknown) / len(codes):.1%}",
        )
        tests.append(("label", NEW_LABELS, [test]))
    return tests


def _shares_test(old: NDArray[np.int64], new: NDArray[np.int64], names: list[str]) -> Test:
    """Compare how often labels occur, or come first."""
    before, now = old / max(old.sum(), 1), new / max(new.sum(), 1)
    most = np.argsort(-np.abs(now - before), kind="stable")[:LABELS_TOLD].tolist()
    most = [place for place in most if now[place] != before[place]] or most[:1]
    told = ", ".join(
        f"{'more' if now[place] > before[place] else 'less'} {quoted(names[place])}"
        for place in most
    )
    first = most[0]
    return Test(
        same_shares(old, new),
        total_variation(old, new),
        SMALLEST_CHANGE,
        told,
        f"{before[first]:.1%}",
        f"{now[first]:.1%}",
    )


# Rankings


def _ranking_tests(
    before: Ranked, now: Ranked, classes: NDArray[Any]
) -> list[tuple[str, str, list[Test]]]:
    names = [*map(str, classes[: len(before.first)].tolist()), "other labels"]
    old = np.array([*before.first, before.n_rows - sum(before.first)])
    new = np.array([*now.first, now.n_rows - sum(now.first)])
    first = _shares_test(old, new, names)._replace(
        p_value=same_shares(old, new, before.first_spread)
    )
    tests = [("prediction", FIRST_PLACES, [first])]
    if len(classes) > 2:
        tests.append(("prediction", MEAN_PLACES, [_places_test(before, now, names, len(classes))]))
    if before.n_labelled and now.n_labelled:
        tests.append(("prediction", ACCURACY, list(_accuracy_tests(before, now, len(classes)))))
    if before.lengths is not None and now.lengths is not None:
        tests.append(("list", LENGTHS, [_lengths_test(before.lengths, now.lengths)]))
    return tests


def _places_test(before: Ranked, now: Ranked, names: list[str], n_classes: int) -> Test:
    old, new = np.array(before.mean_places), np.array(now.mean_places)
    p_values = same_mean(
        (old, np.array(before.deviations), before.n_rows),
        (new, np.array(now.deviations), now.n_rows),
        before.place_spread,
    )
    moved = np.abs(new - old) / (n_classes - 1)
    large = moved >= SMALLEST_CHANGE
    place = int(np.argmin(np.where(large | ~large.any(), p_values, 2.0)))
    shown = [f"place {mean[place]:.2f}" for mean in (old, new)]
    told = f"{quoted(names[place])} further {'behind' if new[place] > old[place] else 'ahead'}"
    p_value = smallest_of(*[float(p_values[place])] * len(p_values))
    return Test(p_value, float(moved[place]), SMALLEST_CHANGE, told, *shown)


def _accuracy_tests(before: Ranked, now: Ranked, n_classes: int) -> Iterator[Test]:
    hits = [("first", before.n_top_1, now.n_top_1)]
    if n_classes > LIST:
        hits.append((f"among the first {LIST}", before.n_top_5, now.n_top_5))
    for where, old, new in hits:
        shares = old / before.n_labelled, new / now.n_labelled
        often = "less often" if shares[1] < shares[0] else "as often"
        yield Test(
            same_share((old, before.n_labelled), (new, now.n_labelled), "less"),
            max(shares[0] - shares[1], 0.0),
            SMALLEST_CHANGE,
            f"right label {often} {where}",
            f"{shares[0]:.1%}",
            f"{shares[1]:.1%}",
        )


def _lengths_test(before: tuple[int, ...], now: tuple[int, ...]) -> Test:
    size = max(len(before), len(now))
    old, new = (np.array([*lengths, *[0] * (size - len(lengths))]) for lengths in (before, now))
    means = [float(lengths @ np.arange(size) / lengths.sum()) for lengths in (old, new)]
    told = "longer lists" if means[1] > means[0] else "shorter lists"
    shown = [f"{mean:.2f} labels" for mean in means]
    return Test(same_shares(old, new), total_variation(old, new), SMALLEST_CHANGE, told, *shown)


def _figures(
    findings: list[Finding], columns: Mapping[str, Column], profile: Profile
) -> tuple[Figure, ...]:
    made = []
    for finding in findings:
        if finding.alarm and finding.part == "column" and finding.name in columns:
            figure = figure_of(
                finding.name, columns[finding.name], profile.columns[finding.name], finding.told
            )
            if figure is not None:
                made.append(replace(figure, name=finding.name))
    return tuple(made[:MOST_FIGURES])
