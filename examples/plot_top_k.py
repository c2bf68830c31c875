"""
Top-k accuracy: duels against multiclass scores
===============================================

A ranking is worth more than its first label: if three teams are suggested for a ticket, it counts
how often the right one is among them. Any classifier that scores labels also ranks them, so duels
can be compared with it at every k.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from duelrank import DuelRanker
from duelrank.plotting import RankDistributionDisplay, TopKAccuracyDisplay

# %%
# The tickets are made up, and each of them belongs to one of ten teams.

teams = ["accounts", "billing", "cards", "delivery", "fraud", "hardware", "login", "refunds"]
teams += ["returns", "website"]
X, codes = make_classification(
    4000,
    20,
    n_informative=8,
    n_classes=10,
    n_clusters_per_class=1,
    class_sep=1.2,
    flip_y=0.05,
    random_state=0,
)
y = np.array(teams)[codes]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

models = {
    "duels": DuelRanker(random_state=0),
    "multinomial": LogisticRegression(max_iter=1000),
    "forest": RandomForestClassifier(random_state=0),
    "naive Bayes": GaussianNB(),
}
for model in models.values():
    model.fit(X_train, y_train)

# %%
# The bands are one standard error to both sides.

display = TopKAccuracyDisplay.from_estimator(models, X_test, y_test, max_k=5)

# %%
# The same by label: which places do the true labels get? The values are percentages of the points
# of a label.

display = RankDistributionDisplay.from_estimator(models["duels"], X_test, y_test, name="duels")
plt.show()
