"""What is run: the sets, methods, models and sizes of each experiment, and its runs in order. Pure data, so that
the page can be written, and checked, without any package."""

# Sections 6.1's sets.
TITLES = {"two": "two Gaussians", "circles": "two circles", "five": "five Gaussians"}
CLUSTERS = {"two": 2, "circles": 2, "five": 5}
RELEVANT = {"two": 1, "circles": 2, "five": 2}  # non-Gaussian dimensions, which FastICA and NGCA are told
ROWS = 500
NOISE = [5, 10, 20, 40]
CONTRASTS = ["logcosh", "exp", "cube"]
FITS = ["lca", "lca-gauss", "lca-gauss-red", "lca-gauss-search"]  # as `replay --algorithm` names them
NU_CLUSTERING = [0, .01]  # without a penalty, and the preset "density"
METHODS = (["whitening"] + ["fastica " + c for c in CONTRASTS] + ["ngca"]
           + [fit + (f" nu={nu}" if nu else "") for nu in NU_CLUSTERING for fit in FITS])
ITERATIONS = [1, 2, 5, 10, 20, 50, 0]  # 1 = Manifold Parzen Windows, 0 = to convergence

# Section 6.2. nu_g was chosen on the validation rows as the one best for a single Gaussian, then nu. The order is
# that of running.
TRAIN, TEST = slice(0, 3000), slice(3000, 6000)  # 2000 + the 1000 of validation, as the paper's final models
MODELS = {
    "gauss": dict(algorithm="lca-gauss", nu=.05, nu_gaussian=.003),
    "gaussian": dict(algorithm="gaussian", nu_gaussian=.003),
    "isotropic": dict(algorithm="lca", metric="isotropic"),
    "diagonal": dict(algorithm="lca", metric="diagonal"),
    "full": dict(algorithm="lca", nu=.004, nu_gaussian=.003),
    "gauss-red": dict(algorithm="lca-gauss-red", nu=.05, nu_gaussian=.003),
}
USPS_FLAGS = ["--precision", "float32", "--tolerance", "1e-3"]
SPEED_TOLERANCE = 1e-3

# EM steps that are watched one by one.
STEPS = 40
METRICS = ["full", "diagonal", "isotropic", "low_rank"]

# Section 6.3: (gamma, B, N) in the order in which they are run; the model that all are compared with comes first.
HALF = 6000  # training rows; all others test
WHOLE = (0, HALF, HALF)
CELLS = [WHOLE, (.6, 100, 3000), (.6, 1000, 1000), (.6, 1000, 3000), (.6, 6000, 3000), (.6, 3000, 3000),
         (.6, 3000, 1000), (.6, 6000, 1000), (.3, 1000, 1000), (.3, 1000, 3000), (.3, 3000, 1000), (.3, 3000, 3000),
         (.3, 6000, 1000), (.3, 6000, 3000), (.6, 1000, 6000), (.6, 3000, 6000), (.6, 6000, 6000),
         (.3, 1000, 6000), (.3, 3000, 6000), (.3, 6000, 6000)]
NU, NU_GAUSSIAN = .01, .0015
PASSES = {100: 50, 1000: 150, 3000: 150, 6000: 150}  # by B: the more steps a pass has, the sooner they settle

# Reduction without labels and with them: the first k directions, 0 = as many as LCA-Gauss-Red has.
REDUCTIONS = ["columns", "pca", "lca", "lda", "nca"]
DIRECTIONS = [1, 2, 4, 0]

# Manifold learning: columns of noise by set, and methods.
MANIFOLDS = {"roll": [0, 5, 10, 20], "digits": [0, 30, 60, 120]}
MANIFOLD_COORDINATES = ["columns", "metric", "density"]
EMBEDDINGS = ["isomap", "lle", "umap", "spectral"]

# Few labels: how many of each class are given, and in which coordinates.
LABELS = [1, 5, 10]
COORDINATES = ["raw", "columns", "lca", "lca-gauss-red"]

# Modes without k, in the columns and in LCA-Gauss-Red's coordinates, next to k-means with the true k.
MODES = ["columns k-means", "lca k-means", "columns", "lca", "lca unpenalised"]

# A covariance for each point.
PLACES = ["roll", "two regimes", "one cloud"]
PLACES_METRICS = ["global", "local", "local 1", "regions 2", "regions 8"]
PLACES_ROWS = [250, 1000]


# Runs are the outer loop and methods the inner, so that a table that was broken off has whole columns; the smaller
# and quicker problems come first.
def clustering(runs):
    return [dict(set=s, noise=q, method=m, run=r) for q in NOISE for r in range(runs) for s in CLUSTERS for m in METHODS]


def iterations(runs):
    return [dict(set=s, noise=q, iterations=i, run=r) for q in NOISE for r in range(runs) for s in CLUSTERS for i in ITERATIONS]


def usps(runs):
    return [dict(model=m, run=r) for m in MODELS for r in range(runs)]


def subsampling(runs):
    return [dict(gamma=g, batch=b, neighbours=n, run=r) for r in range(runs) for g, b, n in CELLS]


def arithmetic(runs):
    toy = [dict(set="five", algorithm=a, metric=m, nu=nu, run=r)
           for r in range(runs) for a in ("lca", "lca-gauss") for m in METRICS for nu in (0, .05)]
    return toy + [dict(set="USPS", algorithm=a, metric="full", nu=.01, run=0) for a in ("lca", "lca-gauss")]


def whole(key):
    """The run that a cell of the subsampling table is compared with, on the same split."""
    return dict(zip(("gamma", "batch", "neighbours"), WHOLE), run=key["run"])
