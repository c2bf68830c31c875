"""
Top-k accuracy: duels against multiclass scores
===============================================

A ranking is worth more than its first label: if five suggestions are shown, it counts how often the
right one is among them. Any classifier that scores labels also ranks them, so duels can be compared
with it at every k.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from duelrank import DuelRanker
from duelrank.plotting import RankDistributionDisplay, TopKAccuracyDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

models = {
    "duels": make_pipeline(StandardScaler(), DuelRanker(random_state=0)),
    "multinomial": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "forest": RandomForestClassifier(random_state=0),
    "naive Bayes": GaussianNB(var_smoothing=1e-3),
}
for model in models.values():
    model.fit(X_train, y_train)

# %%
# The bands are one standard error to both sides.

display = TopKAccuracyDisplay.from_estimator(models, X_test, y_test, max_k=5)

# %%
# The same by label: which places do the true labels get? The values are percentages of the points
# of a label.

display = RankDistributionDisplay.from_estimator(
    models["naive Bayes"], X_test, y_test, name="naive Bayes"
)
plt.show()
