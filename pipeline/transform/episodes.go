package transform

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
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
func (s *heldSeriesSet) say(one *heldSeries, kind, reason, model string, version uint64, at *time.Time) {
	if kind == episode.Closed && reason == "" {
		reason = episode.Usual
	}
	if kind == episode.Opened {
		one.model = model
	}
	one.version = version
	s.said = append(s.said, saying{one.episode, kind, reason, one.name, one.causes, one.model, version, at})
	if one.episode.Seq++; kind == episode.Closed {
		one.episode, one.cause, one.causes = episode.Open{}, nil, nil
	}
}

// close closes the episode of a series, if one is open, for another reason than its rows.
func (s *heldSeriesSet) close(one *heldSeries, reason string) {
	if one.episode.Watch.Open {
		s.say(one, episode.Closed, reason, one.model, one.version, one.episode.To.Time)
	}
}

// tellEpisodes makes records of what is to be said of episodes.
func (t *Transform) tellEpisodes(of source.Partition) {
	for i := range t.series.said {
		t.records = append(t.records, t.record(&t.series.said[i], of))
	}
	clear(t.series.said)
	t.series.said = t.series.said[:0]
}

// record is the record of an episode.
func (t *Transform) record(s *saying, of source.Partition) episode.Record {
	r := episode.Record{
		Schema: episode.Schema, Type: s.kind, Seq: s.Seq, Group: t.Group, Topic: of.Topic, Partition: of.ID, ModelID: s.model, Version: s.version, Time: s.at,
		From: s.From, To: s.To, Rows: s.Rows, RowsOver: s.Over, Peak: s.Peak, Level: s.Level.Height, Young: s.Level.Young, Budget: t.budget,
		Causes: s.causes,
	}
	r.ID = fmt.Sprintf("%s/%d/%s/%d.%d", t.Follow.ModelID, of.ID, s.series, s.From.Offset, s.From.Row)
	who := "partition " + strconv.Itoa(int(of.ID))
	if t.value != nil {
		r.ID, r.Series, who = fmt.Sprintf("%s/%d.%d", t.Follow.ModelID, s.From.Offset, s.From.Row), t.value, *t.value
	}
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
		who = *r.Series
	}
	if reason := s.reason; reason != "" {
		r.Reason = &reason
	}
	r.Message = said(who, &r)
	return r
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

// said is a record as a sentence.
func said(who string, r *episode.Record) string {
	since := fmt.Sprintf("offset %d, row %d", r.From.Offset, r.From.Row)
	if r.From.Time != nil {
		since = r.From.Time.Format(time.RFC3339)
	}
	what := "unusual"
	if len(r.Causes) > 0 {
		what = r.Causes[0].Feature + " " + became[r.Causes[0].Direction]
	}
	if r.Type == episode.Closed {
		return fmt.Sprintf("%s: %s at %s, closed after %s (%s)", who, what, since, rowCount(r.Rows), *r.Reason)
	}
	return fmt.Sprintf("%s: %s at %s; %s so far", who, what, since, rowCount(r.Rows))
}

// became says what a column did, by its direction.
var became = map[string]string{"up": "went up", "down": "went down", "noisy": "became noisy", "quiet": "went quiet"}

func rowCount(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return strconv.FormatInt(n, 10) + " rows"
}
