"""What the checker says of episodes: nothing of those that a plainer account of the rows tells, too, and of every spoiled one what is wrong."""

import copy
import functools
import hashlib
import json
import math
import unittest

import google_crc32c
import numpy as np
import pyarrow as pa

import causes
import episodes
import recent
import test_verify as made
import verify
from model import STREAM

PER, MESSAGES, STEP = 5, 320, 5_000  # rows of a message, messages of a partition, ms between their timestamps
NAMES = ["a", "b"]
FIRST = made.NOW - 3 * 86_400_000


class Evaluator:
    """One that is made up here, a number at a time."""

    def __init__(self, version, usual, tail):
        self.version, self.usual, self.tail = version, usual, tail
        self.c, self.s = [3.0, 0.0], [2.0, 1.0]
        self.mean = [3.0, 0.0, 3.0, 0.0, 1.4, 0.7]
        self.f = [np.diag([3.0, 3, 6, 6, 12, 12]), np.diag([12.0, 12]), np.eye(2)]
        self.f[0][4, 1] = self.f[1][1, 0] = 0.5
        self.low = round((usual + 8) * 32) - 3
        self.weights = [700.0, 200, 80, 12, 8]  # the 99 % quantile is after the fourth: usual + 1/32

    def snapshot(self):
        """A young one, which has nothing else."""
        told = {"learnt": 1000, "settled": True, "learnt": 100, "accepted": [], "constant": [], "scores": {"low": self.low, "bins": 5, "sum": 1000.0}, "first": {"low": 0, "bins": 0, "sum": 0.0}, "tail": self.tail}
        meta = {"lca.format": "3", "lca.young": "true", "lca.model_version": str(self.version), "lca.d": "2", "lca.d_gaussian": "0", "lca.features": json.dumps(NAMES),
                "lca.neighbours": "0", "lca.kind": "lca", "lca.recent": json.dumps(told)}
        parts = {
            "model": pa.table({"kind": ["mean"], "index": pa.array([0], pa.int32()), "eigenvalue": [0.0], "vector": made.lists(np.array([self.c]), pa.float64())}),
            "neighbours": pa.table({"x": made.lists(np.zeros((0, 2)), pa.float32())}),
            "recent": pa.table({"number": [*self.c, *self.s, *self.mean, *self.c, *self.weights]}),
            "factors": pa.table({"factor": pa.array([v for f in self.f for i, r in enumerate(f) for v in r[: i + 1]], pa.float32())}),
        }
        for part, table in parts.items():
            value = made.stream(table, meta)
            yield {"key": f"m/{self.version}/{part}/0".encode(), "value": value, "headers": [
                ("content-type", STREAM.encode()), ("lca-model-id", b"m"), ("lca-model-version", str(self.version).encode()), ("lca-part", part.encode()),
                ("lca-chunk", b"0/1"), ("lca-crc32c", str(google_crc32c.value(value)).encode())]}

    def score(self, state, x):
        state["n"] += 1
        n = state["n"]
        for k, v in enumerate(x):
            if n == 1:
                state["m1"][k], state["m2"][k], state["v"][k] = v, v, 0.0
            state["m1"][k] += max(0.2, 1 / n) * (v - state["m1"][k])
            state["m2"][k] += max(0.05, 1 / n) * (v - state["m2"][k])
            state["v"][k] = float(recent.halves(state["v"][k] + max(0.02, 1 / n) * (abs(v - state["m1"][k]) - state["v"][k])))
        if n <= 50:
            return float(np.float32(math.log(sum(((v - c) / s) ** 2 for v, c, s in zip(x, self.c, self.s)) / 2))), None
        u = [(v - m) / self.s[k % 2] for k, (v, m) in enumerate(zip(state["m1"] + state["m2"] + state["v"], self.mean))]
        square = lambda f, u: sum(sum(float(a) * b for a, b in zip(r, u)) ** 2 for r in f)
        score = float(np.float32(0.8 * math.log(square(self.f[0], u) / 6) + 0.2 * math.log(square(self.f[1], u[4:]) / 2)))
        bin = (score + 8) * 32 - self.low
        if bin > 2:  # beyond it 100 rows are more than a twentieth, of which five are alike
            return score, max(1e-12, 120 / 1020 * (1 + (bin - 2) / 32 / (5 * (40 + 18 + 20) / 32 / 100)) ** -5)
        return score, min(1, (sum(w * min(1, max(0, j + 1 - bin)) for j, w in enumerate(self.weights)) + 20) / 1020)

    def level(self, rate):
        """By the one law that each of the two has."""
        if not rate:
            return math.inf, True
        u, c, n = (self.tail[k] for k in ("above", "peaks", "rows"))
        m = c - math.floor(c / 4)
        over = m * (max(1, c / (rate * n)) ** (1 / m) - 1)
        return (math.log(math.exp(u) + over * self.tail["light"]) if self.tail["share"] else u + over * self.tail["heavy"]), rate * n < 10


OLD = Evaluator(1, 0.5, {"above": 0.75, "peaks": 40, "rows": 4000, "heavy": 0.25, "light": 9.0, "share": 0, "most": 0})
NEW = Evaluator(2, 0.75, {"above": 0.5, "peaks": 41, "rows": 1900, "heavy": 9.0, "light": 0.5, "share": 1, "most": 0})


def rate(budget, rows, shares=2):
    """Of the budget per row where a message of PER rows comes every STEP, before a message that comes after that many rows."""
    if budget == "1/200 rows":
        return 1 / 200
    number, unit = budget.split("/")
    if rows < 2:
        return 0
    then = 2 ** int(math.log2(rows))
    hours = STEP * (math.ceil(then / PER) - 1) / 3_600_000
    return int(number) / {"hour": 1, "day": 24}[unit] / shares * hours / then


def told(rows, name, key, moved=()):
    """The records of a series by its scores, and of each row the id of its episode: from the first row over the level to where the usual ones are enough.
    At the rows of moved another column comes first."""
    records, ids, i, said_at = [], [None] * len(rows), 0, 0
    while i < len(rows):
        first, begin = rows[i], i
        if first["score"] <= first["level"]:
            i += 1
            continue
        usual = [r["score"] <= first["usual"] for r in rows[i + 1:]]
        ends = [j for j in range(len(usual)) if j >= 29 and all(usual[j - 29: j + 1]) or sum(usual[max(0, j - 199): j + 1]) > 100]
        i = begin + 1 + ends[0] if ends else len(rows)
        own, said, seq, updated = rows[begin: i + bool(ends)], first["time"], 0, 0
        id = f"{key}/{first['offset']}.{first['row']}"
        for j, r in enumerate(own):
            so_far = own[: j + 1]
            before = own[j - 1]["score"] > own[j - 1]["level"]
            closes = bool(ends) and j == len(own) - 1
            soon = j + 1 > max(30, 2 * updated) and r["score"] > first["usual"]  # once more, when more is known
            other = (r["offset"], r["row"]) in moved and r["score"] > first["usual"] and j - said_at >= 10
            if closes or j == 0 or (r["score"] > r["level"] and not before or soon or other) and r["time"] - said >= 60_000:
                updated = j and j + 1
                peak = max(so_far, key=lambda s: s["score"])
                high = lambda k: k == 0 or so_far[k]["score"] > first["usual"]
                fades = lambda k: any(so_far[k]["score"] < min(so_far[i]["score"], first["usual"] + 5) - 0.015 * (k - i) - 1e-12 for i in range(k))
                to = max(k for k in range(len(so_far)) if high(k) and not (closes and fades(k)))
                place = lambda s: {"offset": s["offset"], "row": s["row"], "time": time_of(s["time"])}
                records.append({
                    "schema": 1, "type": "episode_" + ("closed" if closes else "updated" if j else "opened"), "id": id, "seq": seq, "reason": "usual" if closes else None,
                    "group": "g", "topic": "in", "partition": first["partition"], "series": name, "model_id": "m", "version": r["version"], "time": time_of(r["time"]),
                    "from": place(first), "to": place(own[to]), "rows": to + 1, "rows_over": sum(s["score"] > s["level"] for s in (so_far[: to + 1] if closes else so_far)),
                    "peak": {"score": peak["score"], "p": peak["p"], "offset": peak["offset"], "row": peak["row"]},
                    "level": first["level"], "budget": first["budget"], "young": first["young"], "message": "a sentence"})
                said, said_at, seq = r["time"], j, seq + 1
        ids[begin:i] = [id] * (i - begin)
        i += 1
    return records, ids


def time_of(ms):
    whole = np.datetime64(ms, "ms").astype(str)
    return whole.removesuffix(".000") + "Z"


@functools.cache
def made_history(budget):
    """Two partitions, two series by key in each, of which one has two faults, and rows of no key. One message in 40 cannot be used."""
    rng = np.random.default_rng(11)
    h = {"input": [], "output": [], "dead": [], "alarms": [], "snapshots": made.log([r for e in (OLD, NEW) for r in e.snapshot()])}
    series_of = []
    for p in range(2):
        into, series, outs, at = [], {}, [], 0
        for m in range(MESSAGES):
            x = rng.normal(size=(PER, 2)) * OLD.s + OLD.c
            key = [b"k/1", b"k2", None][0 if m % 2 == 0 else 1 if m % 8 != 7 else 2]
            if p == 0 and key == b"k/1" and (100 <= m < 130 or 150 <= m < 270):
                x[:, 1] += 2.5 if m < 150 else 0.6  # which is now and then over the level
            if p == 1 and key == b"k2" and m >= 250:
                x[:, 0] *= 2.2
            bad = m % 40 == 39
            table = pa.table({"other": x[:, 0]} if bad else {"a": x[:, 0], "b": x[:, 1]})
            source = {"partition": p, "key": key, "timestamp": FIRST + STEP * m, "value": made.stream(table), "headers": [("content-type", b"arrow")]}
            into.append(source)
            outs.append((source, x, bad, at))
            at += PER
        made.log(into)
        for source, x, bad, at in outs:
            head = source["headers"] * bad + [("lca-source-topic", b"in"), ("lca-source-partition", str(p).encode()), ("lca-source-offset", str(source["offset"]).encode()), ("lca-group", b"g")]
            if bad:
                h["dead"].append({**source, "headers": head + [("lca-error-code", b"no"), ("lca-error", b"no"), ("lca-source-timestamp", b"5")]})
                continue
            e = NEW if source["offset"] > 260 else OLD
            one = series.setdefault(source["key"], {"n": 0, "m1": [0, 0], "m2": [0, 0], "v": [0, 0], "rows": []})
            level, young = e.level(rate(budget, at))
            for i, row in enumerate(x):
                score, chance = e.score(one, row)
                one["rows"].append({
                    "partition": p, "offset": source["offset"], "row": i, "time": source["timestamp"], "score": score, "p": chance and float(np.float32(chance)), "version": e.version, "budget": budget,
                    "level": level if one["n"] > 50 else math.inf, "usual": min(e.usual + 1 / 32, e.tail["above"]), "young": young})
            head += [("content-type", STREAM.encode()), ("lca-model-id", b"m"), ("lca-model-version", str(e.version).encode())]
            h["output"].append({**source, "headers": head, "of": source["key"], "table": pa.ipc.open_stream(source["value"]).read_all()})
        ids = {}
        for value, one in series.items():
            name = "~" if value is None else value.decode().replace("/", "%2F")
            series_of.append((p, name, value, one["rows"]))
            _, own = told(one["rows"], value and value.decode(), f"m/{p}/{name}")
            ids |= {(r["offset"], r["row"]): (r["score"], r["p"], id) for r, id in zip(one["rows"], own)}
        h["input"] += into
        for r in (r for r in h["output"] if r["partition"] == p):
            offset = int(dict(r["headers"])["lca-source-offset"])
            columns = list(zip(*(ids[offset, i] for i in range(PER))))
            null = pa.nulls(PER, made.lists(np.zeros((1, 2)), pa.float32()).type)
            r["value"] = made.stream(r.pop("table").append_column(pa.field("lca", pa.list_(pa.field("item", pa.float32(), nullable=False), 2)), null).append_column(
                "lca_score", pa.nulls(PER, pa.float32())).append_column("lca_p", pa.nulls(PER, pa.float32())).append_column("lca_recent_score", pa.array(columns[0], pa.float32())).append_column(
                "lca_recent_p", pa.array(columns[1], pa.float32())).append_column("lca_episode", pa.array(columns[2], pa.string())))
            del r["of"]
    # What is to be told of causes, and at which rows another comes first, is in tests of its own.
    r = verdict({**h, "alarms": []}, budget=budget)
    moved = {p: {(t["to"]["offset"], t["to"]["row"]) for t in part.told if t["type"] == "episode_updated"} for p, part in r.partitions.items()}
    for p, name, value, rows in series_of:
        records, _ = told(rows, value and value.decode(), f"m/{p}/{name}", moved[p])
        h["alarms"] += [{"partition": p, "timestamp": made.NOW, "key": f"m/{p}/{name}".encode(), "headers": [("content-type", b"application/json")], "event": r} for r in records]
    made.log(h["alarms"])
    of = {(t["id"], t["seq"]): t["causes"] for part in r.partitions.values() for t in part.told}
    for a in h["alarms"]:
        event = a.pop("event")
        event["causes"] = [{k: n if k == "rank" else c[k] for k in ("feature", "rank", "direction", "before", "now", "onset")} for n, c in enumerate(of.get((event["id"], event["seq"]), []), 1)]
        a["value"] = json.dumps(event).encode()
    return h


def history(budget="1/200 rows"):
    return copy.deepcopy(made_history(budget))


def verdict(h, **options):
    return verify.verify(h, verify.Options(model_id="m", **{"series": "key", "budget": "1/200 rows", "shares": 2, **options}))


def event(h, i, change):
    made.change_alarm(h, i, change)


def number_of(h, kind, after=0):
    """Of the record of that kind which comes next."""
    return next(i for i, r in enumerate(h["alarms"]) if i >= after and json.loads(r["value"])["type"] == "episode_" + kind)


def changed(kind, change):
    return lambda h: event(h, number_of(h, kind), change)


def without(h, keep):
    h["alarms"] = [r for r in h["alarms"] if keep(json.loads(r["value"]))]


def first_id(h):
    return json.loads(h["alarms"][0]["value"])["id"]


def other_row(h, change):
    """Changes what the rows of the first message with an episode say of it."""
    for r in h["output"]:
        if any(ids := pa.ipc.open_stream(r["value"]).read_all()["lca_episode"].to_pylist()):
            made.edit(r, made.replace("lca_episode", lambda c: pa.array(change(ids), pa.string())))
            return


def again(h, kind, **more):
    i = number_of(h, kind)
    made.clone(h, "alarms", i)
    event(h, i + 1, lambda e: e.update(**more))


def swapped(h):
    i = number_of(h, "updated")
    h["alarms"][i - 1], h["alarms"][i] = h["alarms"][i], h["alarms"][i - 1]


LOST, DUP, WRONG = "EPISODE_LOST", "EPISODE_DUP", "EPISODE_WRONG"

# name, what is done to a good history, the codes it must give, and no others
SPOILED = [
    ("an episode lost", lambda h: without(h, lambda e, id=first_id(h): e["id"] != id), {LOST}),
    ("an opening lost", lambda h: h["alarms"].pop(number_of(h, "opened")), {LOST}),
    ("an update lost", lambda h: h["alarms"].pop(number_of(h, "updated")), {LOST}),
    ("never closed", lambda h: h["alarms"].pop(number_of(h, "closed")), {LOST}),
    ("all lost", lambda h: h["alarms"].clear(), {LOST}),
    ("opened twice", lambda h: again(h, "opened"), {DUP}),
    ("opened twice, with another number", lambda h: again(h, "opened", seq=99), {WRONG}),
    ("updated twice", lambda h: again(h, "updated"), {DUP}),
    ("closed twice", lambda h: again(h, "closed"), {DUP}),
    ("closed twice, with another number", lambda h: again(h, "closed", seq=99), {WRONG}),
    ("closed for two reasons", lambda h: again(h, "closed", seq=99, reason="silent"), {WRONG}),
    ("an episode that is none", lambda h: again(h, "opened", id="m/0/k2/7.0"), {WRONG}),
    ("records in another order", swapped, {WRONG}),
    ("closed for another reason", changed("closed", lambda e: e.update(reason="evicted")), {WRONG}),
    ("closed for no reason", changed("closed", lambda e: e.update(reason=None)), {WRONG}),
    ("another level", changed("opened", lambda e: e.update(level=e["level"] + 1e-6)), {WRONG}),
    ("the level of another version", changed("opened", lambda e: e.update(level=NEW.level(1 / 200)[0])), {WRONG}),
    ("rows", changed("closed", lambda e: e.update(rows=e["rows"] + 1)), {WRONG}),
    ("rows over the level", changed("closed", lambda e: e.update(rows_over=e["rows_over"] - 1)), {WRONG}),
    ("the first row", changed("closed", lambda e: e["from"].update(row=(e["from"]["row"] + 1) % PER)), {WRONG}),
    ("the last row", changed("closed", lambda e: e["to"].update(offset=e["to"]["offset"] + 1)), {WRONG}),
    ("the time of the last row", changed("closed", lambda e: e["to"].update(time="2026-01-01T00:00:00Z")), {WRONG}),
    ("the time", changed("updated", lambda e: e.update(time=None)), {WRONG}),
    ("no time", changed("updated", lambda e: e.update(time="yesterday")), {WRONG}),
    ("the peak's score", changed("closed", lambda e: e["peak"].update(score=e["peak"]["score"] * 1.0001)), {WRONG}),
    ("the peak's probability", changed("closed", lambda e: e["peak"].update(p=None)), {WRONG}),
    ("the peak's place", changed("closed", lambda e: e["peak"].update(row=77)), {WRONG}),
    ("the version", changed("opened", lambda e: e.update(version=7)), {WRONG}),
    ("the model", changed("opened", lambda e: e.update(model_id="n")), {WRONG}),
    ("young", changed("opened", lambda e: e.update(young=not e["young"])), {WRONG}),
    ("the budget", changed("opened", lambda e: e.update(budget="1/day")), {WRONG}),
    ("the series", changed("opened", lambda e: e.update(series="k2")), {WRONG}),
    ("the partition", changed("opened", lambda e: e.update(partition=1)), {WRONG}),
    ("the topic", changed("opened", lambda e: e.update(topic="on")), {WRONG}),
    ("the group", changed("opened", lambda e: e.update(group="h")), {WRONG}),
    ("a field missing", changed("opened", lambda e: e.pop("rows")), {WRONG}),
    ("a field that is none", changed("opened", lambda e: e.update(why=[])), {WRONG}),
    ("another schema", changed("opened", lambda e: e.update(schema=2)), {WRONG}),
    ("no message", changed("opened", lambda e: e.update(message="")), {WRONG}),
    ("another key", lambda h: h["alarms"][0].update(key=b"m/0/k2"), {WRONG}),
    ("no type", lambda h: h["alarms"][0].update(headers=[]), {WRONG}),
    ("a series in two partitions", lambda h: h["alarms"][0].update(partition=1), {WRONG}),
    ("a cause less", changed("opened", lambda e: e["causes"].pop()), {WRONG}),
    ("causes in another order", changed("closed", lambda e: (e["causes"].reverse(), [c.update(rank=i) for i, c in enumerate(e["causes"], 1)])), {WRONG}),
    ("a cause's number", changed("closed", lambda e: e["causes"][0].update(rank=2)), {WRONG}),
    ("a cause's column", changed("closed", lambda e: e["causes"][0].update(feature="c")), {WRONG}),
    ("a cause's direction", changed("closed", lambda e: e["causes"][0].update(direction="quiet")), {WRONG}),
    ("before", changed("closed", lambda e: e["causes"][0].update(before=e["causes"][0]["before"] + 0.1)), {WRONG}),
    ("now", changed("closed", lambda e: e["causes"][0].update(now=None)), {WRONG}),
    ("onset", changed("closed", lambda e: e["causes"][0].update(onset=e["causes"][0]["onset"] - 1)), {WRONG}),
    ("not an object", lambda h: h["alarms"][0].update(value=b"[]"), {"ALARM_WRONG", LOST}),
]

# The same of rows.
SPOILED_ROWS = [
    ("a row of no episode", lambda h: other_row(h, lambda ids: [None] * PER), {WRONG}),
    ("a row of another series' episode", lambda h: other_row(h, lambda ids: [id and "m/0/k2/" + id.rpartition("/")[2] for id in ids]), {WRONG}),
    ("rows of an episode before it", lambda h: other_row(h, lambda ids: [ids[-1]] * PER), {WRONG}),
    ("no such column", lambda h: made.edit(h["output"][-1], lambda t: t.drop_columns(["lca_episode"])), {"DECODE"}),
]


class Good(unittest.TestCase):
    def test_good(self):
        for budget in ("1/200 rows", "36/hour", "860/day"):
            h = history(budget)
            r = verdict(h, budget=budget)
            self.assertEqual(dict(r.codes), {}, dict(r.examples))
            self.assertTrue(r.alarms["episode_opened"] > 3 and r.alarms["episode_updated"] > 3 and 2 < r.alarms["episode_closed"] < r.alarms["episode_opened"], r.alarms)
            self.assertTrue(200 < r.episode_rows < 1000, r.episode_rows)
            seen = [json.loads(a["value"]) for a in h["alarms"]]
            self.assertEqual({e["version"] for e in seen}, {1, 2})
            self.assertEqual({e["series"] for e in seen} >= {"k/1", "k2"}, True)

    def test_nothing_is_told(self):
        """Without a topic of alarms, no record may be there, and no row says an episode."""
        h = history()
        for r in h["output"]:
            made.edit(r, lambda t: t.drop_columns(["lca_episode"]))
        self.assertEqual(set(verdict(h, budget="").codes), {WRONG})
        self.assertEqual(dict(verdict({**h, "alarms": []}, budget="").codes), {})


class Spoiled(unittest.TestCase):
    def test_records(self):
        known = [p.told for p in verdict(history()).partitions.values()]  # what is to be told of the rows
        for name, spoil, want in SPOILED:
            with self.subTest(name):
                h, r = {"alarms": copy.deepcopy(made_history("1/200 rows")["alarms"])}, verify.Report()
                spoil(h)
                episodes.compare(known, verify.check_alarms(h["alarms"], verify.Options(model_id="m"), r), r.fault)
                self.assertEqual(set(r.codes), want, r.examples)

    def test_rows(self):
        for name, spoil, want in SPOILED_ROWS:
            with self.subTest(name):
                h = history()
                spoil(h)
                self.assertEqual(set(verdict(h).codes), want)

    def test_too_large(self):
        """A message of which the output was too large moves its series on, and its rows are of episodes."""
        h = history()
        at = int(first_id(h).rpartition("/")[2].split(".")[0])
        begin = next(r for r in h["output"] if r["partition"] == 0 and dict(r["headers"])["lca-source-offset"] == b"%d" % at)
        dead = copy.deepcopy(next(m for m in h["input"] if (m["partition"], m["offset"]) == (0, at)))
        own = [(k, v) for k, v in begin["headers"] if k.startswith("lca-source")]
        dead["headers"] += own + [("lca-error-code", b"output_too_large"), ("lca-error", b"no"), ("lca-source-timestamp", b"5"), ("lca-model-version", dict(begin["headers"])["lca-model-version"])]
        h["output"].remove(begin)
        h["dead"].append(dead)
        self.assertEqual(dict(verdict(h).codes), {})
        made.header(dead, "lca-model-version", None)
        self.assertLessEqual({"RECENT", WRONG}, set(verdict(h).codes))

    def test_other_settings(self):
        """A level is of the budget, of how many partitions share it, and of the time that rows take, those of messages that are set aside too."""
        self.assertLessEqual({WRONG}, set(verdict(history(), budget="1/150 rows").codes))
        h = history("36/hour")
        self.assertLessEqual({WRONG}, set(verdict(h, budget="36/hour", shares=1).codes))
        for r in h["input"] + h["output"] + h["dead"]:
            r["timestamp"] += 5 * (r["timestamp"] - FIRST)
        self.assertLessEqual({WRONG}, set(verdict(h, budget="36/hour").codes))

    def test_state_that_is_lost(self):
        """A series that begins again, a row that it had before, and one that it never had."""
        for spoil in (lambda out: out.pop(104), lambda out: out.insert(105, copy.deepcopy(out[104]))):
            h = history()
            spoil(h["output"])
            self.assertLessEqual({"RECENT", WRONG}, set(verdict(h).codes))


class Clock(unittest.TestCase):
    def test_rows(self):
        """2, 4, 8 … 4096, and then each 4096."""
        clock, said = episodes.RowClock(), []
        for i in range(20000):
            clock.step(10**9 * i)
            if not said or clock.rows != said[-1]:
                said.append(clock.rows)
                self.assertEqual(clock.time, 10**9 * max(0, clock.rows - 1))
        self.assertEqual(said, [0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384])

    def test_rows_of_one_stamp(self):
        """Machines that are asked together each five minutes: the next answer is no pause."""
        clock = episodes.RowClock()
        for i in range(40000):
            clock.step(i // 20 * 300 * 10**9)
        self.assertAlmostEqual(clock.elapsed / (1999 * 300 * 10**9), 1, 2)

    def test_stamps(self):
        """Seconds, and what each adds, where 10 s are usual."""
        for name, given in [
            ("each its time", [(0, 0), (10, 10), (70, 60), (170, 100)]),
            ("what is late adds nothing", [(100, 0), (110, 10), (60, 0), (115, 5)]),
            ("a pause counts when another row confirms it, and then no more than ten times the usual", [(0, 0), (5000, 0), (5000, 0), (5010, 100), (5010, 10)]),
            ("one wrong stamp is nothing", [(0, 0), (9e9, 0), (10, 10), (20, 10)]),
            ("the smaller of two is believed", [(0, 0), (9e9, 0), (5000, 100), (5010, 10)]),
            ("what goes back is believed after a hundred rows", [(5000, 0)] + [(10, 0)] * 100 + [(20, 10)]),
            ("a hundred in a row", [(5000, 0)] + [(10, 0)] * 99 + [(5000, 0)] + [(10, 0)] * 99 + [(5001, 1)]),
        ]:
            with self.subTest(name):
                stamps = episodes.Stamps()
                self.assertEqual([stamps.next(int(at * 10**9), 10 * 10**9) / 10**9 for at, _ in given], [want for _, want in given])

    def test_budget(self):
        clock = episodes.RowClock()
        self.assertEqual((episodes.Budget("1/day", 2).rate(clock), episodes.Budget("3/2000 rows", 2).rate(clock)), (0, 0.0015))
        clock.rows, clock.time = 1000, 3600 * 10**9
        for text, want in (("24/day", 1 / 2000), ("2/hour", 1 / 1000), ("84/week", 1 / 4000), ("720/30 days", 1 / 2000), ("144/72 hours", 1 / 1000)):
            self.assertAlmostEqual(episodes.Budget(text, 2).rate(clock), want, 12)


class Reasons(unittest.TestCase):
    """Other ends than that rows are usual again, in one partition."""

    def partition(self, offsets, apart, most=3):
        options = verify.Options(model_id="m", budget="1/200 rows", series="key", most_series=most)
        p = episodes.Partition(0, [(o, o * apart * 10**9, 1) for o in offsets], options)
        self.chosen = type("Model", (), {"d": 2, "features": NAMES, "version": 1})()
        self.chosen.recent = recent.Evaluator(json.dumps({
            "settled": True, "learnt": 100, "accepted": [], "constant": [], "scores": {"low": 0, "bins": 0, "sum": 0}, "first": {"low": 0, "bins": 0, "sum": 0}, "tail": OLD.tail}), 2,
            np.array([*OLD.c, *OLD.s, *OLD.mean, *OLD.c]), np.array([v for f in OLD.f for i, r in enumerate(f) for v in r[: i + 1]]))
        self.chosen.recent.usual = 0.5
        return p

    def rows(self, p, name, offset, scores, chosen=None, model="m"):
        p.advance(offset)
        for i, score in enumerate(scores):
            one = p.hear(name, offset, chosen or self.chosen)
            one.rows.score(self.chosen.recent, np.array(OLD.c))
            one.rows.rows += 50  # beyond the first ones
            p.row(one, (offset, i, offset * 10**9), score, None, chosen or self.chosen, model)

    def ends(self, p):
        return [(t["id"], t["seq"], t["type"].removeprefix("episode_"), t["reason"]) for t in p.told]

    def test_silent(self):
        """A day by the clock of the partition, looked at before the first message of the next 4096 offsets."""
        for day, want in ((86_300, []), (86_500, [("m/0/a/10.0", 1, "closed", "silent")])):
            p = self.partition([*range(10, 4000), 4096, 5000], 1)
            p.clock.stamps.largest = None
            self.rows(p, b"a", 10, [9.0])
            self.rows(p, b"b", 3999, [0.0])
            p.clock.elapsed = p.series["a"].elapsed + day * 10**9
            self.assertEqual(self.ends(p), [("m/0/a/10.0", 0, "opened", None)])
            p.advance(4096)
            p.advance(5000)
            self.assertEqual(self.ends(p)[1:], want)
            self.assertEqual(p.told[-1]["time"], 10 * 10**9)

    def test_evicted(self):
        """Those that are too many go before the first message of the next 4096 offsets, the one that was not heard of for the longest time first."""
        p = self.partition(range(9000), 1)
        for i, name in enumerate([b"a", b"b", b"c", b"d", b"a"]):
            self.rows(p, name, i, [9.0 if name in b"ab" and i < 4 else 0.0])
        p.advance(4095)
        self.assertEqual([k for _, _, k, _ in self.ends(p)], ["opened", "opened"])
        p.advance(4096)
        self.assertEqual(self.ends(p)[2:], [("m/0/b/1.0", 1, "closed", "evicted")])
        self.rows(p, b"b", 4100, [0.0])
        self.assertEqual((p.series["b"].rows.rows, [*p.series]), (51, ["c", "d", "a", "b"]))

    def test_model_replaced(self):
        p = self.partition(range(9), 1)
        self.rows(p, b"a", 0, [9.0])
        other = copy.copy(self.chosen)
        other.features, other.version = ["a", "c"], 2
        self.rows(p, b"a", 1, [0.0], other)
        self.assertEqual(self.ends(p)[1:], [("m/0/a/0.0", 1, "closed", "model_replaced")])
        self.assertEqual((p.told[1]["version"], p.series["a"].rows.rows), (1, 51))
        self.rows(p, b"b", 2, [9.0])
        self.rows(p, b"b", 3, [9.0], model="n")
        self.assertEqual(self.ends(p)[2:], [("m/0/b/2.0", 0, "opened", None), ("m/0/b/2.0", 1, "closed", "model_replaced"), ("n/0/b/3.0", 0, "opened", None)])
        self.assertEqual([t["model_id"] for t in p.told[2:]], ["m", "m", "n"])

    def test_accepted(self):
        """The first row that a model scores which knows that this is normal begins the series again. What opened later is not meant."""
        p = self.partition(range(9), 1)
        self.rows(p, b"a", 0, [9.0])
        self.rows(p, b"b", 1, [9.0])
        other = copy.copy(self.chosen)
        other.recent, other.version = copy.copy(self.chosen.recent), 2
        other.recent.accepted = {p.identity(b"a"): (0, None, "accepted")}
        self.rows(p, b"a", 2, [9.0], other)
        self.assertEqual(len(p.told), 2)
        other.recent.accepted = {p.identity(b"a"): (1, 2000, "accepted")}
        self.rows(p, b"b", 3, [9.0], other)
        self.rows(p, b"a", 4, [0.0], other)
        self.assertEqual(self.ends(p)[2:], [("m/0/a/0.0", 1, "closed", "accepted")])
        self.assertEqual((p.told[2]["version"], p.told[2]["time"], p.series["a"].rows.rows), (2, 2 * 10**9, 51))
        self.rows(p, b"c", 5, [9.0])
        other.recent.accepted = {p.identity(b"c"): (1, 2000, "accepted")}
        self.rows(p, b"c", 6, [9.0], other)  # it has begun after what was meant
        self.assertEqual(self.ends(p)[3:], [("m/0/c/5.0", 0, "opened", None)])
        p.number = 7
        self.assertEqual(p.identity(b"press 3"), 0x27C9987C6BBDBD1)  # as the program has it

    def test_no_timestamps(self):
        """Rows count instead: 30 to the second record, then twice as many, 1000 between others, and 100,000 at most."""
        e = episodes.Episode((0, 0, None), 1.0, False, 0.5, "m")
        said = [(i, s) for i in range(3000) if (s := e.step((i, 0, None), 2.0 if i % 2 == 0 else 0.9, None, 1.0))]
        self.assertEqual(said, [(0, "opened")] + [(i, "updated") for i in (30, 62, 126, 254, 510, 1022, 2022)])
        e = episodes.Episode((0, 0, None), 1.0, False, 0.5, "m")
        self.assertEqual([i for i in range(240_000) if e.step((i, 0, None), 2.0, None, 1.0)], [0] + [2 ** k - 2 for k in range(5, 18)] + [231_070])

    def test_daily(self):
        e, hour = episodes.Episode((0, 0, 0), 1.0, False, 0.5, "m"), 3600 * 10**9
        self.assertEqual([i for i in range(0, 60 * 60 * 2) if e.step((i, 0, i * hour // 120), 2.0, None, 1.0)], [0] + [2 ** k - 2 for k in range(5, 13)] + [4094 + 24 * 120])

    def test_names(self):
        """A series without a value, of bytes that are no text, and of a long value."""
        long = b"x" * 201
        p = self.partition(range(9), 1, most=9)
        for i, name in enumerate([None, b"\xff\xfe/", long]):
            self.rows(p, name, i, [9.0])
        digest = hashlib.sha256(long).hexdigest()
        self.assertEqual([(t["id"], t["series"], t.get("series_base64")) for t in p.told], [
            ("m/0/~/0.0", None, None), ("m/0/%FF%FE%2F/1.0", "\ufffd/", "//4v"), (f"m/0/{digest}/2.0", digest, None)])


class Causes(unittest.TestCase):
    def evaluator(self):
        return recent.Evaluator(json.dumps({
            "settled": True, "learnt": 100, "accepted": [], "constant": [], "scores": {"low": 0, "bins": 0, "sum": 0}, "first": {"low": 0, "bins": 0, "sum": 0}, "tail": OLD.tail}), 4,
            np.array([*[10.0, 20, 30, 40], *[2.0] * 4, *[10.0, 20, 30, 40] * 2, *[1.4] * 4, *[10.0, 20, 30, 40]]),
            np.array([v for p in (12, 4, 4) for r in np.eye(p) * 20 for v in r[: int(np.argmax(r)) + 1]]))

    def test_relation(self):
        """Two columns that went together, and no longer do, each in its range."""
        rng, e = np.random.default_rng(3), self.evaluator()
        c = np.eye(4)
        c[1, 3] = c[3, 1] = 0.98
        f = np.linalg.inv(np.linalg.cholesky(c))
        e.triangles[0][:4, :4], e.triangles[2] = f, f
        series, steps, cause = recent.Series(4), causes.Steps(4), None
        for i in range(430):
            u = rng.normal(size=4) * [1, 0.1, 1, 0.1] + rng.normal() * np.array([0, 1, 0, 1 if i < 400 else -1])
            score, _ = series.score(e, e.c + 2 * u)
            if i >= 400:
                cause = cause or causes.Cause(e, series, steps)
                cause.step(e, series, steps, score)
                cause.ends()
            else:
                steps.step(e, series)
        got = cause.ranked(e, ["a", "b", "c", "d"])
        self.assertEqual({c["feature"] for c in got[:2]}, {"b", "d"})
        self.assertTrue(got[1]["rank"] > 1.75 and got[2]["rank"] < 1.5, got)

    def test_ranked(self):
        """A column that went up by five scales, one that became noisy, and a steady one that has stopped."""
        rng, e = np.random.default_rng(2), self.evaluator()
        series, steps, cause = recent.Series(4), causes.Steps(4), None
        for i in range(600):
            x = rng.normal(size=4) * 2 + e.c
            if i >= 400:
                x = np.array([x[0] + 10, 20 + 4 * (x[1] - 20), 29.0, x[3]])
            score, _ = series.score(e, x)
            if i < 401:
                steps.step(e, series)
                continue
            cause = cause or causes.Cause(e, series, steps)
            cause.step(e, series, steps, score)
            cause.ends()
        got = cause.ranked(e, ["a", "b", "c", "d"])
        by = {c["feature"]: c for c in got}
        self.assertEqual({k: c["direction"] for k, c in by.items() if k != "d"}, {"a": "up", "b": "noisy", "c": "quiet"})
        self.assertEqual(got[-1]["feature"], "d")
        self.assertTrue(abs(by["a"]["now"] - by["a"]["before"] - 10) < 1 and abs(by["a"]["before"] - 10) < 1 and abs(by["c"]["now"] - 29) < 1e-3, by)
        self.assertIn(by["a"]["onset"], (-1, 0))

    def test_far(self):
        """What a version with a far smaller scale makes of a cut number is the largest one at most, as it is told."""
        e = self.evaluator()
        for x, want in (e.c[0] - 1e6 * e.s[0], -1.0), (e.c[0] + 1e6 * e.s[0], 1.0):
            self.assertEqual(e.uncut(0, x)[0], want * np.finfo(float).max)

    def test_moved(self):
        """Another column changes, and the first is as it was: it is told in the third row in which it is first, once."""
        rng, e, names = np.random.default_rng(2), self.evaluator(), ["a", "b", "c", "d"]
        series, steps, cause, told, other = recent.Series(4), causes.Steps(4), None, [], []
        for i in range(700):
            score, _ = series.score(e, rng.normal(size=4) * 2 + e.c + [10 * (400 <= i < 550), 0, -30 * (i >= 550), 0])
            if i < 401:
                steps.step(e, series)
                continue
            cause = cause or causes.Cause(e, series, steps)
            cause.step(e, series, steps, score)
            if i == 430:
                self.assertEqual(cause.now(e, names)[0]["feature"], "a")
            if i <= 430:
                continue
            other.append(cause.lately(e, names)[0][0]["feature"] == "c")
            if cause.moved(e, names):
                told.append(i)
                self.assertEqual(other[-3:], [True] * 3)
                self.assertEqual(cause.now(e, names)[0]["feature"], "c")
        self.assertEqual(len(told), 1)
        self.assertTrue(552 <= told[0] < 580, told)


if __name__ == "__main__":
    unittest.main()
