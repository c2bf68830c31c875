"""``duelrank explain``: the tournament of one row."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click

from duelrank.cli._files import check_inputs
from duelrank.cli._fit import listed
from duelrank.cli._labels import known_code, known_codes
from duelrank.cli._model import Model, load_model
from duelrank.cli._options import reading_options, trust_option
from duelrank.cli._shortlists import ROUNDING, ListMaker, list_maker, percent
from duelrank.cli._terminal import brief, note, plain, show, table

if TYPE_CHECKING:
    from duelrank.explanations import DuelExplanation
    from duelrank.preprocessing import Piece
    from duelrank.tournaments import Tournaments

RIVALS = 2  # labels behind the first against which it is explained
REASONS = 5  # on either side
SMALL_SHARE = 0.1  # of the largest contribution, below which a word is not marked
LEAST_MARGIN = 0.5  # as a share of the largest contribution, from which on shares are told
LONGEST_TEXT = 600  # characters of a text that is shown
LONGEST_LABEL = 40  # characters that a label may take in the table before it is cut
MOST_OPPONENTS, MOST_CYCLES, MOST_UPSETS, LONGEST_LOOP = 3, 3, 10, 6


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.argument("data", metavar="DATA")
@click.option("--row", type=click.IntRange(0), required=True, metavar="I", help="Counted from 0.")
@click.option(
    "--top", type=click.IntRange(1), default=10, show_default=True, help="Labels to show."
)
@click.option(
    "--rival",
    metavar="LABEL",
    help="Explain why the first label is ahead of this one.  [default: the next two, and the "
    "label of the row]",
)
@trust_option
@reading_options
def explain(
    model_file: str,
    data: str,
    row: int,
    top: int,
    rival: str | None,
    trust: tuple[str, ...],
    delimiter: str | None,
    encoding: str,
) -> None:
    """Show the tournament of one row of the table DATA.

    It tells who beats whom and how surely, where the duels contradict each other, and how that was
    resolved. Where duels are linear, it also tells which words and which columns spoke for the
    first label, and which for its closest rivals; and for the label of the row, if it is not the
    first. If the model makes lists, it tells which labels are in, and why the next one is not.
    """
    check_inputs(model_file, data)
    model = load_model(model_file, trust)
    asked = None if rival is None else _known_label(model, rival)
    X, label = _read_row(model, data, row, delimiter, encoding)
    from duelrank._sklearn import unwrap

    ranker, point = unwrap(model.model, X)
    tournament = ranker.tournament(point)
    rivals = _rivals(tournament, label, asked)
    proba = ranker.predict_proba(point)[0] if hasattr(ranker, "predict_proba") else None
    kind = "first label" if model.description.learned_from_lists else "label"
    show(f"Row {row} of {brief(data)}{_truth(tournament, label, kind)}")
    show("")
    show(_ranking_table(tournament, proba, top))
    lists = list_maker(model)
    if lists is not None:
        show("")
        show(_list_story(lists, X, tournament, label))
    for line in _story(tournament, ranker.aggregation, ranker.ties):
        show(line)
    _show_why(model, X, rivals, is_asked=asked is not None)


def _known_label(model: Model, written: str) -> int:
    """Return the code of a label."""
    from duelrank.tables import TableError

    code = known_code(written, model.model.classes_)
    if code is None:
        names = [plain(label) for label in model.model.classes_.tolist()]
        close = get_close_matches(written, names, 1)
        advice = f"did you mean {close[0]!r}?" if close else f"it knows {listed(names)}."
        raise TableError(f"--rival {plain(written)!r} is no label that the model knows; {advice}")
    return code


def _rivals(tournament: Tournaments, label: tuple[int, str] | None, asked: int | None) -> list[int]:
    """Return the labels against which the first one is explained."""
    order = _codes(tournament)
    if asked is not None:
        if asked == order[0]:
            from duelrank.tables import TableError

            name = plain(tournament.classes[asked])
            raise TableError(f"--rival {name!r} is the first label; name another one.")
        return [asked]
    rivals = order[1 : 1 + RIVALS]
    own = -1 if label is None else label[0]
    return rivals if own in (-1, order[0], *rivals) else [*rivals, own]


def _show_why(model: Model, X: Any, rivals: list[int], is_asked: bool) -> None:
    from duelrank.explanations import can_explain, explain_duel

    if can_explain(model.model):
        for rival in rivals:
            _show_reasons(explain_duel(model.model, X, rival=model.model.classes_[rival]))
    elif is_asked:
        note("--rival explains linear duels only, and those of this model are not.")


def _read_row(
    model: Model, data: str, row: int, delimiter: str | None, encoding: str
) -> tuple[Any, tuple[int, str] | None]:
    """Return the features of one row; and its label, if it has one, as a code and as written."""
    from duelrank.preprocessing import first_labels
    from duelrank.tables import TableError, is_labelled, open_table

    with open_table(data, delimiter=delimiter, encoding=encoding) as source:
        target = model.description.target
        others = [target] if target in source.columns else []
        before = 0
        for points in model.points(source, 10_000, others):
            if row < before + len(points):
                here = row - before
                X = points.X
                X = X[here : here + 1] if hasattr(X, "dtype") else X.slice(here, 1)
                if target is None or not others:
                    return X, None
                cell = first_labels(points.kept[target].slice(here, 1), target)
                if not is_labelled(cell).all():
                    return X, None
                codes, (written,) = known_codes(target, cell, model.model.classes_)
                return X, (int(codes[0]), written)
            before += len(points)
    raise TableError(f"{data} has {before} rows, so there is no row {row} (counted from 0).")


def _truth(tournament: Tournaments, label: tuple[int, str] | None, kind: str) -> str:
    if label is None:
        return ""
    code, written = label
    where = "not known to the model" if code < 0 else f"place {_codes(tournament).index(code) + 1}"
    return f"; its {kind} is {brief(written)} ({where})"


def _ranking_table(tournament: Tournaments, proba: Any, top: int) -> Any:
    names = [brief(label) for label in tournament.classes.tolist()]
    order = _codes(tournament)
    headings = [("place", "right"), ("label", "left"), ("chance", "right"), ("won", "right")]
    if proba is None:
        del headings[2]
    made = table([*headings, ("expected", "right"), ("lost to", "left")])
    expected = tournament.probabilities[0].sum(axis=1) - 0.5
    for place, code in enumerate(order[:top], start=1):
        winners = [w for w in order if tournament.beats[0, w, code]]
        chances = [] if proba is None else [f"{proba[code]:.1%}"]
        made.add_row(
            str(place),
            names[code],
            *chances,
            str(len(names) - 1 - len(winners)),
            f"{expected[code]:.2f}",
            _opponents(tournament, winners, code, names),
        )
    if top < len(order):
        made.add_row("…", f"{len(order) - top} more")
    # Labels are not cut as long as there is room; the last column has lines enough.
    made.columns[1].min_width = min(LONGEST_LABEL, max(len(names[code]) for code in order[:top]))
    return made


def _opponents(tournament: Tournaments, winners: list[int], code: int, names: list[str]) -> str:
    certainty = tournament.probabilities[0]
    shown = [f"{names[w]} ({certainty[w, code]:.0%})" for w in winners[:MOST_OPPONENTS]]
    more = [f"{len(winners) - MOST_OPPONENTS} more"] if len(winners) > MOST_OPPONENTS else []
    return ", ".join(shown + more) or "nobody"


def _story(tournament: Tournaments, aggregation: str, ties: str) -> list[str]:
    """Tell the cycles, the upsets and how the ranking was made."""
    from duelrank.report import RANKED_BY, TIES_BY

    names = [brief(label) for label in tournament.classes.tolist()]
    order = _codes(tournament)
    lines = [""]
    numbers = tournament.components[0]
    components = [
        [code for code in order if numbers[code] == component]
        for component in sorted(set(numbers.tolist()))
    ]
    cycles = [members for members in components if len(members) > 1]
    for members in cycles[:MOST_CYCLES]:
        lines += _loop(tournament, members, names)
    if len(cycles) > MOST_CYCLES:
        lines.append(f"And {len(cycles) - MOST_CYCLES} more among labels further down.")
    upsets = [
        (winner, loser)
        for place, loser in enumerate(order)
        for winner in order[place + 1 :]
        if tournament.beats[0, winner, loser]
    ]
    if not upsets:
        return [*lines, "No cycle: every duel agrees with the ranking."]
    lines.append(f"{RANKED_BY[aggregation]} {TIES_BY[ties]}")
    lines.append(f"That overrules {len(upsets)} duel{'s' * (len(upsets) > 1)}:")
    certainty = tournament.probabilities[0]
    for winner, loser in upsets[:MOST_UPSETS]:
        lines.append(
            f"  {names[winner]} beats {names[loser]} ({certainty[winner, loser]:.0%}) "
            "but is ranked below"
        )
    if len(upsets) > MOST_UPSETS:
        lines.append(f"  and {len(upsets) - MOST_UPSETS} more")
    if not tournament.exact[0]:
        lines.append("The fewest contradictions were searched for, but not proved to be fewest.")
    return lines


def _list_story(
    lists: ListMaker, X: Any, tournament: Tournaments, label: tuple[int, str] | None
) -> str:
    """Tell which labels are in the list, and why the next one and the label of the row are not."""
    ranked = lists.shortlister.ranked_lists(lists.points(X))
    is_in, values = ranked.masks[0, 0], ranked.p_values[0]
    names = [brief(name) for name in tournament.classes.tolist()]
    order = _codes(tournament)
    inside = [names[code] for code in order if is_in[code]]
    outside = [code for code in order if not is_in[code]]
    coverage = percent(lists.coverage)
    if not inside:
        return f"No label is in the list at coverage {coverage}."
    story = [f"In the list at coverage {coverage}: {', '.join(inside)} (of {len(names)})."]
    if not outside:
        return story[0]
    least = 1 - lists.coverage
    first = outside[0]
    if values[first] > least + ROUNDING:  # it would be in, but lists are cut
        story.append(f"Lists have {lists.longest} labels at most, so {names[first]} is not in.")
    else:
        judged = "" if lists.shortlister.by == "all" else " by which it is judged"
        story.append(
            f"{names[first]} is the first that is not in: {_small_percent(values[first])} of the "
            f"calibration rows{judged} had a right label at least as odd, and more than "
            f"{percent(least)} are needed."
        )
    own = -1 if label is None else label[0]
    if own in outside[1:]:
        story.append(f"The label of the row, {names[own]}, has {_small_percent(values[own])}.")
    return " ".join(story)


def _small_percent(share: float) -> str:
    return f"{100 * share:.2g}%"


def _loop(tournament: Tournaments, members: list[int], names: list[str]) -> list[str]:
    """Name a cycle, and three of its labels that beat each other in a circle."""
    beats, certainty = tournament.beats[0], tournament.probabilities[0]
    a, b, c = next(
        (a, b, c)
        for a in members
        for b in members
        for c in members
        if beats[a, b] and beats[b, c] and beats[c, a]
    )
    circle = ", ".join(
        f"{names[x]} beats {names[y]} ({certainty[x, y]:.0%})" for x, y in ((a, b), (b, c), (c, a))
    )
    if len(members) == 3:
        return [f"A cycle: {circle}."]
    listed = ", ".join(names[code] for code in members[:LONGEST_LOOP])
    more = f" and {len(members) - LONGEST_LOOP} more" if len(members) > LONGEST_LOOP else ""
    return [f"A cycle of {len(members)} labels: {listed}{more}.", f"In it, {circle}."]


def _show_reasons(reasons: DuelExplanation) -> None:
    """Show the texts with the words marked that spoke, and what else did."""
    label, rival = brief(reasons.label), brief(reasons.rival)
    show("")
    show(f"Why {label} before {rival}? The margin of their duel is {reasons.margin:+.2f}.")
    for column, pieces in reasons.texts.items():
        show(_marked(brief(column), pieces))
    made = table([(f"for {label}", "left"), ("", "right"), ("", "right"),
                  (f"for {rival}", "left"), ("", "right"), ("", "right")])  # fmt: skip
    several = len(reasons.texts) > 1  # then a word is said with its column
    named = [(_named(item, several), item.contribution) for item in reasons.items]
    named.append(("(before anything is known)", reasons.baseline))
    named.sort(key=lambda reason: -abs(reason[1]))
    sides = [[reason for reason in named if reason[1] * sign > 0] for sign in (1, -1)]
    cut = [_first_reasons(side) for side in sides]
    # Where reasons cancel each other, shares of what is left tell nothing.
    tells = abs(reasons.margin) >= LEAST_MARGIN * max(abs(value) for _, value in named)
    for number in range(max(map(len, cut))):
        cells: list[str] = []
        for side in cut:
            what, value = side[number] if number < len(side) else ("", None)
            share = f"{reasons.share(value):.0%}" if value is not None and tells else ""
            share = "0%" if share == "-0%" else share
            cells += [what, "" if value is None else f"{value:+.2f}", share]
        made.add_row(*cells)
    show(made)


def _first_reasons(side: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the largest contributions of a side, and the sum of the others."""
    rest = side[REASONS:]
    if len(rest) < 2:
        return side
    return [*side[:REASONS], (f"{len(rest)} more", sum(value for _, value in rest))]


def _named(item: Any, with_column: bool) -> str:
    if item.is_word:
        return brief(f"{item.column}: {item.text}" if with_column else item.text)
    return brief(f"{item.column} = {item.text}" if item.text else item.column)


def _marked(column: str, pieces: list[Piece]) -> Any:
    """Return a text whose words have the colour of the label they spoke for.

    Without colours, words for the first label stand in [ ] and words for its rival in { }.
    """
    from rich.text import Text

    largest = max((abs(piece.value) for piece in pieces), default=0.0)
    text = Text(f"  {column}: ")
    for piece in pieces:
        if len(text) > LONGEST_TEXT:
            text.append("…")
            break
        word, space = plain(piece.text[:LONGEST_TEXT]), " " * piece.spaced
        if abs(piece.value) < SMALL_SHARE * largest or largest == 0:
            text.append(word + space)
        elif piece.value > 0:
            text.append(f"[{word}]", "bold green").append(space)
        else:
            text.append(f"{{{word}}}", "bold red").append(space)
    return text


def _codes(tournament: Tournaments) -> list[int]:
    from duelrank.rankings import order_from_scores

    codes: list[int] = order_from_scores(tournament.scores)[0].tolist()
    return codes
