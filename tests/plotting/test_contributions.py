"""What spoke for a label is drawn as bars that add up to the margin."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from duelrank import AnchoredDuels, DuelRanker
from duelrank.explanations import explain_duel
from duelrank.plotting import ContributionsDisplay
from duelrank.preprocessing import TextFeatures

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")
TEXTS = ["my card is late", "card not here", "what is the rate", "the rate of euros"] * 3
TEAMS = ["cards", "cards", "rates", "rates"] * 3


@pytest.fixture
def model():
    yield make_pipeline(
        TextFeatures(), DuelRanker(AnchoredDuels(C=100, rivals=0), random_state=0)
    ).fit(TEXTS, TEAMS)
    plt.close("all")


def test_bars_add_up_to_the_margin(model):
    text = ["is my card at a bad rate of late euros"]
    why = explain_duel(model, text)
    display = ContributionsDisplay.from_explanation(why, top=3)
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(sum(widths), why.margin)
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names[0] == f"“{why.words[0].text}”"
    assert names[-2:] == [f"{len(why.items) - 3} more", "before anything is known"]
    assert display.margin == pytest.approx(why.margin)
    assert why.rival in display.ax_.get_xlabel()
    _, ax = plt.subplots()
    again = ContributionsDisplay.from_estimator(model, text, ax=ax, color="black")
    assert again.ax_ is ax
    assert again.bars_[0].get_facecolor() == (0, 0, 0, 1)


def test_sides_have_colours_of_their_own(model):
    display = ContributionsDisplay(["a" * 60, "b"], [1.0, -2.0], "x", "y").plot()
    assert display.bars_[0].get_facecolor() != display.bars_[1].get_facecolor()
    assert len(display.ax_.get_yticklabels()[0].get_text()) == 40
    money = ContributionsDisplay(["“$5_$”", "b"], [1.0, -2.0], "$_$", "$x$").plot()
    money.figure_.canvas.draw()
    with pytest.raises(ValueError, match="contributions must be 2 numbers"):
        ContributionsDisplay(["a", "b"], [1.0], "x", "y")
