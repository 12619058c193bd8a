"""What is run: pure data, so that the page can be written, and checked, without any package."""

# The board (board.py): the group of files without an order, and the rivals that learn the train rows alone.
BOARD_TABLES = "table"
BOARD_FIXED = ["row T²", "mean T²", "5-NN", "isolation forest", "half-space trees", "LODA", "random cut forest", "row and means T²"]

WARMUP = 400  # rows of a machine's run that are taken for normal: the data set's own convention

# Settings of lca-stream for the machine's stream, on top of machine.yaml. "shipped" is that file as it is.
LCA = {
    "shipped": [],
    "model lca": ["lca.model=lca"],
    "gate 5": ["lca.outlier_gate=5"],
    "gate 10": ["lca.outlier_gate=10"],
    "gate 30": ["lca.outlier_gate=30"],
    "gate auto": ["lca.outlier_gate=auto"],
    "gate off": ["lca.outlier_gate=off"],
    "drift auto": ["lca.accept_after=auto"],
    "nu 0.001": ["lca.nu=0.001"],
    "nu 0.003": ["lca.nu=0.003"],
    "nu 0.1": ["lca.nu=0.1"],
    "warm-up 200": ["lca.warmup_rows=200"],
    "warm-up 300": ["lca.warmup_rows=300"],
    "warm-up 500": ["lca.warmup_rows=500"],
    "20 rows per minibatch": ["minibatch.rows=20"],
    "preset density, warm-up 400": ["lca.outlier_gate=auto", "lca.accept_after=auto"],
    "preset metric alone": ["lca.preset=metric", "lca.warmup_rows=200", "lca.outlier_gate=auto", "lca.accept_after=auto"],  # 200 is its auto
}
BATCH = {"nu 0.01": .01}  # lca-gauss on the first rows, as `replay` fits it

# Rivals: method -> settings that are tried; the best by mean AUC over the runs is shown, with hindsight.
LEARN = ["all", "none"]
RIVALS = {
    "mahalanobis": [dict(learn=k) for k in ["all", "none", "near"]],
    "half_space_trees": [dict(trees=t, height=h, window=w, learn=k) for t in (25, 100) for h in (6, 10) for w in (100, 400) for k in LEARN],
    "one_class_svm": [dict(nu=nu, learn=k) for nu in (.01, .05, .1, .2) for k in LEARN],
    "isolation_forest": [dict(trees=t, sample=s) for t in (100, 300) for s in (64, 256, 400)],
    "lof": [dict(neighbours=k) for k in (5, 10, 20, 35, 50, 100)],
    "incremental_pca": [dict(components=k, learn=m) for k in range(1, 8) for m in LEARN],
}
RIVALS = {m: {", ".join(f"{k} {v}" for k, v in s.items()): s for s in grid} for m, grid in RIVALS.items()}  # by name
RANDOM = {"half_space_trees", "isolation_forest"}  # methods with a seed


def valve(runs):
    keys = [dict(method="lca-stream", setting=s, run=0) for s in LCA]
    keys += [dict(method="lca-gauss, batch", setting=s, run=0) for s in BATCH]
    return keys + [dict(method=m, setting=s, run=r) for m, grid in RIVALS.items() for r in range(runs if m in RANDOM else 1) for s in grid]


# The runs as machines that run at the same time: models, and rows that they are warmed up by, of a machine or of all.
FLEET_MODELS = ["a model for each run", "one model for all"]
FLEET = [(FLEET_MODELS[0], WARMUP), (FLEET_MODELS[1], WARMUP), (FLEET_MODELS[1], 8 * WARMUP)]
FLEET_UNITS = ["as they are", "each run in units of its own"]


def fleet(runs):
    # Which rows the pool of a model for all keeps depends on the topic's name; that of one run's rows keeps all.
    return [dict(units=u, models=m, warmup=w, run=r) for u in FLEET_UNITS for m, w in FLEET for r in range(1 if m == FLEET_MODELS[0] else runs)]


def others():
    """On the runs by which nothing was chosen: what is shipped, and what was best of each rival on the others."""
    keys = [dict(method="lca-stream", setting=s) for s in ("shipped", "preset density, warm-up 400")]
    keys += [dict(method="lca-gauss, batch", setting=s) for s in BATCH]
    keys += [dict(method=m, setting=s) for m, s in BEST.items()]
    return [k | dict(run=0) for k in keys]


BEST = {"mahalanobis": "learn none", "half_space_trees": "trees 100, height 6, window 400, learn none", "one_class_svm": "nu 0.2, learn all",
        "isolation_forest": "trees 300, sample 400", "lof": "neighbours 20", "incremental_pca": "components 2, learn none"}

# Columns of the same unit, such as pixels, are not divided by their own standard deviations: the paper's units. The share is
# that of the mean variance.
ALIKE = ["lca.nu_unit=absolute", "lca.nu={.1},{.001}"]
PIXELS = ["digits", "usps"]

# Downstream clustering. A set is streamed in random order, over and over until it has given that number of rows.
SETS = {"five": "five Gaussians + 10 noise", "two": "two Gaussians + 10 noise", "circles": "two circles + 5 noise",
        "wine": "wine", "breast_cancer": "breast_cancer", "digits": "digits", "usps": "USPS"}
NOISE = {"five": 10, "two": 10, "circles": 5}
TOY_ROWS, USPS_ROWS, LEAST_ROWS, BLOCKS = 9000, 3000, 2000, 10  # 9000: the data choose within the stream, after 4500
MIXINGS = 20  # of the Gaussians: what is found of one says little of another
RIVER_RUNS = 5  # River's clusterers, one row at a time in Python, take most of the time
COORDINATES = {"raw": "raw", "standard": "StandardScaler", "whitening": "running whitening", "pca": "IncrementalPCA(whiten)",
               "lca": "LCA", "lca-gauss": "LCA-Gauss", "auto": "default", "parzen": "default, Parzen part only", "alike": "default, columns alike",
               "ungated": "default, gate off"}
SETTINGS = {"lca": ["lca.model=lca"], "lca-gauss": ["lca.model=lca_gauss"], "auto": [], "parzen": ["transform.components=parzen"], "alike": ALIKE,
            "ungated": ["lca.outlier_gate=off"]}
CLUSTERERS = {"minibatch": "MiniBatchKMeans", "river": "River KMeans", "stream": "River STREAMKMeans", "kmeans": "KMeans, all at once",
              "fresh": "KMeans, rows that were never streamed"}


def clusters(runs):
    return [dict(set=s, coordinates=c, run=r) for s in SETS for r in range(max(runs, MIXINGS) if s in ("five", "two") else runs)
            for c in COORDINATES if (c != "alike" or s in PIXELS) and (c != "ungated" or s not in NOISE)]

# Streams whose law is known, by the learner alone: internal/streams. The floor of each, in the figure named; the first edition's
# figures are kept in results/floors_before.json.
FLOORS = {
    "white noise": ("gaussian", .05), "AR(1) .99": ("excess", 1), "AR(1) .998": ("excess", 5), "all columns shrink to a tenth": ("excess", 1),
    "one column shrinks to a tenth": ("excess", 1), "5 % of rows at 8 sd": ("excess", 1.5), "collinear columns": ("gaussian", .05),
    "duplicated columns": ("gaussian", .05), "offset 1.7e9": ("excess", .3), "A/B/A/B": ("recovery", 200), "five + 8 noise, mixed": ("excess", .3),
}
# What is found in rows that were not seen, and the floors of its mean and of the worst run.
FOUND = {
    "clusters": ("`metric`: five Gaussians and 10 columns of noise, mixed: ARI of k-means", .97, .94),
    "broken relation": ("`density`: a column is the sum of the others, and then is not by 0.3 of its sd: AUC", .99, None),
}
# Where the floor holds for preset metric too; elsewhere only density promises it.
FLOORS_OF_BOTH = ["AR(1) .99", "AR(1) .998", "all columns shrink to a tenth", "one column shrinks to a tenth", "5 % of rows at 8 sd", "A/B/A/B"]

# Streams of ten columns: five Gaussians and 8 columns of noise, mixed by a random matrix. What is measured on each, for the
# program's own settings and with one decision at a time switched off.
NOISE_COLUMNS, POOL = 8, 3000
FIXED_ROWS = [18000, 21000, 24000]
BEGINNING = ["lca.model=lca_gauss", "lca.nu=0.01", "lca.nu_unit=covariance", "lca.kernel=gaussian"]  # density, before the data choose
# By which young streams are measured, so that figures of one edition can be held against those of another.
FIXED = ["lca.model=lca_gauss", "lca.nu=0.01", "lca.nu_unit=relative", "lca.kernel=gaussian"]
AT = [1000, 2000, 5000]
# How a learner follows is measured with changes that it may believe within the run: a week is the default of density.
DENSITY = ["lca.preset=density", "lca.accept_after=1000 rows"]
DEFAULT = "default"
CHANGES = {
    DEFAULT: [],
    "n fixed at 6000": ["lca.pass_rows=6000"],
    "warmup_rows 2 d": ["lca.warmup_rows=20"],
    "minibatch 10": ["minibatch.rows=10"],
    "minibatch 500": ["minibatch.rows=500"],
    "neighbours 250": ["lca.neighbours=250"],
    "neighbours 1000": ["lca.neighbours=1000"],
    "model lca": ["lca.model=lca"],
    "model lca_gauss": ["lca.model=lca_gauss"],
    "kernel gaussian": ["lca.kernel=gaussian"],
    "kernel student": ["lca.kernel=student"],
    "nu_unit covariance": ["lca.nu_unit=covariance"],
    "nu_unit relative": ["lca.nu_unit=relative"],
    "preset metric": ["lca.preset=metric"],
    "nu 0.001": ["lca.nu=0.001"],
    "nu 0.1": ["lca.nu=0.1"],
    "drift off": ["lca.accept_after=never"],
    "outlier_gate off": ["lca.outlier_gate=off"],
    "nu_unit absolute": ["lca.nu_unit=absolute"],
    "gamma 0.3": ["lca.gamma=0.3"],
    "gamma 0.9": ["lca.gamma=0.9"],
    "metric diagonal": ["lca.metric=diagonal"],
    "metric isotropic": ["lca.metric=isotropic"],
    "metric low_rank, rank 5": ["lca.metric=low_rank:5"],
    "drift 400": ["lca.accept_after=400 rows"],
    "drift 3000": ["lca.accept_after=3000 rows"],
    "nothing chosen": BEGINNING,
}
STREAMS = {
    "stream": ["n fixed at 6000", "warmup_rows 2 d", "minibatch 10", "minibatch 500", "neighbours 250",
               "neighbours 1000", "model lca", "model lca_gauss", "preset metric", "kernel gaussian", "kernel student", "nu_unit covariance", "nu_unit relative",
               "nu 0.001", "nu 0.1", "gamma 0.3", "gamma 0.9", "metric diagonal",
               "metric isotropic", "metric low_rank, rank 5"],
    "drift": ["nothing chosen", "drift off", "drift 400", "drift 3000"],
    "slow": ["n fixed at 6000", "neighbours 1000", "drift off"],
    "bursts": ["drift off"],
    "redelivery": [],
    "outliers": ["outlier_gate off"],
    "scales": ["nu_unit absolute"],
    "noise": ["preset metric", "model lca_gauss"],
    "near": [],
    "tails": ["kernel gaussian", "kernel student", "model lca_gauss"],
}
AGAIN = ["same identities", "new identities"]
EVERY = [3, 10]  # one minibatch in 3 or in 10 is learnt, as a learner does that is behind


def streams(runs):
    keys = [dict(stream=s, setting=c, run=r) for r in range(runs) for s, changes in STREAMS.items() for c in [DEFAULT, *changes]]
    keys += [dict(stream="again", setting=c, run=r) for r in range(runs) for c in AGAIN]
    return keys + [dict(stream="skip", setting=f"one in {k}", run=r) for r in range(runs) for k in EVERY]


USPS = {"one pass": [], "one pass, n fixed at 6000": ["lca.pass_rows=6000"], "one pass, drift off": ["lca.accept_after=never"], "five passes": [], "batch": []}


def usps(runs):
    return [dict(setting=s, run=r) for r in range(min(5, runs)) for s in USPS]  # there are five splits


# As the paper has its toys.
WHITENED = "five Gaussians + 10 noise, whitened"
SPECTRAL = ["iris", "wine", "digits", "breast_cancer", "five", WHITENED]
SPECTRAL_COORDINATES = ["raw", "standard", "whitening", "metric", "metric, Parzen", "density", "density, relative", "alike", "alike, Parzen"]


def spectral(runs):
    return [dict(set=s, coordinates=c, run=r) for s in SPECTRAL for r in range(10) for c in SPECTRAL_COORDINATES]


GROWTH_ROWS = [500, 1000, 2000, 5000, 10000, 20000]
GROWTH_N = [250, 1000, 3000, 10000]
CENTRES = 10000  # by which the pool's rows are held against many more
SINGLE = "a single Gaussian"
GROWTH_MORE = {"nothing chosen": FIXED, "ν = 0.01, model lca_gauss": ["lca.nu=0.01", "lca.model=lca_gauss"]}


def growth(runs):
    """Each pool; what else limits; and what there is to beat."""
    keys = [dict(neighbours=n, run=r) for r in range(runs) for n in GROWTH_N]
    return keys + [dict(neighbours=POOL, run=r, more=m) for r in range(runs) for m in [*GROWTH_MORE, SINGLE]]


# What is to be reached, or better, by a figure of an experiment's row.
TARGETS = {
    ("usps", "one pass", "nll_all"): 9.0, ("usps", "five passes", "nll_all"): 5.3, ("usps", "five passes", "nll_all_difference"): .14,
    ("stream", DEFAULT, "excess_1000"): .06, ("stream", DEFAULT, "excess_2000"): .02, ("stream", DEFAULT, "excess_5000"): .006,
    ("drift", "nothing chosen", "distance"): .25, ("redelivery", DEFAULT, "bias"): .05, ("outliers", DEFAULT, "excess"): .03,
}
SPECTRAL_TARGETS = {"digits": ("metric, Parzen", .82), "breast_cancer": ("metric", .81), "iris": ("density, relative", .94), "wine": ("metric, Parzen", .93),
                    WHITENED: ("metric", .97)}
VALVE_TARGETS = {"auc": .876, "ap": .756, "pooled_auc": .891}

# Where the cost of a decision is shown, except those for scores, which the machine's settings show: (decision, what instead, experiment, row as decided, row instead, figure, its digits).
DECISIONS = [
    ("n grows with the rows learnt", "n fixed at 6000", "usps", {"setting": "one pass"}, {"setting": "one pass, n fixed at 6000"}, "nll_all_difference", 2),
    ("3000 neighbours", "250", "growth", {"neighbours": 3000, "more": None}, {"neighbours": 250}, "own_20000", 3),
    ("outliers are not learnt", "they are", "streams", {"stream": "outliers", "setting": DEFAULT}, {"stream": "outliers", "setting": "outlier_gate off"}, "excess", 3),
    ("ν of `preset: metric`, for clusters", "ν of `preset: density`", "spectral", {"set": "digits", "coordinates": "metric"},
     {"set": "digits", "coordinates": "density"}, "ari", 2),
    ("columns are scaled, ν is relative to them", "`nu_unit: absolute`", "streams", {"stream": "scales", "setting": DEFAULT},
     {"stream": "scales", "setting": "nu_unit absolute"}, "excess", 3),
    ("a change that lasts starts the stream again", "`accept_after: never`", "streams", {"stream": "drift", "setting": DEFAULT}, {"stream": "drift", "setting": "drift off"}, "excess", 3),
    ("a learner that is behind learns all", "one minibatch in 3", "streams", None, {"stream": "skip", "setting": f"one in {EVERY[0]}"}, "excess", 3),
    ("Gaussian directions", "`model: lca`", "streams", {"stream": "stream", "setting": DEFAULT}, {"stream": "stream", "setting": "model lca"}, "truth_5000", 3),
    ("their number is searched for in the background", "`model: lca_gauss`", "streams", {"stream": "stream", "setting": DEFAULT},
     {"stream": "stream", "setting": "model lca_gauss"}, "truth_5000", 3),
    ("the kernel is chosen by the data", "`kernel: gaussian`", "streams", {"stream": "tails", "setting": DEFAULT},
     {"stream": "tails", "setting": "kernel gaussian"}, "excess", 3),
    ("the kernel is chosen by the data", "`kernel: student`", "streams", {"stream": "stream", "setting": DEFAULT},
     {"stream": "stream", "setting": "kernel student"}, "truth_5000", 3),
    ("`density` measures ν by C_G", "by the columns: `nu_unit: relative`", "streams", {"stream": "stream", "setting": DEFAULT},
     {"stream": "stream", "setting": "nu_unit relative"}, "truth_2000", 3),
]
