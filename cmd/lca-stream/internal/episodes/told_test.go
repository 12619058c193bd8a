package episodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/source"
)

var now = time.Date(2026, 5, 10, 12, 0, 0, 0, time.UTC)

// topic is a topic of alarms, written as a transform writes it.
type topic struct {
	t *testing.T
	told
	offset int64
}

func (w *topic) write(partition int32, age time.Duration, id, kind string, seq int) {
	w.t.Helper()
	reason := episode.Usual
	r := episode.Record{Schema: episode.Schema, Type: kind, ID: id, Seq: seq, Message: id + " " + kind}
	if kind == episode.Closed {
		r.Reason = &reason
	}
	value, err := json.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.raw(partition, age, string(value))
}

func (w *topic) raw(partition int32, age time.Duration, value string) {
	w.offset++
	w.add(partition, &source.Record{Offset: w.offset, Timestamp: now.Add(-age).UnixMilli(), Value: []byte(value)})
}

func ids(all []*entry) (names []string) {
	for _, e := range all {
		names = append(names, e.id)
	}
	return names
}

// The last record of each episode counts, where the topic has gained partitions too; open ones come first, then the newest.
func TestOrderOfEpisodes(t *testing.T) {
	w := topic{t: t, told: told{room: room}}
	const day = 24 * time.Hour
	w.write(0, 30*day, "a", episode.Opened, 0)
	w.write(0, 20*day, "b", episode.Opened, 0)
	w.write(0, 19*day, "b", episode.Closed, 1)
	w.write(0, 3*day, "c", episode.Opened, 0)
	w.write(0, 2*day, "c", episode.Closed, 1)
	w.write(1, 2*day, "d", episode.Closed, 2)
	w.write(2, 3*day, "d", episode.Updated, 1) // of before there was a partition 1
	w.write(1, 1*day, "e", episode.Closed, 3)
	w.write(1, 1*day, "e", episode.Opened, 0) // rows that are transformed again open it again
	some, notes := w.shown("alarms", false, now)
	if got := ids(some); !slices.Equal(got, []string{"e", "a", "c", "d"}) || notes != "1 more are left out: --all lists them\n" {
		t.Errorf("%q, %q", got, notes)
	}
	some, notes = w.shown("alarms", true, now)
	if got := ids(some); !slices.Equal(got, []string{"e", "a", "c", "d", "b"}) || notes != "" {
		t.Errorf("all: %q, %q", got, notes)
	}
}

// Of many, as many are listed as a person reads; and what is kept of a topic without end is bounded: those closed long ago are forgotten first.
func TestManyEpisodes(t *testing.T) {
	w := topic{t: t, told: told{room: 100_000}}
	w.write(0, time.Hour, "open", episode.Opened, 0)
	for i := range 2000 {
		w.write(0, time.Hour-time.Duration(i)*time.Second, fmt.Sprint(i), episode.Closed, 1)
		if w.bytes > 2*w.room {
			t.Fatalf("%d bytes are kept", w.bytes)
		}
	}
	some, notes := w.shown("alarms", true, now)
	got := ids(some)
	if len(got) < 100 || got[0] != "open" || got[1] != "1999" || got[len(got)-1] != fmt.Sprint(2001-len(got)) {
		t.Errorf("%d are kept: %q … %q", len(got), got[:3], got[len(got)-1])
	}
	if want := fmt.Sprintf("%d of the oldest are left out\n", 2001-len(got)); !strings.HasSuffix(notes, want) {
		t.Errorf("%q, want %q", notes, want)
	}
	if some, notes := w.shown("alarms", false, now); len(some) != min(shownMost, len(got)) || len(got) > shownMost && !strings.HasPrefix(notes, fmt.Sprintf("%d more are", len(got)-shownMost)) {
		t.Errorf("%d are listed: %q", len(some), notes)
	}
}

// Other records are passed over, and counted: alarms of rows, what is no JSON, tombstones. So are those of episodes that cannot be read, with a reason.
func TestOtherRecords(t *testing.T) {
	w := topic{t: t, told: told{room: room}}
	others := []string{"", "no JSON", "null", "7", `"episode_opened"`, "[]", "{}", `{"type": 7}`, `{"type":"anomaly","time":"2026-11-22T19:20:00.123Z","source":{"topic":"events"}}`, strings.Repeat("[", 20_000)}
	for _, value := range others {
		w.raw(0, 0, value)
	}
	if some, notes := w.shown("alarms", false, now); len(some) > 0 || w.others != len(others) || notes != fmt.Sprintf("alarms tells of no episode yet; its %d records are of other kinds, such as alarms of the learner\n", len(others)) {
		t.Errorf("%d of %d: %q", w.others, len(others), notes)
	}
	one := topic{t: t, told: told{room: room}}
	one.raw(0, 0, others[0])
	if _, notes := one.shown("alarms", false, now); notes != "alarms tells of no episode yet; its only record is of another kind, such as an alarm of the learner\n" {
		t.Errorf("%q", notes)
	}
	for value, want := range map[string]string{
		`{"type":"episode_opened","id":7}`:                                            "its field id is of type number",
		`{"type":"episode_closed","id":"a","causes":{}}`:                              "its field causes is of type object",
		`{"type":"episode_closed","id":"a","from":{"offset":1e300}}`:                  "its field from.offset is of type number",
		`{"type":"episode_closed","id":"a","time":"a\u001b[31m"}`:                     "parsing time",
		`{"type":"episode_closed"}`:                                                   "it has no id",
		`{"type":"episode_forgotten","id":"a"}`:                                       `its type is "episode_forgotten", which this release does not know`,
		`{"type":"episode_accept","id":"a"}`:                                          "it names no episode or no model",
		`{"type":"episode_accepted","id":"a","model_id":"m"}`:                         "it does not say which command was followed, or where",
		`{"type":"episode_accept","id":"a","model_id":"m","rows":"many"}`:             "its field rows is of type string",
		`{"type":"episode_opened","id":"` + strings.Repeat("a", 1<<20) + `","seq":1}`: "1048617 bytes are no record of an episode",
	} {
		w := topic{t: t, told: told{room: room}}
		w.raw(3, 0, value)
		if notes := w.passed(); len(w.last) > 0 || !strings.HasPrefix(notes, "1 record was passed over that cannot be read: partition 3, offset 1: "+want) || strings.Count(notes, "\n") != 1 {
			t.Errorf("%.60s: %q, want %s", value, notes, want)
		}
	}
}

// A batch that is too large to be read is passed over as well, and counted.
func TestBatchesThatAreTooLarge(t *testing.T) {
	w := topic{t: t, told: told{room: room}}
	bad := source.Rejected{RecordError: &source.RecordError{Offset: 4, Err: errors.New("a\nok forged")}}
	w.take(source.Partition{ID: 2}, &source.Fetched{Rejected: []source.Rejected{bad, bad}})
	if notes := w.passed(); notes != "2 records were passed over that cannot be read: partition 2, offset 4: a\\nok forged\n" {
		t.Errorf("%q", notes)
	}
}

// Each reason is said in words.
func TestReasons(t *testing.T) {
	for _, reason := range episode.Reasons {
		if said := whyClosed(&episode.Record{Type: episode.Closed, Reason: &reason}); !strings.HasPrefix(said, "closed: ") || strings.Contains(said, reason) && reason != episode.Usual {
			t.Errorf("%s: %q", reason, said)
		}
	}
}

// What show says, in full.
func TestDescribe(t *testing.T) {
	at := func(text string) *time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return &parsed
	}
	number := func(v float64) *float64 { return &v }
	onset := func(n int) *int { return &n }
	series, reason := "PRESS-07", episode.Usual
	r := episode.Record{
		Schema: 1, Type: episode.Closed, ID: "default/0/PRESS-07/17956.2", Seq: 3, Reason: &reason, Group: "g", Topic: "events", Series: &series, ModelID: "default", Version: 18600,
		From: episode.Place{Offset: 17956, Row: 2, Time: at("2026-05-09T05:38:00Z")}, To: episode.Place{Offset: 18882, Time: at("2026-05-09T13:21:00Z")}, Rows: 464, RowsOver: 433,
		Peak: episode.Peak{Score: 3.39, P: number(1.6e-5), Offset: 18126}, Level: 1.48, Budget: "1/day", Young: true,
		Causes:  []episode.Cause{{Feature: "vib_x", Rank: 1, Direction: "up", Before: number(3.96), Now: number(4.96), Onset: onset(0)}, {Feature: "motor c", Rank: 2, Direction: "quiet", Onset: onset(-3)}, {Feature: "c", Direction: "up"}, {Feature: "d", Direction: "down"}, {Feature: "e", Direction: "noisy"}},
		Message: "PRESS-07: vib_x went up at 2026-05-09T05:38:00Z, closed after 464 rows (usual)",
	}
	const want = `PRESS-07: vib_x went up at 2026-05-09T05:38:00Z, closed after 464 rows (usual)

id         default/0/PRESS-07/17956.2
state      closed: its rows are usual again; the last record is 1h30m old
series     PRESS-07: of partition 0 of events, group g
from       2026-05-09T05:38:00Z, offset 17956, row 2: its first row
to         2026-05-09T13:21:00Z, offset 18882, row 0: its last unusual row
rows       464 rows of the series from there to there, 433 of them above the level of their time
peak       3.39 at offset 18126, row 0; the probability of such a score is 1.6e-05
level      1.48, by a budget of 1/day
           young: the model knew too few rows to be sure of this level
model      default, version 18600

CAUSE    DIRECTION  BEFORE   NOW      ONSET
vib_x    up         3.96     4.96     at the first row
motor c  quiet      unknown  unknown  3 rows before the first
c        up         unknown  unknown  unknown
ranked lower, and perhaps no cause: d down, e noisy (--json has all of them)
before: the mean of the series when the episode opened; now: that of its rows; onset: when the column changed
`
	if got := describe(&r, nil, 90*time.Minute); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	r.Type, r.Reason = episode.Opened, nil
	if got := describe(&r, nil, 0); !strings.Contains(got, " old\n           if this is normal now: lca-stream episodes accept default/0/PRESS-07/17956.2\nseries ") {
		t.Errorf("an open one:\n%s", got)
	} else if !strings.Contains(got, "; now: that of the last rows at this record; onset") {
		t.Errorf("an open one has causes of its last rows:\n%s", got)
	}
	silent := episode.Silent
	r.Type, r.Reason = episode.Closed, &silent
	if got := describe(&r, nil, 0); !strings.Contains(got, "; now: that of the last rows at the record before this one; onset") {
		t.Errorf("one that its rows did not end:\n%s", got)
	}
}

// followed is the fact that a learner writes for a command.
func followed(command *episode.Acceptance, rows int) *episode.Acceptance {
	fact := *command
	fact.Type, fact.Command, fact.At, fact.Rows = episode.AcceptFact, &episode.Position{Partition: 1, Offset: 2}, map[int32]int64{0: 17}, &rows
	return &fact
}

// An episode that was accepted says by whom, whether the learner has followed, and what it learns; whatever else is told of it later.
func TestAccepted(t *testing.T) {
	w := topic{t: t, told: told{room: room}}
	w.write(1, time.Hour, "m/1/~/7.0", episode.Opened, 0)
	r, err := w.record("alarms", "m/1/~/7.0")
	if err != nil {
		t.Fatal(err)
	}
	write := func(a *episode.Acceptance) {
		value, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		w.raw(1, time.Hour, string(value))
	}
	r.ModelID, r.Group, r.Topic = "m", "g", "events"
	a := command(r, "an\xffna", now)
	if a.To != nil || a.Message != "partition 0: an\ufffdna says that what it shows is normal, from offset 0, row 0 on" {
		t.Errorf("%+v", a)
	}
	write(a)
	said := func() string { return acceptance(r, w.last[r.ID].accepted) }
	if got := said(); got != "accepted   by an\ufffdna at 2026-05-10T12:00:00Z; the learner has not followed yet\n" {
		t.Errorf("%q", got)
	}
	fact := followed(a, 840)
	write(fact)
	w.write(1, time.Hour, "m/1/~/7.0", episode.Closed, 1)
	if got := said(); got != "accepted   by an\ufffdna; the learner has followed at 2026-05-10T12:00:00Z, and learns 840 rows that it had held back\n" {
		t.Errorf("%q", got)
	}
	write(a)
	*fact.Rows = 0
	write(fact) // of a command that was given twice
	if got := said(); !strings.HasSuffix(got, "and learns 840 rows that it had held back\n") {
		t.Errorf("said again: %q", got)
	}
	if got := acceptance(r, fact); got != "accepted   by an\ufffdna; the learner has followed at 2026-05-10T12:00:00Z, and had held back none of its rows that are not learnt already, or not kept any more\n" {
		t.Errorf("%q", got)
	}
	if some, notes := w.shown("alarms", true, now); len(some) != 1 || notes != "" || w.others != 0 {
		t.Errorf("%d, %q", len(some), notes)
	}
	r.Type, r.To.Time = episode.Closed, &now
	if a := command(r, "anna", now); a.To == nil || a.To.Time != &now || !strings.HasSuffix(a.Message, "from offset 0, row 0 to 2026-05-10T12:00:00Z, offset 0, row 0") {
		t.Errorf("%+v", a)
	}
	if _, err := w.record("alarms", "m/1/~/9.0"); err == nil || !strings.Contains(err.Error(), "alarms tells of no episode m/1/~/9.0") {
		t.Error(err)
	}
}

// A name that a stranger made long leaves the table readable.
func TestLongNames(t *testing.T) {
	series := strings.Repeat("ä", 50_000)
	value, err := json.Marshal(episode.Record{Type: episode.Opened, ID: "a", Series: &series})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := writeList(&b, []*entry{{id: "a", value: value, at: now}}, now); err != nil || !strings.Contains(b.String(), strings.Repeat("ä", 39)+"…  ") || b.Len() > 500 {
		t.Errorf("%d bytes, %v: %.500s", b.Len(), err, b.String())
	}
}

// Ids of series of any name are asked for, that of empty text too; what is none is refused before a topic is read.
func TestIDs(t *testing.T) {
	for _, id := range []string{"default/0/PRESS-07/17956.0", "default/0//17956.0", "a/b/12/~/0.7", "m/0/%0A/1.0", "m/0/1%2E0/1.0"} {
		if !anID.MatchString(id) {
			t.Errorf("%s is none", id)
		}
	}
	for _, id := range []string{"", "PRESS-07", "default/0/PRESS-07", "default/0/17956.0", "default/x/PRESS-07/1.0", "default/0/PRESS-07/1", "/0/PRESS-07/1.0"} {
		if anID.MatchString(id) {
			t.Errorf("%s is one", id)
		}
	}
}

// On a compacted topic a command takes the place of the last record of its episode, and a fact that of the command. It is listed all the same, shown, and accepted
// again, as far as is known of it; the next record says the rest.
func TestAcceptedAndCompacted(t *testing.T) {
	before := topic{t: t, told: told{room: room}}
	before.write(1, time.Hour, "m/1/~/7.0", episode.Opened, 0)
	r, err := before.record("alarms", "m/1/~/7.0")
	if err != nil {
		t.Fatal(err)
	}
	r.ModelID, r.Group, r.Topic, r.Partition, r.From.Offset, r.To.Offset, r.Rows = "m", "g", "events", 1, 7, 9, 840
	open := command(r, "anna", now)
	r.Type = episode.Closed
	closed := command(r, "anna", now)
	for _, c := range []struct {
		a                *episode.Acceptance
		listed, accepted string
		ended            bool
	}{
		{open, "open ", "the learner has not followed yet", false},
		{followed(open, 149), "open ", "and learns 149 rows", false},
		{closed, "closed ", "the learner has not followed yet", true},
		{followed(closed, 149), "closed ", "and learns 149 rows", true},
	} {
		w := topic{t: t, told: told{room: room}}
		value, err := json.Marshal(c.a)
		if err != nil {
			t.Fatal(err)
		}
		w.raw(1, time.Hour, string(value))
		some, notes := w.shown("alarms", false, now)
		var list strings.Builder
		if err := writeList(&list, some, now); err != nil || len(some) != 1 || notes != "" {
			t.Fatalf("%s: %d, %q, %v", c.a.Message, len(some), notes, err)
		}
		if line := strings.Split(list.String(), "\n")[1]; !strings.HasPrefix(line, c.listed) || strings.Contains(line, "149") || string(some[0].value) != string(value) {
			t.Errorf("%s: %q, %s", c.a.Message, line, some[0].value)
		}
		left, err := w.record("alarms", r.ID)
		if err != nil {
			t.Fatal(err)
		}
		said := describe(left, w.last[r.ID].accepted, time.Hour)
		if !strings.Contains(said, c.accepted) || strings.Contains(said, "149 rows of the series") || strings.Contains(said, "level ") || !strings.Contains(said, "partition 1 of events, group g\nfrom       offset 7, row 0") {
			t.Errorf("%s", said)
		}
		if again := command(left, "anna", now); (again.To != nil) != c.ended || again.Message != c.a.Message && c.a.Type == episode.AcceptCommand || again.From != c.a.From || again.ModelID != "m" || again.Group != "g" {
			t.Errorf("%+v, want %+v", again, c.a)
		}
		w.write(1, 0, r.ID, episode.Updated, 3)
		if left, err := w.record("alarms", r.ID); err != nil || left.Seq != 3 || w.last[r.ID].accepted == nil {
			t.Errorf("%+v, %v", left, err)
		}
	}
	for kind, a := range map[string]*episode.Acceptance{"looked for another": open, "it has no id": {Type: episode.AcceptCommand, ModelID: "m"}} {
		w := topic{t: t, told: told{room: room, only: "m/1/~/8.0"}}
		value, _ := json.Marshal(a)
		if w.raw(1, time.Hour, string(value)); len(w.last) > 0 {
			t.Errorf("%s: %v", kind, w.last)
		}
	}
}
