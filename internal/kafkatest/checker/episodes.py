"""Episodes, computed again from the scores that rows of the output have, the levels of the snapshots that they name, and the timestamps of the input:
as docs/wire-format.md says it ("Episodes", "States of series"), and the documentation of package lca/recent.
"""

import base64
import collections
import datetime
import hashlib
import json
import math
import re

import numpy as np

import causes
import recent

MILLISECOND, SECOND = 10**6, 10**9
MINUTE, DAY = 60 * SECOND, 86400 * SECOND
BLOCK = 4096  # offsets: series are let go of, and silent ones looked at, before the first row of the next ones
MOST_SERIES, MOST_NUMBERS = 1 << 16, 64 << 20
QUIET, WINDOW = 30, 200  # usual rows after which an episode is over: that many in a row, or more than half of those
UPDATED, DAILY = (MINUTE, 1000), (DAY, 100_000)  # between two records of an episode: by the time of its rows, or in rows without timestamps
MOST_ELAPSED = (1 << 62) // MILLISECOND * MILLISECOND
SETTLED = 30  # rows after which it is told again, and when it has become twice as long
MOVED = 10  # … that another column has changed most
FADES = 0.015  # score in a row, at most, while rows are unusual: what falls faster is of means that fade
HIGH = 5  # scores so far above what is usual do not fade
TOLERANCE = 1e-9  # of a level

# What is not percent-encoded in the id of a model, or of a series.
UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def encoded(key):
    """A key as it stands in an id."""
    return "".join(chr(b) if chr(b) in UNRESERVED else f"%{b:02X}" for b in key)


class Budget:
    """False episodes in a time or in rows: 1/day, 1/30 days, 1/2000 rows."""

    def __init__(self, text, shares):
        number, per = text.split("/")
        self.text, self.shares, self.number = text, shares, int(number)
        many, unit = per.split(" ") if " " in per else ("1", per)
        unit = {"hour": DAY / 24, "day": DAY, "week": 7 * DAY}.get(unit.removesuffix("s"))
        self.per = unit and int(many) * unit
        self.rows = None if unit else int(many)

    def rate(self, clock):
        """Per row of a partition; 0: it is not known."""
        if self.rows:
            return self.number / self.rows
        return self.number * clock.time / (self.per * clock.rows * self.shares) if clock.rows and clock.time else 0


class Stamps:
    """How much time has passed, in nanoseconds, by the timestamps of rows."""

    def __init__(self):
        self.largest, self.ahead, self.behind = None, None, 0

    def next(self, at, usual):
        most = max(MINUTE, 10 * min(usual // MILLISECOND * MILLISECOND, 365 * DAY))
        if self.largest is None:
            self.largest = at
        elif at > self.largest + most:  # a pause, or a wrong timestamp: another one tells
            if self.ahead not in (None, at):
                self.largest, self.ahead, self.behind = min(at, self.ahead), None, 0
                return most
            self.ahead = at
        elif at > self.largest:
            passed, self.largest, self.ahead, self.behind = at - self.largest, at, None, 0
            return passed
        elif at < self.largest - most:
            self.ahead, self.behind = None, self.behind + 1
            if self.behind == 100:
                self.largest, self.behind = at, 0
        else:
            self.ahead, self.behind = None, 0
        return 0


class RowClock:
    """The clock of a partition."""

    def __init__(self):
        self.stamps, self.all, self.elapsed = Stamps(), 0, 0
        self.steps = 0  # rows that moved it on
        self.rows = self.time = self.stepped = 0  # as they were after 2, 4, 8 … rows

    def step(self, at):
        self.all += 1
        if at is not None:
            passed = self.stamps.next(at, self.time // max(1, self.stepped))
            self.elapsed, self.steps = min(self.elapsed + passed, MOST_ELAPSED), self.steps + (passed > 0)
        if self.all == (max(2, 2 * self.rows) if self.rows < BLOCK else self.rows + BLOCK):
            self.rows, self.time, self.stepped = self.all, self.elapsed, self.steps


class Episode:
    """One that is open."""

    def __init__(self, place, height, young, usual, model):
        self.begin, self.level, self.young, self.usual, self.model = place, height, young, usual, model
        self.last, self.seen, self.rows, self.over, self.seq = place, 0, 1, 0, 0
        self.peak = None
        self.flags = collections.deque(maxlen=WINDOW)  # which of the rows after the first were usual
        self.calm, self.among = 0, 0  # usual rows at the end, and in the window
        self.above, self.told = False, 0
        self.crest, self.end = 0, (place, 1, 0)  # where it ends if its rows are usual from now on
        self.stamps, self.steps, self.elapsed, self.since, self.since_rows = Stamps(), 0, 0, 0, 0
        self.cause, self.causes = None, []

    def step(self, place, score, p, height):
        """Takes a row, the first one too, and returns what is told of the episode with it."""
        self.seen += 1
        usual = score <= self.usual
        if self.seen > 1:
            self.among += usual - (len(self.flags) == WINDOW and self.flags[0])
            self.calm = self.calm + 1 if usual else 0
            self.flags.append(usual)
            if not usual:
                self.last, self.rows = place, self.seen
        if self.peak is None or score > self.peak["score"]:
            self.peak = {"score": score, "p": p, "offset": place[0], "row": place[1]}
        passes = score > height and not self.above
        self.above = score > height
        self.over += self.above
        self.crest -= FADES
        if self.seen == 1 or not usual and score >= self.crest:
            self.crest, self.end = min(score, self.usual + HIGH), (place, self.seen, self.over)
        self.since_rows += 1
        if place[2] is not None:
            passed = self.stamps.next(place[2], self.elapsed // max(1, self.steps))
            self.elapsed, self.since, self.steps = self.elapsed + passed, self.since + passed, self.steps + (passed > 0)
        if self.calm >= QUIET or self.among > WINDOW // 2:
            self.last, self.rows, self.over = self.end
            return "closed"
        if self.seen > 1:
            first = self.seen > max(SETTLED, 2 * self.told) and not usual and self.after((UPDATED[0], SETTLED))
            if not first and not (passes and self.after(UPDATED)) and not self.after(DAILY):
                return None
        self.tell()
        return "opened" if self.seen == 1 else "updated"

    def tellable(self):
        return self.since_rows >= MOVED and self.after((UPDATED[0], MOVED))

    def tell(self):
        self.told = self.seen if self.seen > 1 else 0
        self.since = self.since_rows = 0

    def after(self, pause):
        return self.since_rows >= pause[1] if self.stamps.largest is None else self.since >= pause[0]


class Held:
    """What is kept of a series."""

    def __init__(self, name, value, d, features):
        self.name, self.value = name, value
        self.begin(d, features)
        self.elapsed = self.version = 0

    def begin(self, d, features):
        self.rows, self.steps, self.features, self.episode = recent.Series(d), causes.Steps(d), features, None
        self.run = None  # of rows that are not usual, before an episode: the level at which it began, usual rows since, and by which model it is

    def judges(self, height, score, usual, by):
        """The level that the next row is judged by while no episode is open: at most that of the first row of the run."""
        if self.run and self.run[2] != by:
            self.run = None
        if self.run:
            height = min(height, self.run[0])
        if score > height:
            self.run = None
        elif score > usual and height < math.inf:
            self.run = height, 0, by
        elif self.run:
            self.run = (self.run[0], self.run[1] + 1, by) if self.run[1] + 1 < QUIET else None
        return height


class Partition:
    """The series of a partition, and its clock."""

    def __init__(self, number, inputs, options):
        self.number, self.options = number, options
        self.inputs = collections.deque(inputs)  # offset, timestamp, rows of those that can be read
        self.unseen = {}  # by offset: what a message does to series although it has no output
        self.budget = Budget(options.budget, options.shares) if options.budget else None
        self.clock, self.marks = RowClock(), {}
        self.series = {}  # by name, the one that was not heard of for the longest time first
        self.rows_in = 0  # block of the last message with rows
        self.scored_in = None  # … of the last row that was scored
        self.columns = 1
        self.group = self.topic = None
        self.told = []

    def advance(self, offset):
        """Takes the messages up to an offset."""
        while self.inputs and self.inputs[0][0] <= offset:
            at, stamp, rows = self.inputs.popleft()
            block = at // BLOCK
            if self.scored_in is not None and block != self.scored_in:
                most = min(self.options.most_series, MOST_NUMBERS // (24 * self.columns))
                for name in list(self.series)[: max(0, len(self.series) - most)]:
                    self.close(self.series.pop(name), "evicted")
            if block != self.rows_in:
                for one in sorted((s for s in self.series.values() if s.episode), key=lambda s: s.name):
                    if self.clock.elapsed - one.elapsed > DAY:
                        self.close(one, "silent")
                        self.series[one.name] = self.series.pop(one.name)
            if rows:
                rate = self.budget.rate(self.clock) if self.budget else 0
                for _ in range(rows):
                    self.clock.step(stamp)
                self.marks[at] = rate, self.clock.elapsed
                self.rows_in = block
            if at in self.unseen:
                self.unseen.pop(at)()

    def hear(self, value, offset, chosen):
        """The series of a value, which has a row there."""
        name = "~" if value is None else encoded(value) if len(value) <= 200 else hashlib.sha256(value).hexdigest()
        one = self.series.pop(name, None)
        if one is None:
            one = Held(name, value, chosen.d, chosen.features)
        elif one.features != chosen.features:
            self.close(one, "model_replaced")
            one.begin(chosen.d, chosen.features)
        elif one.episode:
            turn, until, reason = chosen.recent.accepted.get(self.identity(value), (0, None, None))
            begun = one.episode.begin[2]
            if turn > one.episode.turn and not (until and begun and begun > until * 10**6):
                one.version = chosen.version
                self.close(one, reason)
                one.begin(chosen.d, chosen.features)
        self.series[name] = one
        self.scored_in, self.columns = offset // BLOCK, chosen.d
        return one

    def identity(self, value):
        """The series of a value, as snapshots name it: 0 with a model for each value, the partition where it is the series, and else FNV-1a of both, of a long one by its SHA-256."""
        if self.options.by_key:
            return 0
        if self.options.series != "key":
            return self.number
        if value is not None and len(value) > 200:
            value = hashlib.sha256(value).hexdigest().encode()
        digest = 0xCBF29CE484222325
        for byte in self.number.to_bytes(4, "little") + bytes([value is not None]) + (value or b""):
            digest = (digest ^ byte) * 0x100000001B3 % (1 << 64)
        return digest

    def row(self, one, place, score, p, chosen, model):
        """Takes the score of a row of a series, and returns the id of the episode that it is part of."""
        rate, one.elapsed = self.marks.get(place[0], (0, 0))
        if one.episode and one.episode.model != model:
            self.close(one, "model_replaced")
        e, height, say = chosen.recent, math.inf, None
        if one.rows.rows > recent.FIRST:
            height, young = e.level(rate)
            if one.episode is None:
                height = one.judges(height, score, e.usual, (model, e.turn))
            if one.episode is None and score > height:
                one.episode = Episode(place, height, young, e.usual, model)
                one.episode.turn = e.turn
            if one.episode:
                say = one.episode.step(place, score, p, height)
        open = one.episode
        if open and say != "closed":
            open.cause = open.cause or causes.Cause(e, one.rows, one.steps)
            open.cause.step(e, one.rows, one.steps, score)
            if open.end[1] == open.seen:
                open.cause.ends()
        elif one.episode is None or say == "closed":
            one.steps.step(e, one.rows)
        if open and not say and score > open.usual and open.tellable() and open.cause.moved(e, chosen.features):
            open.tell()
            say = "updated"
        if say:
            open.causes = open.cause.ranked(e, chosen.features) if say == "closed" else open.cause.now(e, chosen.features)
            one.version = chosen.version
            self.tell(one, say, "usual" if say == "closed" else None, place[2])
        return self.id(one) if one.episode else None

    def close(self, one, reason):
        if one.episode:
            self.tell(one, "closed", reason, one.episode.last[2])

    def id(self, one):
        offset, row, _ = one.episode.begin
        return f"{one.episode.model.split('/')[0]}/{self.number}/{one.name}/{offset}.{row}"

    def tell(self, one, kind, reason, at):
        e = one.episode
        place = lambda p: {"offset": p[0], "row": p[1], "time": p[2]}
        self.told.append({
            "type": "episode_" + kind, "id": self.id(one), "seq": e.seq, "reason": reason, "group": self.group, "topic": self.topic, "partition": self.number,
            **named(one), "model_id": e.model, "version": one.version, "time": at, "from": place(e.begin), "to": place(e.last), "rows": e.rows,
            "rows_over": e.over, "peak": dict(e.peak), "level": e.level, "budget": self.options.budget, "young": e.young, "causes": e.causes,
        })
        e.seq += 1
        if kind == "closed":
            one.episode = None


def named(one):
    """How a record says which series it is of."""
    if one.value is None:
        return {"series": None}
    value = one.value if len(one.value) <= 200 else one.name.encode()
    try:
        return {"series": value.decode()}
    except UnicodeDecodeError:
        return {"series": re.sub("\ufffd+", "\ufffd", value.decode(errors="replace")), "series_base64": base64.b64encode(value).decode()}


def stamp(ms):
    """A timestamp of Kafka in nanoseconds, of years that can be written; None: there is none."""
    return None if ms <= 0 else min(ms, 253402300799999) * 10**6


def instant(text):
    """A time of a record in nanoseconds."""
    if text is None:
        return None
    whole, fraction = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z", text).groups()
    seconds = (datetime.datetime.fromisoformat(whole) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1)
    return seconds * SECOND + (int(fraction[1:].ljust(9, "0")) if fraction else 0)


def compare(partitions, records, fault):
    """The records of episodes on the topic of alarms with what was to be told. Codes: EPISODE_LOST, EPISODE_DUP, EPISODE_WRONG."""
    want, place, seen = {}, collections.Counter(), set()
    for told in partitions:
        for one in told:
            want[one["id"], one["seq"]] = len(want), one
    homes = collections.defaultdict(set)
    for where, rec, event in records:
        try:
            id, seq, key = event["id"], event["seq"], event["id"].rpartition("/")[0]
            homes[key].add(rec["partition"])
            if (id, seq) in seen:
                fault("EPISODE_DUP", f"{where}: record {seq} of {id} again")
                continue
            seen.add((id, seq))
            if (id, seq) not in want:
                raise ValueError("there is no such record to be told")
            number, one = want[id, seq]
            if number < place[key]:
                raise ValueError("it comes too late")
            place[key] = number
            check(rec, event, one, key)
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            fault("EPISODE_WRONG", f"{where}: {e!r}: {rec['value'][:900]}")
    for key, those in homes.items():
        if len(those) > 1:
            fault("EPISODE_WRONG", f"the episodes of {key} are in the partitions {sorted(those)}")
    for id, seq in want.keys() - seen:
        fault("EPISODE_LOST", f"record {seq} of {id} is not there: {want[id, seq][1]}")


def check(rec, event, one, key):
    """Raises what is wrong with a record."""
    if rec["key"].decode() != key or dict(rec["headers"])["content-type"] != b"application/json" or event["schema"] != 1:
        raise ValueError("its key, its type or its schema are others")
    if not event["message"] or not isinstance(event["message"], str):
        raise ValueError("it says nothing")
    got = {**event, "time": instant(event["time"]), **{k: {**event[k], "time": instant(event[k]["time"])} for k in ("from", "to")}}
    off = [k for k in one if k not in ("level", "causes", "peak") and got[k] != one[k]]
    near = lambda a, b: a is None and b is None or abs(a - b) <= 1e-6 * max(1e-6, abs(b))  # of a row without an output the judge has its own score
    if not all(near(got["peak"][k], one["peak"][k]) for k in one["peak"]):
        off.append("peak")
    if not abs(got["level"] - one["level"]) <= TOLERANCE * max(1, abs(one["level"])):
        off.append("level")
    off += sorted(event.keys() - one.keys() - {"schema", "message"})
    if off:
        raise ValueError(f"{off} should be {({k: one.get(k) for k in off})}")
    causes.check(event["causes"], one["causes"])
