package transform

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// saying is what is to be said of an episode, as it is at the row that it is said at.
type saying struct {
	episode.Open
	kind, reason string // of the record
	series       string // as in the key of its state
	causes       []episode.Cause
	model        string
	version      uint64
	at           *time.Time
}

// say notes what is to be said of a series' episode.
func (s *heldSeriesSet) say(one *heldSeries, kind, reason string, version uint64, at *time.Time) {
	if kind == episode.Closed && reason == "" {
		reason = episode.Usual
	}
	one.version = version
	s.said = append(s.said, saying{one.episode, kind, reason, one.name, one.causes, one.model, version, at})
	if one.episode.Seq++; kind == episode.Closed {
		one.episode, one.cause, one.causes, one.id = episode.Open{}, nil, nil, ""
	}
	s.opened(one)
}

// close closes the episode of a series, if one is open, for another reason than its rows, and ends its run.
func (s *heldSeriesSet) close(one *heldSeries, reason string) {
	if one.episode.Watch.Open {
		s.say(one, episode.Closed, reason, one.version, one.episode.To.Time)
	}
	one.episode = episode.Open{}
}

// accepted closes the episode of a series where the model knows that what it shows is normal now, and begins the series again: its means are of what was.
// Where the model is another one, it knows nothing of the episode, which is over as well. A run is over in both cases: its scores were others.
func (t *Transform) accepted(one *heldSeries) {
	if !one.episode.Watch.Open {
		if one.model != t.model.ModelID || one.turn != t.model.Model.Recent.Turn {
			one.episode = episode.Open{}
		}
		return
	}
	if one.model != t.model.ModelID {
		t.series.close(one, episode.ModelReplaced)
		return
	}
	if reason := t.model.Model.Recent.AcceptedSince(one.turn, one.identity, one.episode.From.Millis()); reason != "" {
		one.version = t.model.Version
		t.series.close(one, reason)
		one.Series = recent.Series{}
	}
}

// tellEpisodes makes records of what is to be said of episodes. Where none are told any more, one that was told of may end all the same.
func (t *Transform) tellEpisodes(of source.Partition) {
	for i := range t.series.said {
		if t.rates != nil {
			t.records = append(t.records, t.record(&t.series.said[i], of))
		}
	}
	clear(t.series.said)
	t.series.said = t.series.said[:0]
}

// record is the record of an episode.
func (t *Transform) record(s *saying, of source.Partition) episode.Record {
	r := episode.Record{
		Schema: episode.Schema, Type: s.kind, Seq: s.Seq, Group: t.Group, Topic: of.Topic, Partition: of.ID, ModelID: s.model, Version: s.version, Time: s.at,
		From: s.From, To: s.To, Rows: s.Rows, RowsOver: s.Over, Peak: s.Peak, Level: s.Level.Height, Young: s.Level.Young, Budget: t.rates.Budget.String(),
		Causes: s.causes,
	}
	r.ID, r.Series = t.episodeID(s.model, of, s.series, s.From), t.value
	if s.series != seriesNull {
		decoded, _ := modelkey.Unescape(s.series) // it is escaped, or the SHA-256 of a long value
		value := string(decoded)
		switch {
		case utf8.ValidString(value):
			r.Series = &value
		default:
			text := base64.StdEncoding.EncodeToString(decoded)
			r.Series, r.Base64 = new(string), &text
			*r.Series = strings.ToValidUTF8(value, "\ufffd")
		}
	}
	if reason := s.reason; reason != "" {
		r.Reason = &reason
	}
	r.Message = said(&r)
	return r
}

// episodeID is the id of the episode of a series that begins with a row, which the model has scored. Up to the last slash it is the key of its records: in
// a compacted topic the last word of the series.
func (t *Transform) episodeID(model string, of source.Partition, series string, from episode.Place) string {
	if t.value == nil { // in files a value's model says which series it is of
		base, _, _ := strings.Cut(model, "/")
		model = fmt.Sprintf("%s/%d/%s", base, of.ID, series)
	}
	return fmt.Sprintf("%s/%d.%d", model, from.Offset, from.Row)
}

// alarm is a record as a message; what it is part of ends with in.
func (t *Transform) alarm(r *episode.Record, in *source.Message) sink.Message {
	m := t.Alarms.ofEpisode(r.ID, r)
	if m.Time = in.Time; r.Time != nil {
		m.Time = *r.Time
	}
	return t.timed(m)
}

// openEpisodes are records of the episodes that are open, as they are.
func (t *Transform) openEpisodes(of source.Partition) []episode.Record {
	var all []episode.Record
	for _, one := range t.series.open {
		all = append(all, t.record(&saying{one.episode, episode.Updated, "", one.name, one.causes, one.model, one.version, one.episode.To.Time}, of))
	}
	return all
}

// trace tells the page how the columns that open episodes name first are now, and not yet those of episodes that the process has taken over.
func (t *Transform) trace() {
	var now [tracedCauses]float64
	for _, one := range t.series.open {
		values := now[:0]
		for _, k := range one.traced {
			values = append(values, one.Short[k])
		}
		if len(values) > 0 {
			t.Stats.Episodes.Trace(one.id, one.traced, values)
		}
	}
}

// clock moves the clock of the partition on by the messages of a part.
func (t *Transform) clock(all []source.Message) {
	if t.rates == nil || t.placeOf != nil {
		return
	}
	t.series.silence(all[0].Offset, &t.rates.Clock)
	timeless := t.rates.Timeless()
	t.rates.Begin()
	for i := range all {
		if m := &all[i]; hasRows(m) {
			t.rates.Message(m.Offset, stampOf(m), numRows(m))
			t.series.next = m.Offset + 1
		}
	}
	if timeless && t.rates.Timeless() && !t.timeless { // one message alone may have thousands of rows
		t.timeless = true
		t.Log.Warn("no episode opens: by their timestamps no time passes between records", "partition", all[0].Partition.String(), "budget", t.rates.Budget.String(),
			"remedy", "have the producer set timestamps, or set alarms.budget to a number in rows, such as 1/2000 rows")
	}
}

// openState is what the state of a series with an open episode holds behind its account of causes, as JSON.
type openState struct {
	Episode episode.Open    `json:"episode"`
	Model   string          `json:"model"`
	Version uint64          `json:"version"`
	Heard   time.Duration   `json:"heard"`
	Causes  []episode.Cause `json:"causes"`
	Turn    uint64          `json:"turn"`
}

// runState is what the state of a series with a run holds, as JSON.
type runState struct {
	Level float64 `json:"level"`
	Quiet int     `json:"quiet"`
	Model string  `json:"model"`
	Turn  uint64  `json:"turn"`
}

// What a state holds behind that of its series.
const (
	holdsRun     = 'r'
	holdsEpisode = 'e'
)

// openBytes is at most what an episode that is open adds to the state of a series.
const openBytes = 80*recent.MostColumns + AlarmBytes

// appendOpen appends the open episode of a series, or its run, if there is one.
func (h *heldSeries) appendOpen(b []byte) []byte {
	switch w := &h.episode.Watch; {
	case w.Level != 0:
		return append(append(b, holdsRun), asJSON(runState{w.Level, w.Quiet, h.model, h.turn})...)
	case !w.Open:
		return b
	}
	b, _ = h.cause.AppendBinary(append(b, holdsEpisode))
	return append(b, asJSON(openState{h.episode, h.model, h.version, h.heard, h.causes, h.turn})...)
}

// readOpen reads what appendOpen has written.
func (h *heldSeries) readOpen(b []byte) error {
	switch {
	case len(b) == 0:
		return nil
	case b[0] == holdsRun:
		return h.readRun(b[1:])
	case b[0] != holdsEpisode:
		return fmt.Errorf("behind it is a part of kind %q", b[:1])
	}
	cause, rest, err := recent.ReadCause(b[1:])
	if err != nil {
		return err
	}
	var s openState
	switch err := json.Unmarshal(rest, &s); {
	case err != nil:
		return fmt.Errorf("its episode: %w", err)
	case !s.Episode.Possible() || cause.Columns() != len(h.Short):
		return errors.New("its episode is not of its columns, or none that is open")
	}
	h.cause, h.episode, h.model, h.version, h.heard, h.causes, h.turn = cause, s.Episode, s.Model, s.Version, s.Heard, s.Causes, s.Turn
	return nil
}

func (h *heldSeries) readRun(b []byte) error {
	var s runState
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("its run: %w", err)
	}
	h.model, h.turn = s.Model, s.Turn
	if h.episode.Watch = (recent.Watch{Level: s.Level, Quiet: s.Quiet}); !h.episode.Watch.PossibleRun() {
		return errors.New("its run is none that scores lead to")
	}
	return nil
}

// causesOf names the columns that have changed.
func causesOf(changes []recent.Change, features []string) []episode.Cause {
	all := make([]episode.Cause, len(changes))
	for i, c := range changes {
		all[i] = episode.Cause{Feature: shortName(features[c.Column]), Rank: i + 1, Direction: c.Direction, Before: known(c.Before), Now: known(c.Now), Onset: &c.Onset}
	}
	return all
}

// known is a number, or nil for what is none.
func known(v float64) *float64 {
	if v-v != 0 {
		return nil
	}
	return &v
}

// said is a record as a sentence: one line, whatever the series is called, because it is shown as it is.
func said(r *episode.Record) string {
	who := episode.Named(r.Series, r.Partition)
	since := fmt.Sprintf("offset %d, row %d", r.From.Offset, r.From.Row)
	if r.From.Time != nil {
		since = r.From.Time.Format(time.RFC3339)
	}
	what, when := "unusual", "at "
	if len(r.Causes) > 0 {
		first := &r.Causes[0]
		what = first.Feature + " " + became[first.Direction]
		if first.Onset != nil && *first.Onset > 0 { // the time of that row is not kept
			when = rowCount(int64(*first.Onset)) + " after "
		}
	}
	if r.Type == episode.Closed {
		return episode.OneLine(fmt.Sprintf("%s: %s %s, closed after %s (%s)", who, what, when+since, rowCount(r.Rows), *r.Reason))
	}
	return episode.OneLine(fmt.Sprintf("%s: %s %s; %s so far", who, what, when+since, rowCount(r.Rows)))
}

// became says what a column did, by its direction.
var became = map[string]string{"up": "went up", "down": "went down", "noisy": "became noisy", "quiet": "went quiet"}

func rowCount(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return strconv.FormatInt(n, 10) + " rows"
}
