"""Read |x| and coef_ as they are written: an absolute value and a fitted attribute.

To reStructuredText the first is a substitution and the second a link. Docstrings mean neither.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform


def setup(app):
    app.add_transform(AsWritten)
    return {"parallel_read_safe": True}


class AsWritten(SphinxTransform):
    """Turn substitutions, and links of one bare word that lead nowhere, back into text."""

    default_priority = 200  # before sphinx and docutils look for substitutions

    def apply(self):
        for substitution in list(self.document.findall(nodes.substitution_reference)):
            substitution.replace_self(nodes.Text(f"|{substitution.astext()}|"))
        for link in list(self.document.findall(nodes.reference)):
            unknown = link.get("refname") and link["refname"] not in self.document.nameids
            if unknown and link.rawsource == f"{link.astext()}_":
                link.replace_self(nodes.Text(link.rawsource))
