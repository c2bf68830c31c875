"""
Why a label came second: tournaments and their cycles
=====================================================

The duels of a point form a tournament, and labels are ranked by the duels they win. Duels may
contradict each other: a beats b, b beats c, and c beats a. In such a cycle labels tie, and the sums
of their duel probabilities decide.
"""

import matplotlib.pyplot as plt
import numpy as np

from duelrank import DuelRanker
from duelrank.plotting import TournamentDisplay

# %%
# Tickets that are made up: how much they speak of money, parcels, accounts and devices. Some teams
# answer tickets that sound alike.

about = {
    "billing": (3, 0, 1, 0),
    "delivery": (0, 3, 0, 0),
    "fraud": (2, 0, 2, 0),
    "hardware": (0, 1, 0, 3),
    "login": (0, 0, 3, 1),
    "mobile app": (0, 0, 1, 3),
    "refunds": (3, 1, 0, 0),
    "returns": (2, 2, 0, 0),
}
rng = np.random.default_rng(0)
y = rng.choice(list(about), size=400)
X = np.array([about[team] for team in y]) + rng.normal(size=(400, 4))
X_train, X_test, y_train, y_test = X[:200], X[200:], y[:200], y[200:]
ranker = DuelRanker(random_state=0).fit(X_train, y_train)
tournaments = ranker.tournament(X_test)
print(tournaments)

# %%
# A point whose best label is part of a cycle. The band holds the labels of the cycle; arrows
# are the duels that the ranking contradicts, with the winner's probability.

best_in_cycle = (tournaments.in_cycle & (tournaments.ranks == 1)).any(axis=1)
row = int(np.flatnonzero(best_in_cycle)[0])
name = f"A ticket for {y_test[row]}"
display = TournamentDisplay.from_estimator(ranker, X_test, row=row, name=name)

# %%
# The same tournament as a matrix: the label of the row beats that of the column with this
# probability, in percent. Pale duels are open.

display = TournamentDisplay(tournaments[row], name=name).plot(kind="matrix")
plt.show()

# %%
# And as a table.

print(tournaments[row])
