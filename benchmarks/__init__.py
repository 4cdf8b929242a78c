"""clearfold beside its peers: time, memory and equality of outputs, measured in one run (`python -m benchmarks`)."""
