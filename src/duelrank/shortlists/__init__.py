"""Lists that hold the right label as often as promised.

A *shortlist* of a point are the first labels of its ranking, as many as are needed to hold the
right one with a given probability, its *coverage*: one label where the ranking is sure, five where
it is not. How many these are is learned on *calibration rows*, which the ranking was not learned
from. All that is assumed is that these rows and the new ones are exchangeable; the ranking may be
as wrong as it likes, lists only get longer.

- every label of a row has a *score*: how odd it would be if it were the right one (`_scores`);
- the scores that the right labels of the calibration rows had make *p-values* of the scores of a
  new row (`_calibration`): the share of calibration rows whose label was at least as odd;
- a list holds the labels whose p-value is above 1 − coverage (`Shortlister`);
- `measure_shortlists` and `length_curve` tell how good lists are (`_measures`);
- if rankings are known, `PlaceIntervals` says between which places the labels are, all at once.

>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(return_X_y=True)
>>> lists = Shortlister(coverage=0.99, random_state=0).fit(X[::2], y[::2])
>>> lists.predict_shortlist(X[[1, 77, 325]])
[[1], [2, 1], [7, 9]]
"""

from duelrank.shortlists._calibration import rows_needed

# For the rooms that save, report, rank and evaluate models.
from duelrank.shortlists._inside import n_labels_together as n_labels_together
from duelrank.shortlists._inside import shortlister_inside as shortlister_inside
from duelrank.shortlists._measures import (
    LengthCurve,
    ShortlistQuality,
    length_curve,
    measure_shortlists,
)
from duelrank.shortlists._places import PlaceIntervals
from duelrank.shortlists._rows import hold_out as hold_out

# For export: what scores are made of.
from duelrank.shortlists._scores import BELOW_ONE_PLACE as BELOW_ONE_PLACE
from duelrank.shortlists._scores import ON_PROBABILITIES as ON_PROBABILITIES
from duelrank.shortlists._scores import RAPS_FREE_PLACES as RAPS_FREE_PLACES
from duelrank.shortlists._scores import RAPS_PENALTY as RAPS_PENALTY
from duelrank.shortlists._shortlister import RankedLists, Shortlister

__all__ = [
    "LengthCurve",
    "PlaceIntervals",
    "RankedLists",
    "ShortlistQuality",
    "Shortlister",
    "length_curve",
    "measure_shortlists",
    "rows_needed",
]
