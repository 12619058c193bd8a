"""The promises of the program, checked on what it left in its topics. No Kafka in here.

A history is a dict of lists of records ("input", "output", "dead", "snapshots"), each record a dict:
partition, offset, timestamp, key, value, headers [(name, bytes)]. verify() returns a Report.
"""

import collections
import functools
import json

import google_crc32c
import numpy as np
import pyarrow as pa

import accepted
import episodes
import model
import registered
import text

CODES = """LOSS DUP REORDER WRONG_PARTITION UNKNOWN_SRC ROWS ID KEY META VALUE SCORE P WHY IMPUTED NONFINITE DECODE NO_HEADER
RECENT VERSION_UNKNOWN VERSION_BACK SNAP_CONFLICT SNAP_BAD SNAP_ORDER DLQ_BOTH DLQ_DUP DLQ_GOOD DLQ_CHANGED BAD_PASSED
OPEN_TXN ALARM_DUP ALARM_WRONG ACCEPT_DUP ACCEPT_WRONG EPISODE_LOST EPISODE_DUP EPISODE_WRONG""".split()

# The largest relative error of y (by row) and of the score: a few hundred roundings of float32.
TOLERANCE = 1e-5

# The largest error of a gain, as a share of it, or of what matters of a gain in nats.
WHY_TOLERANCE, WHY_LEAST = 1e-4, 1e-2


class Options:
    """How the program was configured: what counts as bad, and where its columns are."""

    def __init__(self, **given):
        self.model_id = "default"
        self.by_key = False  # model.by: key; the id of a model is then model_id/PARTITION/KEY
        self.column = "lca"  # its score is COLUMN_score, and so on
        self.layout = "vector"  # or columns: COLUMN_0, COLUMN_1, ...
        self.score = True
        self.p = True
        self.recent = True  # COLUMN_recent_score and COLUMN_recent_p
        self.series = "partition"  # or key: the rows of which they are the last ones
        self.budget, self.shares = "", 1  # of false episodes, and how many partitions share it; "": there is no topic of alarms
        self.most_series = episodes.MOST_SERIES
        self.former = False  # outputs may be without p, as those of the first edition
        self.why = 0  # features that COLUMN_why names
        self.passthrough = True
        self.on_invalid = "null"  # or dead_letter, or impute
        self.without_model = False  # until_model: pass_through, version 0
        self.schemas = {}  # of messages that name theirs, by id
        for name, value in given.items():
            if not hasattr(self, name):
                raise TypeError(f"no option {name}")
            setattr(self, name, value)


class Report:
    def __init__(self):
        self.codes = collections.Counter()
        self.examples = collections.defaultdict(list)
        self.rows = self.messages = self.dead_letters = self.null_rows = 0
        self.versions, self.models = set(), 0
        self.worst_value = self.worst_bound = self.worst_score = self.worst_p = self.worst_why = 0.0
        self.p_rows = self.why_rows = self.imputed_rows = self.recent_rows = self.episode_rows = 0
        self.partitions = {}  # with their series
        self.alarms = collections.Counter()  # by type

    def fault(self, code, text, count=1):
        assert code in CODES, code
        self.codes[code] += count
        if len(self.examples[code]) < 5:
            self.examples[code].append(text)

    def as_dict(self):
        return {
            "ok": not self.codes, "codes": dict(self.codes), "examples": dict(self.examples), "rows": self.rows,
            "messages": self.messages, "null_rows": self.null_rows, "dead_letters": self.dead_letters,
            "versions": len(self.versions), "first_version": min((v for _, v in self.versions), default=0),
            "last_version": max((v for _, v in self.versions), default=0), "models": self.models, "worst_value": self.worst_value,
            "worst_value_over_bound": self.worst_bound, "worst_score": self.worst_score,
            "alarms": dict(self.alarms), "p_rows": self.p_rows, "recent_rows": self.recent_rows, "episode_rows": self.episode_rows, "worst_p": self.worst_p, "imputed_rows": self.imputed_rows, "why_rows": self.why_rows, "worst_why": self.worst_why,
        }


def verify(history, options):
    r = Report()
    models = models_by_id(history["snapshots"], options, r)
    r.models = sum(len(own) for own in models.values())
    inputs = {(m["partition"], m["offset"]): m for m in history["input"]}
    names = next((one.features for own in models.values() for one in own.values()), None)
    kinds, readable = {}, collections.defaultdict(list)
    for at, m in inputs.items():
        kinds[at], rows = kind_of(m, names, options)
        readable[at[0]].append((at[1], episodes.stamp(m["timestamp"]), rows))
    r.partitions = {p: episodes.Partition(p, sorted(all, key=lambda one: one[0]), options) for p, all in readable.items()}
    note_unseen(history["dead"], inputs, models, options, r)
    out = check_outputs(history["output"], inputs, kinds, models, options, r)
    dead = check_dead(history["dead"], inputs, kinds, r)
    told = accepted.check(check_alarms(history.get("alarms", []), options, r), {p: max(at for at, *_ in all) + 1 for p, all in readable.items()}, r.fault)
    for one in r.partitions.values():
        one.advance(float("inf"))
    episodes.compare([one.told for one in r.partitions.values()], told, r.fault)
    for at, kind in kinds.items():
        rows = kind if isinstance(kind, int) else 1
        if out[at] > 1:
            r.fault("DUP", f"input {at} came out {out[at]} times", (out[at] - 1) * rows)
        if dead[at] > 1:
            r.fault("DLQ_DUP", f"input {at} is {dead[at]} times in the dead letters", dead[at] - 1)
        if out[at] and dead[at]:
            r.fault("DLQ_BOTH", f"input {at} is in the output and in the dead letters")
        if not out[at] and not dead[at] and kind != 0:
            r.fault("LOSS", f"input {at} ({kind if kind == 'bad' else f'{kind} rows'}) is nowhere", rows)
    for topic, count in history.get("open", {}).items():
        if count:
            r.fault("OPEN_TXN", f"{topic}: {count} offsets behind an open transaction", count)
    return r


def models_by_id(records, options, r):
    """The versions of each model, by its id."""
    if not options.by_key:
        return {options.model_id: model.read_models(records, options.model_id, r.fault)}
    own = collections.defaultdict(list)
    for rec in records:
        identity = dict(rec["headers"]).get("lca-model-id", b"").decode(errors="replace")
        if identity:  # a tombstone has none
            own[identity].append(rec)
            if identity.rsplit("/", 2)[1:2] != [str(rec["partition"])]:
                r.fault("SNAP_BAD", f"model {identity} is in partition {rec['partition']}")
    return {identity: model.read_models(all, identity, r.fault) for identity, all in own.items()}


def id_of(message, options):
    """The id of the model of a message."""
    if not options.by_key or message["key"] is None:  # without a key there is no model
        return options.model_id
    return f"{options.model_id}/{message['partition']}/{episodes.encoded(message['key'])}"


def kind_of(message, names, options):
    """"bad": it belongs into the dead letters. Else its number of rows; 0 leaves no trace. And how many rows can be read."""
    if message["value"] is None:
        return 0, 0
    try:
        table = table_of(message["value"], options)
    except Exception:  # pyarrow has many ways to refuse bytes
        return "bad", 0
    if table.num_rows == 0 or names is None:
        return table.num_rows, table.num_rows
    x = model.features_of(table, names)
    if x is None or options.on_invalid == "dead_letter" and not np.isfinite(x).all():
        return "bad", table.num_rows
    return table.num_rows, table.num_rows


def table_of(value, options):
    if registered.named(value):
        return registered.table(value, options.schemas)
    return text.table(value) if text.is_text(value) else pa.ipc.open_stream(value).read_all()


def type_of(message):
    """The content type of a message's output, which has the format that the message has."""
    if registered.named(message["value"]):
        return dict(message["headers"]).get("content-type")  # the input's own
    return (text.JSON if text.is_text(message["value"]) else model.STREAM).encode()


def source_of(record, r, where):
    headers = {k: v for k, v in record["headers"]}
    try:
        at = int(headers["lca-source-partition"]), int(headers["lca-source-offset"])
        headers["lca-source-topic"].decode()
        return at, headers
    except (KeyError, ValueError, AttributeError, TypeError):
        r.fault("NO_HEADER", f"{where} {record['partition']}@{record['offset']} does not say where it is from")
        return None, headers


def kept(record, source):
    """The input's own headers, in their order, and its time."""
    own = [h for h in source["headers"] if h[0] != "content-type"]
    rest = [h for h in record["headers"] if not h[0].startswith("lca-") and h[0] != "content-type"]
    return own == rest and record["timestamp"] == source["timestamp"]


def check_outputs(records, inputs, kinds, models, options, r):
    seen, newest, last = collections.Counter(), {}, {}
    for rec in records:
        where = f"output {rec['partition']}@{rec['offset']}"
        at, headers = source_of(rec, r, "output")
        try:
            version, identity = int(headers["lca-model-version"]), headers["lca-model-id"].decode()
            if identity != id_of(inputs.get(at, {"key": None}), options):
                raise ValueError
        except (KeyError, ValueError):
            r.fault("NO_HEADER", f"{where} lacks its model or version")
            continue
        if at is None:
            continue
        if at not in inputs:
            r.fault("UNKNOWN_SRC", f"{where} names input {at}, which does not exist")
            continue
        if (kind := headers.get("content-type")) != type_of(inputs[at]):
            r.fault("NO_HEADER", f"{where} says that it is {kind}")
            continue
        seen[at] += 1
        if rec["partition"] != at[0]:
            r.fault("WRONG_PARTITION", f"{where} is from partition {at[0]}")
        elif seen[at] == 1:
            if at[1] < last.get(at[0], -1):
                r.fault("REORDER", f"{where}: input {at} after {last[at[0]]}")
            last[at[0]] = max(at[1], last.get(at[0], -1))
        pair = at[0], rec["partition"], identity  # between partitions there is no order to judge
        if version < newest.get(pair, 0):
            r.fault("VERSION_BACK", f"{where}: version {version} after {newest[pair]}")
        newest[pair] = max(version, newest.get(pair, 0))
        if rec["key"] != inputs[at]["key"]:
            r.fault("KEY", f"{where}: key {rec['key']!r}, of the input {inputs[at]['key']!r}")
        if not kept(rec, inputs[at]):
            r.fault("META", f"{where}: headers or time differ from the input's")
        if kinds[at] == "bad":
            r.fault("BAD_PASSED", f"{where}: input {at} is bad")
            continue
        if version == 0 and options.without_model:
            chosen = None
        elif version not in models.get(identity, {}):
            r.fault("VERSION_UNKNOWN", f"{where}: version {version} of {identity} is not in the snapshot topic")
            continue
        else:
            chosen = models[identity][version]
            r.versions.add((identity, version))
        of = r.partitions[at[0]]
        of.group, of.topic = (headers.get(h, b"").decode() for h in ("lca-group", "lca-source-topic"))
        check_rows(where, rec, inputs[at], chosen, options, r)
    return seen


def check_rows(where, rec, source, chosen, options, r):
    before = table_of(source["value"], options)
    keeps = text.is_text(source["value"]) or registered.named(source["value"])  # the bytes that were there
    try:
        if keeps:
            after = added(source["value"], rec["value"], len(chosen.W) if chosen else 1, options)
            if after is None:
                r.fault(*text_fault(where, before, rec["value"], options))
                return
        else:
            after = one_batch(rec["value"])
        y, score, p, why = columns_of(after, options, chosen)
        imputed = after[options.column + "_imputed"] if options.on_invalid == "impute" else None
    except Exception as e:  # pyarrow has many ways to refuse bytes
        r.fault("DECODE", f"{where}: {e}")
        return
    if after.num_rows != before.num_rows:
        r.fault("ROWS", f"{where}: {after.num_rows} rows of {before.num_rows}")
        return
    r.messages += 1
    r.rows += after.num_rows
    if options.passthrough and not keeps and not same_columns(before, after):
        r.fault(*id_fault(where, before, after))
        return
    if chosen is not None:
        x = model.features_of(before, chosen.features)
        check_recent(where, source, x, y, after, chosen, options, r)
        if chosen.young:
            r.null_rows += int(unusable(x, options).sum())
            check_young(where, y, score, p, why, imputed, r)
            return
        if imputed is not None:
            check_imputed(where, x, y, imputed, r)
            x = chosen.impute(x)
        check_values(where, x, y, score, chosen, r)
        check_p(where, x, y, score, p, chosen, r)
        check_why(where, x, y, why, chosen, options, r)
    elif y is not None:
        r.fault("VALUE", f"{where}: values without a model")


def one_batch(value):
    reader = pa.ipc.open_stream(value)
    batches = list(reader)
    if len(batches) != 1:
        raise ValueError(f"{len(batches)} batches")
    return pa.Table.from_batches(batches, reader.schema)


def added(before, after, width, options):
    """Our columns of an output that keeps its input's bytes; None if it does not."""
    if not registered.named(before):
        return text.added(before if options.passthrough else bare(before), after, options.column, options.layout, width)
    if options.schemas[registered.number(before)].is_avro:
        return registered.added(before, after, options.column, options.layout, width, options.passthrough, options.schemas)
    ours = text.added(before[5:] if options.passthrough else bare(before[5:]), after[5:], options.column, options.layout, width)
    if ours is not None:
        registered.check_properties(before, after, ours.column_names, options.schemas)
    return ours


def bare(value):
    """The form of a message without its keys."""
    whole, places = text.objects(value)
    if whole.lstrip("\ufeff \t\r\n").startswith("["):
        return ("[" + ",".join(["{}"] * len(places)) + "]").encode()
    return "\n".join(["{}"] * len(places)).encode()


def text_fault(where, before, value, options):
    named = registered.named(value)
    if not named or not options.schemas[registered.number(value)].is_avro:
        rows = len(text.objects(value[5:] if named else value)[1])
        if rows != before.num_rows:
            return "ROWS", f"{where}: {rows} rows of {before.num_rows}"
    return "ID", f"{where}: the input's bytes changed"


def columns_of(table, options, chosen):
    """y (rows, k) with NaN rows for null, None if all are null; score and p (rows,) and why (rows of pairs), None if there is none."""
    if options.layout == "vector":
        column = table[options.column].combine_chunks()
        if not pa.types.is_fixed_size_list(column.type) or column.type.value_type != pa.float32() or column.type.value_field.nullable:
            raise ValueError(f"{options.column} is {column.type}")
        null = column.is_null().to_numpy(zero_copy_only=False)
        y = np.full((len(column), column.type.list_size), np.nan)
        y[~null] = np.asarray(column.drop_null().flatten()).reshape(-1, column.type.list_size)
    else:
        k = len(chosen.W) if chosen is not None else sum(n.startswith(options.column + "_") for n in table.column_names) - options.score - options.p - 2 * (options.column + "_recent_score" in table.column_names) - bool(options.budget) - (options.why > 0) - (options.on_invalid == "impute")
        parts = [table[f"{options.column}_{i}"] for i in range(k)]
        null = np.array([v is None for v in parts[0].to_pylist()])
        y = np.stack([np.array([np.nan if v is None else v for v in p.to_pylist()], float) for p in parts], 1)
    score = numbers_of(table, options.column + "_score") if options.score else None
    p = numbers_of(table, options.column + "_p") if options.p and not (options.former and options.column + "_p" not in table.column_names) else None
    if score is not None and (np.isnan(score) != null).any() or p is not None and not np.isnan(p[null]).all():
        raise ValueError("score and values are null in different rows")
    why = None
    if options.why:
        why = table[options.column + "_why"].to_pylist()
        if (np.array([v is None for v in why]) != null).any():
            raise ValueError("guilty features and values are null in different rows")
    if not np.isnan(y[null]).all():
        raise ValueError("a null row has values")
    y = np.ma.array(y, mask=np.repeat(null[:, None], y.shape[1], 1))
    return (None if null.all() and chosen is None else y), score, p, why


def numbers_of(table, name):
    column = table[name]
    if column.type != pa.float32():
        raise ValueError(f"{name} is {column.type}")
    if np.isnan(column.drop_null().to_numpy()).any():
        raise ValueError(f"{name} has NaN")
    return np.array([np.nan if v is None else v for v in column.to_pylist()], float)


def same_columns(before, after):
    if after.column_names[: len(before.column_names)] != before.column_names:
        return False
    return all(same_column(before[n], after[n]) for n in before.column_names)


def same_column(a, b):
    if a.type != b.type:
        return False
    if a.equals(b):
        return True
    a, b = a.to_pylist(), b.to_pylist()
    return len(a) == len(b) and all(same(v, w) for v, w in zip(a, b))


def same(v, w):
    if isinstance(v, list) and isinstance(w, list):
        return len(v) == len(w) and all(same(p, q) for p, q in zip(v, w))
    return v == w or (v != v and w != w)


def id_fault(where, before, after):
    if set(before.column_names) <= set(after.column_names):
        key = lambda row: repr(sorted(row.items(), key=lambda kv: kv[0]))
        was, now = before.to_pylist(), after.select(before.column_names).to_pylist()
        if sorted(map(key, was)) == sorted(map(key, now)):
            return "REORDER", f"{where}: rows in another order"
    return "ID", f"{where}: input columns changed"


def check_values(where, x, y, score, chosen, r):
    if y.shape[1] != len(chosen.W):
        r.fault("VALUE", f"{where}: {y.shape[1]} values per row, W has {len(chosen.W)} rows")
        return
    null, good = y.mask[:, 0] if y.shape[1] else np.zeros(len(y), bool), np.isfinite(x).all(1)
    r.null_rows += int(null.sum())
    if (~null & ~good).any():
        r.fault("BAD_PASSED", f"{where}: row {np.argmax(~null & ~good)} has a null, NaN or Inf, and values", int((~null & ~good).sum()))
    if (null & good).any():
        r.fault("VALUE", f"{where}: row {np.argmax(null & good)} is good, and null", int((null & good).sum()))
    use = good & ~null
    x, y = x[use], np.asarray(y.data)[use]
    finite = np.isfinite(y).all(1) & (np.isfinite(score[use]) if score is not None else True)
    if not finite.all():
        r.fault("NONFINITE", f"{where}: {(~finite).sum()} rows", int((~finite).sum()))
    x, y = x[finite], y[finite]
    if not len(x):
        return
    want = chosen.whiten(x)
    error = np.abs(y - want)
    relative = error.max(1) / np.maximum(np.abs(want).max(1), np.finfo(np.float32).tiny)
    bound = (error / np.maximum(chosen.whiten_bound(x), np.finfo(np.float32).tiny)).max(1)
    r.worst_value, r.worst_bound = max(r.worst_value, relative.max()), max(r.worst_bound, bound.max())
    wrong = (relative > TOLERANCE) | (bound > 1)
    if wrong.any():
        r.fault("VALUE", f"{where}: row {np.argmax(wrong)}: relative error {relative[wrong].max():.3g}, {bound[wrong].max():.3g} of the bound", int(wrong.sum()))
    if score is not None:
        want = chosen.score(x)
        off = np.abs(score[use][finite] - want) / np.maximum(1, np.abs(want))
        r.worst_score = max(r.worst_score, off.max())
        if (off > TOLERANCE).any():
            i = np.argmax(off)
            r.fault("SCORE", f"{where}: row {i}: {score[use][finite][i]:.9g}, want {want[i]:.9g}", int((off > TOLERANCE).sum()))


def unusable(x, options):
    """Rows that are null by any model."""
    return np.isinf(x).any(1) if options.on_invalid == "impute" else ~np.isfinite(x).all(1)


def check_young(where, y, score, p, why, imputed, r):
    """A young model says nothing but the score of the last rows."""
    values = [v for c in (score, p) if c is not None for v in c if not np.isnan(v)]
    values += [v for c in (why, None if imputed is None else imputed.to_pylist()) if c is not None for v in c if v is not None]
    if values or not np.ma.getmaskarray(y).all():
        r.fault("VALUE", f"{where}: values by a young model")


def check_imputed(where, x, y, column, r):
    """What was missing is said, in the rows that have values."""
    want = [None if null else int(n) for null, n in zip(np.ma.getmaskarray(y)[:, 0], np.isnan(x).sum(1))]
    got = column.to_pylist()
    r.imputed_rows += sum(bool(n) for n in got)
    if column.type != pa.int16() or got != want:
        r.fault("IMPUTED", f"{where}: {column.type} {got}, want {want}")


def check_recent(where, source, x, y, after, chosen, options, r):
    """Outputs come in the order of the input, so that each row is the next one of its series. Rows that on_invalid: dead_letter sets aside are of none."""
    names = [options.column + "_recent_score", options.column + "_recent_p"]
    if not options.recent or options.former and names[0] not in after.column_names:
        return
    try:
        score, p = (numbers_of(after, n) for n in names)
        said = after[options.column + "_episode"].to_pylist() if options.budget else [None] * len(score)
    except (KeyError, ValueError) as e:
        r.fault("DECODE", f"{where}: {e}")
        return
    if chosen.recent is None:
        if not (np.isnan(score).all() and np.isnan(p).all() and not any(said)):
            r.fault("RECENT", f"{where}: scores of the last rows by a model that has none")
        return
    of = r.partitions[source["partition"]]
    of.advance(source["offset"])
    null = np.ma.getmaskarray(y)[:, 0]
    if chosen.young:  # which rows have a score follows from the input
        null = unusable(x, options)
    at = episodes.stamp(source["timestamp"])
    for i, row in enumerate(x):
        if null[i]:
            if not (np.isnan(score[i]) and np.isnan(p[i]) and said[i] is None):
                r.fault("RECENT", f"{where}: row {i} is null, and has a score of the last rows")
            continue
        one = of.hear(series_of(source, options), source["offset"], chosen)
        want = one.rows.score(chosen.recent, row)
        r.recent_rows += 1
        same = abs(score[i] - want[0]) <= TOLERANCE * max(1, abs(want[0]))
        likely = np.isnan(p[i]) and np.isnan(want[1]) or abs(p[i] - want[1]) <= 100 * TOLERANCE * want[1]
        if not (same and likely):
            r.fault("RECENT", f"{where}: row {i}, the {one.rows.rows}th of its series: {score[i]:.9g}, p {p[i]:.9g}, want {want[0]:.9g}, {want[1]:.9g}")
        if options.budget:
            id = of.row(one, (source["offset"], i, at), float(score[i]), None if np.isnan(p[i]) else float(p[i]), chosen, id_of(source, options))
            r.episode_rows += id is not None
            if said[i] != id:
                r.fault("EPISODE_WRONG", f"{where}: row {i} is of the episode {said[i]}, want {id}")


def note_unseen(dead, inputs, models, options, r):
    """Messages that were set aside after a version that they name has scored their rows, which are in their series."""
    for rec in dead:
        headers = dict(rec["headers"])
        if "lca-model-version" not in headers:
            continue
        try:
            at = int(headers["lca-source-partition"]), int(headers["lca-source-offset"])
            chosen = models.get(id_of(inputs[at], options), {}).get(int(headers["lca-model-version"]))
        except (KeyError, ValueError):  # check_dead says so
            continue
        if chosen is not None and chosen.recent is not None and options.recent:
            r.partitions[at[0]].unseen[at[1]] = functools.partial(follow, inputs[at], chosen, options, r)


def follow(source, chosen, options, r):
    """Moves the series of a message on that has no output."""
    of, x = r.partitions[source["partition"]], model.features_of(table_of(source["value"], options), chosen.features)
    if x is None:  # no row of it has all features
        return
    for i in np.flatnonzero(~unusable(x, options)):
        one = of.hear(series_of(source, options), source["offset"], chosen)
        score, p = one.rows.score(chosen.recent, x[i])
        if options.budget:
            of.row(one, (source["offset"], int(i), episodes.stamp(source["timestamp"])), score, None if np.isnan(p) else p, chosen, id_of(source, options))


def series_of(message, options):
    return message["key"] if options.series == "key" or options.by_key else None


def usable(x, y):
    """Rows that have values, as they should."""
    return np.isfinite(x).all(1) & ~np.ma.getmaskarray(y)[:, 0]


def check_p(where, x, y, score, p, chosen, r):
    """p is made of the score as it is written; where that is left out, of any within its tolerance. A model without
    scores gives none."""
    if p is None:
        return
    if not len(chosen.scores):
        if not np.isnan(p).all():
            r.fault("P", f"{where}: probabilities without scores of the neighbours", int((~np.isnan(p)).sum()))
        return
    use = usable(x, y) & (np.isfinite(score) if score is not None else True)
    want = score[use] if score is not None else chosen.score(x[use])
    margin = 0 if score is not None else TOLERANCE * np.maximum(1, np.abs(want))
    low, high = chosen.p(want + margin), chosen.p(want - margin)
    off = np.maximum(low / p[use] - 1, p[use] / high - 1)
    r.p_rows += len(off)
    r.worst_p = max(r.worst_p, off.max(initial=0))
    wrong = ~(off <= TOLERANCE)
    if wrong.any():
        i = np.argmax(wrong)
        r.fault("P", f"{where}: row {i}: {p[use][i]:.9g}, want {low[i]:.9g} to {high[i]:.9g}", int(wrong.sum()))


def check_why(where, x, y, why, chosen, options, r):
    if why is None:
        return
    use = np.flatnonzero(usable(x, y))
    want = chosen.why(x[use])
    for row, gains in zip(use, want):
        named = [chosen.features.index(e["feature"]) for e in why[row] if e["feature"] in chosen.features]
        nats = np.array([e["nats"] for e in why[row]])
        most = min(options.why, len(gains))
        if len(set(named)) != most or len(nats) != most or (np.diff(nats) > 0).any():
            r.fault("WHY", f"{where}: row {row} names {why[row]}")
            continue
        near = WHY_TOLERANCE * np.maximum(gains, WHY_LEAST)
        others = np.delete(np.arange(len(gains)), named)
        off = np.abs(nats - gains[named]) / near[named]
        r.why_rows += 1
        r.worst_why = max(r.worst_why, off.max() * WHY_TOLERANCE)
        if not (off <= 1).all() or (gains[others] - near[others] > nats[-1] + near[named[-1]]).any():
            r.fault("WHY", f"{where}: row {row} names {why[row]}, want {dict(zip(chosen.features, gains))}")


def check_alarms(records, options, r):
    """Checks what is told of models, and returns what is told of episodes."""
    told, events, partitions = [], set(), collections.defaultdict(set)
    for rec in records:
        where = f"alarm {rec['partition']}@{rec['offset']}"
        try:
            event = json.loads(rec["value"])
            kind, identity = event["type"], event["model_id"]
            if kind.startswith("episode_"):
                told.append((where, rec, event))
                r.alarms[kind] += 1
                continue
            version = event["version"]
            if rec["key"].decode() != identity or not known(identity, options) or not event["message"] or not event["time"]:
                raise ValueError("it does not say of which model it is, when it was or what it means")
            if kind not in ("drift", "regime_returned", "model_changed"):
                raise ValueError("it is of no kind that there is")
            if dict(rec["headers"])["content-type"] != b"application/json":
                raise ValueError("it does not say what it is")
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            r.fault("ALARM_WRONG", f"{where}: {e!r}: {rec['value'][:300]}")
            continue
        r.alarms[kind] += 1
        partitions[identity].add(rec["partition"])
        if (identity, kind, version) in events:
            r.fault("ALARM_DUP", f"{where}: {kind} at version {version} again")
        events.add((identity, kind, version))
    for identity, those in partitions.items():
        if len(those) > 1:
            r.fault("ALARM_WRONG", f"the alarms of {identity} are in the partitions {sorted(those)}")
    return told


def known(identity, options):
    """Whether a model may have that id."""
    return identity.startswith(options.model_id + "/") if options.by_key else identity == options.model_id


CUT_ALL = b"value,key,headers"

# What is left of a message in its dead letter, by what its topic was too small for.
CUTS = {
    None: lambda source: (source["value"], source["key"], list(source["headers"])),
    b"value": lambda source: (b"", source["key"], list(source["headers"])),
    CUT_ALL: lambda source: (b"", None, []),
}


def measured(value, headers):
    """Whether a cut dead letter says what its value was."""
    said = headers.get("lca-original-size"), headers.get("lca-original-crc32c")
    return said == (b"%d" % len(value), b"%08x" % google_crc32c.value(value))


def check_dead(records, inputs, kinds, r):
    seen = collections.Counter()
    for rec in records:
        where = f"dead letter {rec['partition']}@{rec['offset']}"
        at, headers = source_of(rec, r, "dead letter")
        if at is None:
            continue
        cut = headers.get("lca-cut")
        if not headers.get("lca-error-code") or not headers.get("lca-error") and cut != CUT_ALL or not headers.get("lca-source-timestamp"):
            r.fault("NO_HEADER", f"{where} does not say why")
        if at not in inputs:
            r.fault("UNKNOWN_SRC", f"{where} names input {at}, which does not exist")
            continue
        seen[at] += 1
        r.dead_letters += 1
        source = inputs[at]
        own = [h for h in rec["headers"] if not h[0].startswith("lca-")]
        left = CUTS[cut](source) if cut in CUTS else None
        if (rec["value"], rec["key"], own) != left or cut and not measured(source["value"], headers):
            r.fault("DLQ_CHANGED", f"{where}: value, key or headers differ from the input's")
        if kinds[at] != "bad" and "lca-model-version" not in headers:
            r.fault("DLQ_GOOD", f"{where}: input {at} is good")
    return seen
