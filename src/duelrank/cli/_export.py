"""``duelrank export``: a model as an ONNX file."""

from __future__ import annotations

import click

from duelrank._choices import ONNX_DTYPES, ONNX_OUTPUTS
from duelrank._files import replacing
from duelrank.cli._files import Mistake, check_inputs, check_output, make_folder_of
from duelrank.cli._fit import listed
from duelrank.cli._model import load_model
from duelrank.cli._options import trust_option
from duelrank.cli._terminal import count_of, plain, say


@click.command()
@click.argument("model_file", metavar="MODEL")
@click.option("--output", "-o", required=True, metavar="ONNX", help="Where to write the file.")
@click.option(
    "--outputs",
    metavar="NAMES",
    help=f"What the exported model answers with, some of {', '.join(ONNX_OUTPUTS)}, with commas "
    "between them.  [default: label,ranks, and shortlist if the model makes lists]",
)
@click.option("--top", "-k", type=click.IntRange(min=1), help="How many labels 'top' has.")
@click.option(
    "--dtype",
    type=click.Choice(ONNX_DTYPES),
    default="float32",
    show_default=True,
    help="Type of the numbers that the exported model takes.",
)
@trust_option
def export(
    model_file: str,
    output: str,
    outputs: str | None,
    top: int | None,
    dtype: str,
    trust: tuple[str, ...],
) -> None:
    """Write a model as an ONNX file, which ranks without Python.

    The file takes every column of the table as a tensor of its own, named like the column, of shape
    (n, 1). A missing number is NaN, and a missing category is the empty text. Models of text and of
    dates cannot be written as ONNX.
    """
    if not output.lower().endswith(".onnx"):
        raise Mistake(f"--output {output} must end in .onnx.")
    names = None if outputs is None else [name.strip() for name in outputs.split(",")]
    unknown = [name for name in names or () if name not in ONNX_OUTPUTS]
    if unknown:
        raise Mistake(f"--outputs must be some of {', '.join(ONNX_OUTPUTS)}; got {unknown[0]!r}.")
    if top is None and "top" in (names or ()):
        raise Mistake("--outputs top needs --top, the number of labels.")
    if top is not None and "top" not in (names or ()):
        names = [*(names or ("label", "ranks")), "top"]
    check_inputs(model_file)
    check_output(output, model_file)
    model = load_model(model_file, trust)
    from duelrank.export import to_onnx

    kinds = {name: kind for name, kind in model.description.columns.items() if kind}
    try:
        exported = to_onnx(model.model, outputs=names, k=top, dtype=dtype, kinds=kinds)
    except TypeError as error:  # which names what ONNX cannot do
        raise ValueError(str(error)) from error
    content = exported.SerializeToString()
    make_folder_of(output)
    with replacing(output) as partial:
        partial.write_bytes(content)
    graph, size = exported.graph, f"{len(content) / 1e3:,.0f} kB"
    say(
        f"Wrote {plain(output)}: {size}, {count_of(len(graph.node), 'node')}; "
        f"takes {listed([given.name for given in graph.input])}; "
        f"answers with {listed([answer.name for answer in graph.output])}."
    )
