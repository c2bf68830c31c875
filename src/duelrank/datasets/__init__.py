"""Data sets of the label-ranking literature.

- `make_label_ranking` draws from the paper's synthetic family, whose posterior is known: a tree of
  `synthetic_posteriors` over [0, 1] with a noise exponent to choose.
- `load_images` reads MNIST and Fashion-MNIST, from a folder or through scikit-learn's
  ``fetch_openml``.
- `load_label_ranking` reads the benchmark sets of label ranking, and any CSV file of their form.
- `load_text` reads texts with labels: the questions of BANKING77, and the job titles of O*NET.

The folder is the argument `data_dir`, or the one that the environment variable ``DUELRANK_DATA``
names. It holds ``mnist/train-images-idx3-ubyte.gz`` and so on, ``label_ranking/ranks/iris.csv`` and
so on, and ``text/banking77_train.csv`` and so on.
"""

from duelrank.datasets._images import Images, load_images
from duelrank.datasets._label_ranking import LabelRankingData, load_label_ranking
from duelrank.datasets._synthetic import make_label_ranking, synthetic_posteriors
from duelrank.datasets._text import Texts, load_text

__all__ = [
    "Images",
    "LabelRankingData",
    "Texts",
    "load_images",
    "load_label_ranking",
    "load_text",
    "make_label_ranking",
    "synthetic_posteriors",
]
