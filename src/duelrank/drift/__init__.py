"""Whether new rows are like those that a model was fitted on.

A *profile* describes the training rows in a few kilobytes: counts, quantiles and frequent
categories, and how the model ranks rows that it was not fitted on. `compare` holds new rows against
it. A *finding* is one thing that was compared; it is an *alarm* if it changed, not by chance and
not by a trifle.

The path from a model to a check, with the file that walks each step:

- `_seen`: what the steps of the model know: categories, words, mean vectors;
- `_columns`: columns of a table become values, or numbers about their cells;
- `_ranked`: how rows are ranked, and rows that the model was not fitted on;
- `_profile`: both become a `Profile`; `_stored` writes and reads it as JSON;
- `_statistics`: tests of two samples;
- `_unlike`: rows unlike training, and why;
- `_compare`: tests become findings; `_figures` has their histograms;
- `_check`: the result.

>>> import numpy as np
>>> from duelrank import DuelRanker
>>> rng = np.random.default_rng(0)
>>> y = rng.integers(0, 3, size=400)
>>> X = rng.normal(size=(400, 2)) + np.eye(3)[y][:, :2] * 2
>>> model = DuelRanker(random_state=0).fit(X[:200], y[:200])
>>> profile = Profile.of(model, X[:200], y[:200])
>>> compare(profile, model, X[200:]).drifted
False
>>> check = compare(profile, model, X[200:] + [0, 3])
>>> [(alarm.name, alarm.told) for alarm in check.alarms][0]
('x1', 'higher')
"""

from duelrank.drift._check import Check, Figure, Finding, UnusualRow
from duelrank.drift._compare import compare
from duelrank.drift._profile import Profile

__all__ = ["Check", "Figure", "Finding", "Profile", "UnusualRow", "compare"]
