"""
Why a label came second: tournaments and their cycles
=====================================================

The duels of a point form a tournament, and labels are ranked by the duels they win. Duels may
contradict each other: a beats b, b beats c, and c beats a. In such a cycle labels tie, and the sums
of their duel probabilities decide.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from duelrank import DuelRanker
from duelrank.plotting import TournamentDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
ranker = DuelRanker(random_state=0).fit(X_train, y_train)
tournaments = ranker.tournament(X_test)
print(tournaments)

# %%
# A point whose best label is part of a cycle. The band holds the labels of the cycle; arrows
# are the duels that the ranking contradicts, with the winner's probability.

best_in_cycle = (tournaments.in_cycle & (tournaments.ranks == 1)).any(axis=1)
row = int(np.flatnonzero(best_in_cycle)[0])
display = TournamentDisplay.from_estimator(ranker, X_test, row=row, name=f"A {y_test[row]}")

# %%
# The same tournament as a matrix: the label of the row beats that of the column with this
# probability, in percent.

display = TournamentDisplay(tournaments[row], name=f"A {y_test[row]}").plot(kind="matrix")
plt.show()

# %%
# And as a table.

print(tournaments[row])
