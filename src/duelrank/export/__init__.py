"""Rankers as ONNX models, which rank without Python.

`to_onnx` hands a fitted ranker and what comes before it to skl2onnx, together with converters for
our classes. The graph of a ranker follows the path of the library: features become margins, margins
become wins, ties are broken, places become labels. Its number of nodes does not depend on the
number of labels.

- `_model`: `to_onnx`, which checks everything before it writes anything;
- `_inputs`: which inputs a model has, and which steps before a ranker are refused;
- `_preprocessing`: imputers, encoders and vectorizers that skl2onnx does not write as they are;
- `_converter`: the converters of our classes, and the outputs of a ranker;
- `_duels`: features → margins, engine by engine; `_trees` has those of forests;
- `_rankings`: margins → wins → order;
- `_probabilities`: margins → posteriors;
- `_shortlists`: posteriors or ranking → list;
- `_nodes`: how nodes and constants are written.
"""

from duelrank.export._model import to_onnx

__all__ = ["to_onnx"]
