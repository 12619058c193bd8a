package status

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/stats"
)

// Status is the answer of /api/v1/status: all that the page shows. A number that is not known yet,
// or that is not finite, is null.
type Status struct {
	Summary string          `json:"summary"` // one sentence in plain words
	Ready   stats.Readiness `json:"ready"`
	Build   Build           `json:"build"`
	Names
	LastError        *logs.Trouble     `json:"last_error"`           // the newest error or warning of the log, however long ago; null: none
	LastCommit       *time.Time        `json:"last_commit"`          // of this process; null before the first
	SinceCommit      map[string]Number `json:"seconds_since_commit"` // by stage: how long records have waited for a commit, in the partition where it is longest
	UptimeSeconds    Number            `json:"uptime_seconds"`
	Rows             Rows              `json:"rows"`
	Lag              map[string]int64  `json:"lag_records"`
	OpenTransactions int64             `json:"open_transactions"`
	Aborted          uint64            `json:"transactions_aborted"`
	Rejected         map[string]uint64 `json:"rejected_rows"`
	DeadLetters      map[string]uint64 `json:"dead_letters"`
	Passed           map[string]uint64 `json:"passed_records"`   // that were not whitened and are no fault, by reason
	Warmup           *stats.Waiting    `json:"warmup,omitempty"` // before the learner's first model
	Learner          *Learner          `json:"learner,omitempty"`
	Model            *Model            `json:"model,omitempty"`
	History          []PastModel       `json:"history"` // models that have whitened, oldest first, the current one last
	Scatter          *Scatter          `json:"scatter,omitempty"`
	Models           int               `json:"models"`     // that belong to one value each, see /api/v1/models; 0 without model.by
	Throughput       []Throughput      `json:"throughput"` // of the last hour, oldest first
	Scores           []ScoreCount      `json:"scores"`     // whitened rows by lca_p, the least first; empty where it is not computed
	Episodes         *Episodes         `json:"episodes,omitempty"`
}

// ScoreCount is a bucket of the histogram of lca_p.
type ScoreCount struct {
	P    Number `json:"p"` // upper bound; the bucket before it has the lower one
	Rows uint64 `json:"rows"`
}

// Episodes are those of the partitions that this process transforms, each by its last record.
type Episodes struct {
	Count  int              `json:"count"`  // that are open
	Opened uint64           `json:"opened"` // by this process
	Open   []episode.Record `json:"open"`   // at most 200, the newest first
	Closed []episode.Record `json:"closed"` // the last 50, the newest first

	Traces map[string][][]Rough `json:"traces"` // of open ones, by id: how the columns that are named first have gone since, as far as this process has seen it
}

// Names are what the pipeline of this process works on. What it does not have is empty.
type Names struct {
	Source   string `json:"source"`   // topic
	Output   string `json:"output"`   // topic
	Group    string `json:"group"`    // consumer group of the transform, whose .learn is the learner's
	Instance string `json:"instance"` // name of this member of the group
	ModelID  string `json:"model_id"`

	Members   int        `json:"members"`   // of the group; 0: not known, or partitions are given as a list
	Instances []Instance `json:"instances"` // the first 100 members, this process before the others
}

// Instance is a member of the group that shares out the partitions of the source.
type Instance struct {
	Name       string  `json:"name"` // instance id, or else the id that the group gave
	Host       string  `json:"host"` // address
	Partitions []int32 `json:"partitions"`
	This       bool    `json:"this"`    // it is this process
	Foreign    bool    `json:"foreign"` // it is another program, which whitens nothing
}

// Rows are running counts.
type Rows struct {
	In        uint64 `json:"in"`
	Learnt    uint64 `json:"learnt"`
	Skipped   uint64 `json:"skipped"`
	Out       uint64 `json:"out"`
	Records   uint64 `json:"records_out"`
	Snapshots uint64 `json:"snapshots"`
}

// Learner holds the learner's latest figures.
type Learner struct {
	Rows      uint64   `json:"rows"`
	NLL       Number   `json:"nll"`
	Gaussian  Number   `json:"gaussian_nll"`
	Effective Number   `json:"effective_neighbours"`
	Alarms    uint64   `json:"drift_alarms"`
	Gated     uint64   `json:"gated_rows"`
	Copies    uint64   `json:"copies"`
	Constant  int      `json:"constant_columns"`
	Still     []string `json:"constant_features"` // their names, at most stillMost
	PassRows  Number   `json:"pass_rows"`
	Curve     []Point  `json:"curve"`
}

func traces(all map[string][][]float64) map[string][][]Rough {
	out := map[string][][]Rough{}
	for id, columns := range all {
		for _, points := range columns {
			rough := make([]Rough, len(points))
			for i, v := range points {
				rough[i] = Rough(v)
			}
			out[id] = append(out[id], rough)
		}
	}
	return out
}

// Point is one point of the NLL curve.
type Point struct {
	Rows     uint64 `json:"rows"`
	NLL      Rough  `json:"nll"`
	Gaussian Rough  `json:"gaussian"`
}

// PastModel is what is kept of a model that has whitened.
type PastModel struct {
	Version     uint64    `json:"version"`
	Published   time.Time `json:"published"`
	Eigenvalues []Rough   `json:"eigenvalues"`
	Turned      []Number  `json:"turned_radians"` // principal angles of the most structured directions to the model before, ascending
}

func api(mux *http.ServeMux, c Config, past *timeline) {
	started := time.Now()
	downloads := make(chan struct{}, maxDownloads)
	limited := func(w http.ResponseWriter, serve func()) {
		select {
		case downloads <- struct{}{}:
			defer func() { <-downloads }()
			serve()
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "others are fetching the snapshot: try again", http.StatusServiceUnavailable)
		}
	}
	all := &shared{compute: func() any { return build(c, past, started) }}
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("model") == "" {
			all.ServeHTTP(w, r)
			return
		}
		limited(w, func() {
			if m := chosenModel(w, r, c); m != nil {
				st := build(c, past, started)
				st.about(c, m)
				writeJSON(w, http.StatusOK, st)
			}
		})
	})
	serveModels(mux, c)
	mux.HandleFunc("/api/v1/snapshots/latest", func(w http.ResponseWriter, r *http.Request) {
		limited(w, func() { latest(w, r, c) })
	})
}

// latest gives the current model, or that of the id which is asked for: its model part as an Arrow stream, then its neighbours as
// another, like a snapshot file; or what the page shows of it as JSON, when asked for.
func latest(w http.ResponseWriter, r *http.Request, c Config) {
	m := chosenModel(w, r, c)
	if m == nil {
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, http.StatusOK, model(m))
		return
	}
	w.Header().Set("Content-Type", "application/vnd.apache.arrow.stream")
	if err := m.Encode(w); err != nil {
		c.Log.Debug("a client went away", "error", err)
	}
}

func build(c Config, past *timeline, started time.Time) *Status {
	s := c.Stats
	t := s.Tables()
	now := time.Now()
	st := &Status{
		Ready: s.Ready(), Build: c.Build, UptimeSeconds: Number(now.Sub(started).Seconds()),
		Rows: Rows{
			In: s.SourceRows.Load(), Learnt: s.LearntRows.Load(), Skipped: s.SkippedRows.Load(),
			Out: s.TransformRows.Load(), Records: s.SinkRecords.Load(), Snapshots: s.Snapshots.Load(),
		},
		Lag: map[string]int64{}, OpenTransactions: s.OpenTransactions.Load(), Aborted: s.TransactionsAborted.Load(),
		Rejected: t.Rejected, DeadLetters: t.DeadLetters, Passed: t.Passed, History: history(s.ModelHistory()),
		SinceCommit: map[string]Number{}, Models: s.Models.Len(), Warmup: s.Waiting(),
	}
	if c.Names != nil {
		st.Names = c.Names()
	}
	if c.Trouble != nil {
		st.LastError = c.Trouble()
	}
	if at, ok := s.LastCommit(); ok {
		st.LastCommit = &at
	}
	st.Scores = scoreCounts(s)
	if said := s.Episodes.Said(); said != nil {
		e := &Episodes{Opened: said[stats.EpisodeOpened], Closed: s.Episodes.Closed()}
		e.Count, e.Open = s.Episodes.Open()
		e.Traces = traces(s.Episodes.Traces())
		st.Episodes = e
	}
	for p, waited := range s.SinceCommit() {
		st.SinceCommit[p.Stage] = max(st.SinceCommit[p.Stage], Number(waited.Seconds()))
	}
	for p, n := range t.Lag {
		st.Lag[strconv.Itoa(int(p.ID))] = n
	}
	if l := s.Learning(); l != nil {
		st.Learner = learner(l)
	}
	if m := s.CurrentModel(); m != nil {
		st.Model, st.Scatter = model(m), scatter(m, c.Label)
	}
	lastHour := past.since(now)
	st.Throughput = throughput(lastHour)
	st.Summary = summary(st, append(lastHour, momentOf(s, now)), now)
	return st
}

func scoreCounts(s *stats.Stats) []ScoreCount {
	out := []ScoreCount{}
	_, counts := s.Scores()
	total := uint64(0)
	for i, bound := range stats.ScoreBounds() {
		out = append(out, ScoreCount{P: Number(bound), Rows: counts[i]})
		total += counts[i]
	}
	if total == 0 {
		return out[:0]
	}
	return out
}

// stillMost is how many names of columns that have not moved the page gets.
const stillMost = 20

func learner(l *stats.Learning) *Learner {
	out := &Learner{
		Rows: l.Version, NLL: Number(l.NLL), Gaussian: Number(l.GaussianNLL), Effective: Number(l.Effective),
		Alarms: l.Alarms, Gated: l.Gated, Copies: l.Copies, Constant: len(l.Constant), Still: append([]string{}, l.Constant[:min(len(l.Constant), stillMost)]...), PassRows: Number(l.PassRows),
		Curve: make([]Point, 0, len(l.Curve)),
	}
	for _, p := range l.Curve {
		out.Curve = append(out.Curve, Point{Rows: p.Rows, NLL: Rough(p.NLL), Gaussian: Rough(p.Gaussian)})
	}
	return out
}

func history(all []stats.PastModel) []PastModel {
	out := make([]PastModel, 0, len(all))
	for _, p := range all {
		out = append(out, PastModel{Version: p.Version, Published: p.Published, Eigenvalues: convert[Rough](p.Eigenvalues), Turned: convert[Number](p.Turned)})
	}
	return out
}

// Number is a float64 that JSON can always represent: NaN and the infinities are null. Encoding/json would refuse the
// whole answer because of one of them.
type Number float64

// MarshalJSON writes the shortest digits that give the same float64 again.
func (v Number) MarshalJSON() ([]byte, error) { return marshal(float64(v), -1), nil }

// Rough is a Number for drawing: there are many of them in an answer, and a pixel needs four digits.
type Rough float64

// MarshalJSON writes four significant digits.
func (v Rough) MarshalJSON() ([]byte, error) { return marshal(float64(v), 4), nil }

func marshal(v float64, digits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null")
	}
	return strconv.AppendFloat(nil, v, 'g', digits, 64)
}

func convert[T Number | Rough](all []float64) []T {
	out := make([]T, len(all))
	for i, v := range all {
		out[i] = T(v)
	}
	return out
}
