"""The section about rows that are unlike those of training."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from drifting import KINDS, rows
from duelrank import DuelRanker
from duelrank.drift import Profile, compare
from duelrank.preprocessing import make_preprocessing
from duelrank.report import render_report
from test_report import section_of

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def model():
    frame, y = rows(400, np.random.default_rng(0))
    return make_pipeline(make_preprocessing(KINDS), DuelRanker(random_state=0)).fit(frame, y)


@pytest.fixture(scope="module")
def profile(model):
    frame, y = rows(400, np.random.default_rng(0))
    return Profile.of(model, frame, y, kinds=KINDS)


@pytest.fixture
def new():
    return rows(200, np.random.default_rng(1))


def test_without_a_check_there_is_no_section(model, new):
    assert "training-data" not in render_report(model, *new)


def test_rows_like_training_are_said_to_be(model, profile, new):
    page = render_report(model, *new, check=compare(profile, model, *new))
    section = section_of(page, "training-data")
    assert "Is this data like the training data?" in section
    assert "No change found (200 new rows, 400 training rows)." in section
    assert "What was compared" in section
    assert "<svg" not in section


def test_what_changed_is_drawn_and_named(model, profile, new):
    frame, y = new
    frame = frame.assign(count=frame["count"] + 5, town=HOSTILE)
    page = render_report(model, frame, y, check=compare(profile, model, frame, y))
    section = section_of(page, "training-data")
    assert section.count('<svg class="figure"') == 2
    assert 'class="bar before"' in section
    assert "never seen: &#x27;&lt;script&gt;" in section
    assert HOSTILE not in section
    assert "What is as in training" in section


def test_something_else_is_refused(model, new):
    with pytest.raises(TypeError, match=r"check must be a duelrank\.drift\.Check or None"):
        render_report(model, *new, check={"drifted": True})
