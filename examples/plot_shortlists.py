"""
Shortlists: as many labels as it takes
======================================

Three suggestions for every ticket are too many where the ranking is sure, and too few where it is
not. A *shortlist* has one label here and five there, so that the right one is in the list as often
as was asked for. How long lists must be for that is learned on *calibration rows*, which the
ranking was not learned from.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from duelrank import DuelRanker
from duelrank.plotting import ShortlistDisplay
from duelrank.rankings import order_from_scores
from duelrank.shortlists import Shortlister, measure_shortlists

# %%
# The tickets are made up, so that we know how probable every team is for each of them. Some tickets
# are clear, others could go to several teams.

teams = np.array(["accounts", "billing", "cards", "delivery", "fraud", "login", "refunds"])
rng = np.random.default_rng(0)
n_teams = len(teams)
slopes = rng.normal(size=(8, n_teams))


def make_tickets(n):
    X = rng.normal(size=(n, 8))
    eta = np.exp(X @ slopes)
    eta /= eta.sum(axis=1, keepdims=True)
    codes = (rng.random((n, 1)) > eta.cumsum(axis=1)).sum(axis=1)
    return X, teams[codes]


X_train, y_train = make_tickets(2000)
X_calibration, y_calibration = make_tickets(1000)
X_test, y_test = make_tickets(4000)

# %%
# The ranker is fitted on some rows, and the lists are calibrated on others: `FrozenEstimator` says
# that the ranker is not to be fitted again. If there is no ranker yet, `Shortlister(DuelRanker())`
# holds out some of its rows by itself.

ranker = DuelRanker(random_state=0).fit(X_train, y_train)
lists = Shortlister(FrozenEstimator(ranker), coverage=0.9).fit(X_calibration, y_calibration)
for own in lists.predict_shortlist(X_test[:4]):
    print(own)

# %%
# Nine of ten lists hold the right team, as was asked for. Lists of a fixed length that hold it as
# often are longer.

codes = np.searchsorted(teams, y_test)
quality = measure_shortlists(lists.shortlist_mask(X_test), codes)
print(f"shortlists: {quality.coverage:.1%} with {quality.mean_length:.2f} labels")
order = order_from_scores(ranker.decision_function(X_test))
for k in range(1, 5):
    share = (order[:, :k] == codes[:, np.newaxis]).any(axis=1).mean()
    print(f"the first {k}: {share:.1%}")

# %%
# What do 95%, 98% or 99% cost? The upper picture answers, for two models; the lower one shows what
# is reached on rows that neither was learned from. A worse model keeps the promise as well. It only
# needs longer lists.

naive = GaussianNB().fit(X_train[:60], y_train[:60])
models = {
    "duels": lists,
    "naive Bayes, 60 rows": Shortlister(FrozenEstimator(naive), coverage=0.9).fit(
        X_calibration, y_calibration
    ),
}
display = ShortlistDisplay.from_estimator(models, X_test, y_test)

# %%
# The promise is about all tickets together: tickets of some teams are missed more often. With
# `by="label"` it holds for the tickets of every team, up to the luck of its calibration rows, of
# which a team has fewer than all teams have together.

by_team = Shortlister(FrozenEstimator(ranker), coverage=0.9, by="label").fit(
    X_calibration, y_calibration
)
each = measure_shortlists(by_team.shortlist_mask(X_test), codes)
for team, together, alone in zip(
    teams, quality.coverage_by_label, each.coverage_by_label, strict=True
):
    print(f"{team:9} {together:.1%} {alone:.1%}")
print(f"mean length {quality.mean_length:.2f} {each.mean_length:.2f}")
plt.show()
