"""Coverage-guided fuzzing of everything that reads what others wrote: `python -m fuzz TARGET --runs N --seconds S`.

The contract of every target: whatever bytes come, the only exceptions are clearfold's own (ClearfoldError), and time
and memory for one input are bounded. Seeds are made by code (`seeds`), changed with knowledge of the format
(`mutators`), and read by the function that `targets` names.
"""
