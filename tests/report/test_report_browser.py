"""The report in a real browser: Chromium, without a screen.

Screenshots are left in ``output/report`` by `make test-slow`, for people to look at.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drifting import KINDS, rows
from duelrank import DuelRanker, predict_order
from duelrank.drift import Profile, compare
from duelrank.preprocessing import make_preprocessing
from duelrank.report import write_report
from duelrank.shortlists import Shortlister

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = pytest.mark.xdist_group("browser")  # one browser, and every report written once

PICTURES = Path(__file__).parents[2] / "output" / "report"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = [1280, 720, 360]
REPORTS = ["iris", "digits", "fifty", "hostile", "support", "lists", "drift"]
HOSTILE = [
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror='window.hacked = 1'>",
    "<!-- {{data}} \u2028",
    "\"><svg onload='window.hacked = 1'>",
    "an unbroken name of many letters: " + "w" * 80,
]

# Elements whose text is wider than they are, or that stick out of the window, but do not scroll.
CUT = """() => {
  const bad = [];
  const inline = ["INPUT", "SPAN", "BDI", "B", "A"];
  const told = (element) => element.outerHTML.slice(0, 90);
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.right < 0) continue;
    if (element.closest("svg, select, .skip, .scroll")) continue;
    if (box.right > innerWidth + 1 || box.left < -1) bad.push(`out: ${told(element)}`);
    if (inline.includes(element.tagName)) continue;
    if (getComputedStyle(element).display === "inline") continue;
    if (element.scrollWidth > element.clientWidth + 1) bad.push(`cut: ${told(element)}`);
  }
  return bad;
}"""

# In how many boxes each of some elements is drawn: as many as it has lines.
LINES = "(elements) => elements.map((e) => e.getClientRects().length)"

# Parts of a label between two underscores that do not stand on one line.
BROKEN = """() => {
  const bad = [];
  for (const label of document.querySelectorAll("bdi")) {
    for (const part of label.childNodes) {
      if (part.nodeType !== 3 || part.textContent.includes(" ")) continue;
      const range = document.createRange();
      range.selectNodeContents(part);
      const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (tops.size > 1) bad.push(part.textContent);
    }
  }
  return bad;
}"""

# Words of a figure that lie on each other, or outside of it.
OVERLAPS = """() => {
  const bad = [];
  for (const figure of document.querySelectorAll("svg.figure, svg.ring")) {
    const words = [...figure.querySelectorAll("text")].filter((text) => text.textContent);
    const frame = figure.getBoundingClientRect();
    const boxes = words.map((text) => text.getBoundingClientRect());
    boxes.forEach((a, i) => {
      if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.bottom > frame.bottom + 1)
        bad.push(`outside: ${words[i].textContent}`);
      boxes.slice(i + 1).forEach((b, j) => {
        const beside = a.left > b.right - 1 || b.left > a.right - 1;
        const above = a.top > b.bottom - 1 || b.top > a.bottom - 1;
        if (!beside && !above)
          bad.push(`${words[i].textContent} / ${words[i + 1 + j].textContent}`);
      });
    });
  }
  return bad;
}"""

# The least contrast between text and what is behind it, over all elements with text of their own.
CONTRAST = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const known = new Map();
  const light = (colour) => {
    if (!known.has(colour)) known.set(colour, luminance(colour));
    return known.get(colour);
  };
  const luminance = (colour) => {
    const [r, g, b] = numbers(colour).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const filled = (element) => numbers(getComputedStyle(element).backgroundColor)[3] !== 0;
  let worst = [21, ""];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || element.closest("svg, button:disabled, script")) continue;
    if (element.getBoundingClientRect().width === 0) continue;
    let behind = element;
    while (behind.parentElement && !filled(behind)) behind = behind.parentElement;
    const a = light(getComputedStyle(element).color);
    const b = light(getComputedStyle(behind).backgroundColor);
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst[0]) worst = [contrast, element.outerHTML.slice(0, 90)];
  }
  return worst;
}"""


class Case:
    """A model, its points and the report about them."""

    def __init__(self, path, model, X, y, **options):
        self.path, self.model, self.X, self.y = path, model, X, y
        self.order = predict_order(model, X).astype(str)
        write_report(model, X, y, path, **options)


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    iris = DuelRanker(random_state=0).fit(X[::2], y[::2])
    made = {"iris": Case(folder / "iris.html", iris, X[1::2], y[1::2], title="Irises")}
    X, y = load_digits(return_X_y=True)
    digits = make_pipeline(StandardScaler(), DuelRanker(random_state=0)).fit(X[::2], y[::2])
    made["digits"] = Case(folder / "digits.html", digits, X[1::2], y[1::2], title="Digits")

    rng = np.random.default_rng(0)
    words = np.array(["amber", "birch", "cedar", "delta", "ember", "fjord", "glade", "heath"])
    names = np.array([f"{' '.join(rng.choice(words, 5))}, department {k}" for k in range(50)])
    codes = rng.integers(50, size=1500)
    X = rng.normal(size=(50, 10))[codes] + rng.normal(size=(1500, 10))
    fifty = DuelRanker(random_state=0).fit(X[:1000], names[codes[:1000]])
    subjects = [f"ticket {row}, with a subject line that is not short" for row in range(500)]
    made["fifty"] = Case(
        folder / "fifty.html", fifty, X[1000:], names[codes[1000:]], title="Fifty", names=subjects
    )
    made["support"] = support(folder / "support.html", rng)
    made["lists"] = with_lists(folder / "lists.html", made["support"])
    made["drift"] = drifted(folder / "drift.html")
    codes = rng.integers(5, size=300)
    X = rng.normal(size=(5, 3))[codes] + rng.normal(size=(300, 3))
    labels = np.array(HOSTILE, dtype=object)[codes]
    hostile = DuelRanker(random_state=0).fit(X, labels)
    made["hostile"] = Case(
        folder / "hostile.html", hostile, X, labels, title=HOSTILE[1], names=labels
    )
    return made


def support(path, rng):
    """Report about 77 labels that are words with underscores between them, some easily confused."""
    things = ["card", "transfer", "exchange_rate", "cash_withdrawal", "verification", "statement"]
    events = ["not_recognised", "declined_by_merchant", "wrong_amount_received", "arrival_estimate"]
    where = ["", "_abroad", "_in_app", "_after_cancellation_request"]
    names = [f"{a}_{b}{c}" for a in things for b in events for c in where][:77]
    codes = np.concatenate([np.arange(77), rng.integers(77, size=1500)])
    centres = 1.2 * rng.normal(size=(77, 6))
    centres[1] = centres[0]  # nobody can tell these two apart
    X = centres[codes] + rng.normal(size=(len(codes), 6))
    y = np.array(names)[codes]
    model = DuelRanker(random_state=0).fit(X[::2], y[::2])
    return Case(path, model, X[1::2], y[1::2], title="support_tickets_of_the_last_month")


def drifted(path):
    """Report about rows unlike training, with names that are long or hostile."""
    names = {"amount": "amount_in_the_currency_of_the_account", "count": HOSTILE[0]}
    known, y = rows(300, np.random.default_rng(0))
    kinds = {names.get(name, name): kind for name, kind in KINDS.items()}
    model = make_pipeline(make_preprocessing(kinds), DuelRanker(random_state=0))
    model.fit(known.rename(columns=names), y)
    profile = Profile.of(model, known.rename(columns=names), y, kinds=kinds)
    new, y = rows(200, np.random.default_rng(1))
    town = new["town"].where(new.index > 50, HOSTILE[1]).where(new.index > 20, HOSTILE[4])
    new = new.assign(
        town=town,
        count=new["count"] + 3,
        amount=1000 * new["amount"],
        day=new["day"].where(new.index > 30),
        member=new.index > 20,
    ).rename(columns=names)
    check = compare(profile, model, new, y)
    return Case(path, model, new, y, title="Drift", check=check)


def with_lists(path, case):
    """Report about the same labels with lists, for two coverages."""
    frozen = FrozenEstimator(case.model)
    lists = Shortlister(frozen, coverage=[0.8, 0.95]).fit(case.X[::2], case.y[::2])
    return Case(path, lists, case.X[1::2], case.y[1::2], title="Lists")


@pytest.fixture
def visit(browser, cases):
    """Open a report; afterwards nothing may have gone wrong, nor anything have been asked for."""
    contexts, complaints, requests = [], [], []

    def opened(name, width=1280, scheme="light", anchor="", **options):
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=scheme, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(cases[name].path.as_uri() + anchor)
        requests.remove(cases[name].path.as_uri())
        return page

    yield opened
    assert complaints == []
    assert requests == []
    for context in contexts:
        context.close()


def shown_order(page):
    """Return the ranking that the page shows, all places of it."""
    top = page.locator(".ranking tbody th bdi").all_text_contents()
    return top + page.locator(".behind li bdi").all_text_contents()


def unfold(page, is_open):
    page.evaluate(
        "(open) => document.querySelectorAll('details').forEach((d) => { d.open = open; })", is_open
    )


def listed_rows(page):
    return page.locator("#list li .name bdi").all_text_contents()


def by_upsets(page, width):
    """Make the window as wide as asked, and show the point with the most upsets."""
    page.set_viewport_size({"width": width, "height": 800})
    page.select_option("#sort", "upsets")


@pytest.mark.parametrize("name", REPORTS)
def test_nothing_is_cut_overlaps_or_is_faint(visit, name):
    page = visit(name)
    for width in WIDTHS:
        by_upsets(page, width)
        unfold(page, True)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(CUT) == [], width
        assert page.evaluate(OVERLAPS) == [], width
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            contrast, where = page.evaluate(CONTRAST)
            assert contrast >= 4.5, (where, width, scheme)


@pytest.mark.slow
@pytest.mark.parametrize("name", REPORTS)
def test_pictures_for_people(visit, name):
    page = visit(name)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        by_upsets(page, width)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)


def test_labels_break_behind_underscores_only(visit):
    page = visit("support")
    unfold(page, True)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert max(page.locator("#pairs bdi").evaluate_all(LINES)) > (width < 1280)
        assert page.evaluate(BROKEN) == [], width


def test_a_matrix_of_many_labels_scrolls_inside_itself(visit):
    page = visit("support", 390)
    box = page.locator("#pairs .scroll")
    assert not box.is_visible()
    page.locator("#pairs summary", has_text="All 77 labels").click()
    assert box.bounding_box()["width"] <= 390
    assert box.evaluate("(e) => e.scrollWidth") > 2_000
    box.evaluate("(e) => { e.scrollLeft = 1000; e.scrollTop = 1000; }")
    left = box.bounding_box()["x"]
    for name in box.locator("tbody th").all()[-3:]:
        assert name.bounding_box()["x"] == pytest.approx(left, abs=2)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_bars_are_as_long_as_they_say(visit):
    page = visit("support", 390)
    rows = page.locator("#pairs table").first.locator("tbody tr").all()
    assert len(rows) == 10
    for row in rows:
        said = float(row.locator("td").nth(1).text_content().removesuffix("%"))
        bar, track = (row.locator(part).bounding_box()["width"] for part in (".part", ".rest"))
        assert 100 * bar / track == pytest.approx(said, abs=0.6)


def test_dark_and_light_are_different(visit):
    background = "getComputedStyle(document.body).backgroundColor"
    light, dark = (
        visit("iris", scheme=scheme).evaluate(background) for scheme in ("light", "dark")
    )
    assert light == "rgb(255, 255, 255)"
    assert dark != light


@pytest.mark.parametrize("name", ["iris", "digits", "fifty"])
def test_picking_a_point_shows_its_ranking(visit, cases, name):
    page, case = visit(name), cases[name]
    assert shown_order(page) == case.order[0].tolist()
    for position in (3, 7):
        page.locator("#list li").nth(position).click()
        assert shown_order(page) == case.order[position].tolist()
        assert page.locator("#list li[aria-selected=true]").count() == 1
        assert page.url.endswith(f"#row={position}")
        assert str(case.y[position]) in page.locator("#point > p").first.text_content()


def test_probabilities_and_tournament_are_those_of_the_library(visit, cases):
    case, row = cases["digits"], 5
    page = visit("digits", anchor=f"#row={row}")
    order = case.order[row].astype(int)
    shares = case.model.predict_proba(case.X[row : row + 1])[0, order]
    shown = page.locator(".ranking tbody td.number:nth-child(3)").all_text_contents()
    assert shown == [f"{share:.1%}" for share in shares]
    scaled = case.model[:-1].transform(case.X[row : row + 1])
    tournament = case.model[-1].tournament(scaled)
    won = page.locator(".ranking tbody td:last-child").all_text_contents()
    assert won == [str(9 - tournament.losses[0, code]) for code in order]
    cells = page.locator("#point .matrix tbody td").all_text_contents()
    probabilities = 100 * tournament.probabilities[0][np.ix_(order, order)]
    expected = [f"{p:.0f}" for p in probabilities.ravel()]
    expected[:: len(order) + 1] = ["·"] * len(order)
    assert cells == expected


def test_cycles_are_told_and_true(visit, cases):
    case = cases["digits"]
    page = visit("digits")
    page.select_option("#sort", "cycle")
    row = int(listed_rows(page)[0].removeprefix("Row "))
    tournament = case.model[-1].tournament(case.model[:-1].transform(case.X[row : row + 1]))
    sizes = [len(members) for members in tournament.cycles[0]]
    assert f"cycle of {max(sizes)}" in page.locator("#list li").first.text_content()
    assert page.locator(".badge.cycle").count() == sum(sizes)
    told = page.locator("#point p", has_text="form a cycle").first.text_content()
    victories = told.split("for example, ")[1].rstrip(".").split(", ")
    assert len(victories) == 3
    for victory in victories:
        winner, loser = int(victory[0]), int(victory.split(" beats ")[1][0])
        assert tournament.beats[0, winner, loser]
        assert f"({tournament.probabilities[0, winner, loser]:.0%})" in victory
    upsets = page.locator(".matrix td.upset").count() // 2
    assert f"goes against {upsets} duels of 45" in page.locator("#point").text_content()


def test_labels_of_a_list_are_marked(visit, cases):
    case = cases["lists"]
    mask = case.model.shortlist_mask(case.X)[0]
    codes = np.searchsorted(case.model.classes_, case.y)
    holds = mask[np.arange(len(codes)), codes]
    page = visit("lists")
    page.select_option("#sort", "length")
    row = int(listed_rows(page)[0].split()[-1])
    assert mask[row].sum() == mask.sum(axis=1).max()
    assert page.locator("#point .badge.listed").count() == mask[row].sum()
    assert f"Its list has {mask[row].sum()} labels" in page.locator("#point").inner_text()
    page.select_option("#filter", "unlisted")
    assert page.locator("#found").inner_text() == f"{(~holds).sum()} of {len(holds)} points"
    assert "and its label is not among them." in page.locator("#point").inner_text()
    page.select_option("#filter", "all")
    page.select_option("#sort", "row")
    page.locator("#search").fill(f"row {int(np.argmax(holds))}")
    assert "and its label is among them." in page.locator("#point").inner_text()


def test_search(visit, cases):
    page, case = visit("iris"), cases["iris"]
    page.fill("#search", "VERSI")
    hits = [i for i in range(75) if "versicolor" in (case.order[i, 0], case.y[i])]
    assert page.locator("#found").text_content() == f"{len(hits)} of 75 points"
    assert listed_rows(page) == [f"Row {i}" for i in hits[:10]]
    assert shown_order(page) == case.order[hits[0]].tolist()
    page.fill("#search", "42")
    assert listed_rows(page) == ["Row 42"]
    page.fill("#search", "no such thing")
    assert page.locator("#list").text_content() == "No point matches."
    page.locator("#list").press("ArrowDown")
    page.fill("#search", "")
    assert page.locator("#found").text_content() == "75 points"
    page = visit("fifty")
    page.fill("#search", "ticket 499")
    assert shown_order(page) == cases["fifty"].order[499].tolist()


def test_filter_and_sort(visit, cases):
    page, case = visit("digits"), cases["digits"]
    place = np.argmax(case.order == case.y[:, np.newaxis].astype(str), axis=1) + 1
    page.select_option("#filter", "wrong")
    assert page.locator("#found").text_content() == f"{(place > 1).sum()} of 898 points"
    page.select_option("#sort", "place")
    worst_first = np.lexsort((np.arange(len(place)), -place))[:10]
    assert listed_rows(page) == [f"Row {row}" for row in worst_first]
    page.select_option("#filter", "all")
    shares = case.model.predict_proba(case.X).max(axis=1)
    tenths = np.rint(1000 * shares)
    page.select_option("#sort", "unsure")
    assert listed_rows(page) == [f"Row {row}" for row in np.argsort(tenths, kind="stable")[:10]]
    page.select_option("#sort", "sure")
    assert listed_rows(page) == [f"Row {row}" for row in np.argsort(-tenths, kind="stable")[:10]]
    page.select_option("#filter", "cycle")
    with_cycle = page.locator("#found").text_content().split()[0]
    transitive = case.model[-1].tournament(case.model[:-1].transform(case.X)).is_transitive
    assert with_cycle == str((~transitive).sum())


def test_keyboard(visit, cases):
    page, case = visit("digits"), cases["digits"]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] > 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.focus("#search")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.id") == "list"
    outline = page.evaluate("getComputedStyle(document.getElementById('list')).outlineStyle")
    assert outline == "solid"
    last = len(case.X) - 1
    row = 0
    for key, expected in [
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("PageDown", 11),
        ("Home", 0),
        ("ArrowUp", 0),
        ("End", last),
        ("ArrowDown", last),
        ("PageUp", last - 10),
    ]:
        page.keyboard.press(key)
        row = expected
        assert shown_order(page) == case.order[row].tolist()
        active = page.locator("#list").get_attribute("aria-activedescendant")
        assert active == f"option-{row}"
        option = page.locator(f"#{active}")
        assert option.get_attribute("aria-selected") == "true"
        assert option.get_attribute("aria-posinset") == str(row + 1)
        assert option.get_attribute("aria-setsize") == str(last + 1)
    page.focus("#next")
    page.keyboard.press("Enter")
    assert page.locator("#list li[aria-selected=true]").count() == 1
    assert page.locator("#page").text_content() == "Page 90 of 90"


def test_pages_turn(visit):
    page = visit("iris")
    assert page.locator("#previous").is_disabled()
    page.click("#next")
    assert listed_rows(page)[0] == "Row 10"
    for _ in range(6):
        page.click("#next")
    assert page.locator("#next").is_disabled()
    assert listed_rows(page) == [f"Row {row}" for row in range(70, 75)]
    page.click("#previous")
    assert page.locator("#page").text_content() == "Page 7 of 8"


def test_hostile_text_is_shown_as_text(visit, cases):
    page, case = visit("hostile"), cases["hostile"]
    for row in range(10):
        page.locator("#list li").nth(row).click()
        shown = shown_order(page)
        expected = [" ".join(label.split()) for label in case.order[row]]
        assert shown == expected
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.title() == " ".join(HOSTILE[1].split())
    assert page.locator("h1").text_content() == HOSTILE[1]
    assert page.locator("script").count() == 2


def test_a_phone_is_led_to_the_point(visit):
    page = visit("digits", 360, has_touch=True, reduced_motion="reduce")
    page.locator("#list li").nth(2).tap()
    assert page.locator("#point-heading").text_content() == "Row 2"
    assert 0 <= page.locator("#point-heading").bounding_box()["y"] < 400


def test_without_script_the_summary_remains(visit):
    page = visit("digits", java_script_enabled=False)
    assert page.locator("#browser").is_hidden()
    assert page.get_by_text("needs JavaScript").is_visible()
    assert page.locator("svg.figure").count() == 4


def test_print_shows_the_point_and_not_the_controls(visit):
    page = visit("digits", scheme="dark")
    page.emulate_media(media="print", color_scheme="light")
    assert page.locator("#list").is_hidden()
    assert page.locator("nav").is_hidden()
    assert page.locator(".ranking").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.pdf(path=PICTURES / "digits.pdf")
