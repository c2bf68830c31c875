"""
Which words spoke: tickets that are routed to teams
===================================================

A ticket is text, and a label is the team that answers it. `TextFeatures` turns text into numbers,
and duels between teams are linear in them. So the margin of a duel is a sum over the words of the
ticket, and we can ask which words spoke for the first team and which for the second.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from duelrank import AnchoredDuels, DuelRanker, predict_top
from duelrank.explanations import explain_duel
from duelrank.plotting import ContributionsDisplay
from duelrank.preprocessing import TextFeatures

# %%
# The tickets are made up: an opening, what a team is asked for, and an ending. Words such as card
# or account occur in the tickets of several teams.

openings = ["Hello,", "Hi there,", "Good morning,", "Dear team,", ""]
endings = ["Please help.", "Thank you!", "What can I do?", "It is urgent.", ""]
asked = {
    "billing": [
        "I was charged twice for the same order",
        "the invoice shows the wrong amount",
        "my card was charged but the payment failed",
        "when do I get the refund on my account",
        "please send the invoice to my new address",
    ],
    "delivery": [
        "my parcel has not arrived yet",
        "the courier went to the wrong address",
        "the parcel with my new card is late",
        "can I change the address of my order",
        "the box arrived but it was empty",
    ],
    "login": [
        "I cannot sign in to my account",
        "the password reset mail has not arrived",
        "my account is locked after a wrong password",
        "how do I change my password",
        "the code for the login never comes",
    ],
    "returns": [
        "I want to send my order back",
        "the shoes are too small and I want to return them",
        "how do I return a box that was damaged",
        "where do I find the label for a return parcel",
        "can I swap the jacket for a new one",
    ],
}
rng = np.random.default_rng(0)
teams = rng.choice(list(asked), size=400)
tickets = [
    f"{rng.choice(openings)} {rng.choice(asked[team])}. {rng.choice(endings)}" for team in teams
]
model = make_pipeline(
    TextFeatures(), DuelRanker(AnchoredDuels(C="scale", rivals=0), random_state=0)
).fit(tickets, teams)

# %%
# A ticket that is new, and may concern several teams.

ticket = "My parcel arrived damaged, when do I get a refund?"
print(predict_top(model, [ticket], 4))

# %%
# Why this team and not the next one? The bars add up to the margin of their duel, the log-odds
# that the first team wins it.

display = ContributionsDisplay.from_estimator(model, [ticket])

# %%
# Any two teams can be compared. The bars are the items of an explanation, which prints as well.

why = explain_duel(model, [ticket], label="billing", rival="returns")
print(why)
display = ContributionsDisplay.from_explanation(why, top=6)
plt.show()
