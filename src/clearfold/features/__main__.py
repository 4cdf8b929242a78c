"""`python -m clearfold.features` prints the table of all measures, as docs/features.md holds it."""

from clearfold.features.extraction import markdown_table

print(markdown_table(), end="")
