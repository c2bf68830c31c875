"""Tables to compare: numbers, some of them missing, counts, categories, texts and dates."""

import numpy as np
import pandas as pd

KINDS = {
    "amount": "number",
    "count": "number",
    "town": "category",
    "member": "boolean",
    "day": "date",
}
KINDS_WITH_TEXT = {**KINDS, "note": "text"}
WORDS = np.array([f"word{number}" for number in range(2000)])
FREQUENCIES = 1 / np.arange(1, 2001) / np.sum(1 / np.arange(1, 2001))


def rows(n_rows, rng, with_text=False):
    """Return features and labels; larger labels have larger numbers."""
    shares = np.arange(1, 6) / 15
    codes = rng.choice(5, size=n_rows, p=shares)
    amount = np.exp(rng.normal(size=n_rows) + 0.7 * codes)
    amount[rng.random(n_rows) < 0.1] = np.nan
    days = rng.integers(0, 365, size=n_rows)
    columns = {
        "amount": amount,
        "count": rng.poisson(2 + codes).astype(float),
        "town": [f"t{min(int(z), 500)}" for z in rng.zipf(1.6, size=n_rows)],
        "member": rng.random(n_rows) < 0.5,
        "day": pd.to_datetime("2024-01-01") + pd.to_timedelta(days, unit="D"),
    }
    if with_text:
        columns["note"] = [text(code, rng) for code in codes]
    return pd.DataFrame(columns), np.array([f"label {code}" for code in codes], dtype=object)


def text(code, rng):
    about = [f"about{code}"] if rng.random() < 0.7 else []
    return " ".join([*about, *rng.choice(WORDS, size=rng.integers(1, 8), p=FREQUENCIES)])
