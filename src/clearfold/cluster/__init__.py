"""Many machines: the calls that joblib runs on the cores of one machine, on the workers of a Dask cluster.

    with on_cluster("tcp://scheduler:8786"):
        EmbeddingImportance(n_rounds=200).fit(X, y)

Whatever in clearfold runs in several processes asks `parallel` for joblib's `Parallel`. Inside `on_cluster` it gets one
whose backend sends the calls to the workers, elsewhere the usual one. joblib's own Dask backend was not taken, for two
reasons. It puts a large array on some workers: when these die, the array is gone and the work ends in an error. And as
a global setting it would also send away the calls that scikit-learn makes for threads.
"""

from clearfold.cluster.backend import connected, parallel, width
from clearfold.cluster.calls import unseen
from clearfold.cluster.connection import Cluster, on_cluster

__all__ = ["Cluster", "connected", "on_cluster", "parallel", "unseen", "width"]
