package status

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// Status is the answer of /api/v1/status: all that the page shows.
type Status struct {
	Ready            pipeline.Readiness `json:"ready"`
	Build            Build              `json:"build"`
	UptimeSeconds    float64            `json:"uptime_seconds"`
	Rows             Rows               `json:"rows"`
	Lag              map[string]int64   `json:"lag_records"`
	OpenTransactions int64              `json:"open_transactions"`
	Aborted          uint64             `json:"transactions_aborted"`
	Rejected         map[string]uint64  `json:"rejected_rows"`
	DeadLetters      map[string]uint64  `json:"dead_letters"`
	Learner          *Learner           `json:"learner,omitempty"`
	Model            *Model             `json:"model,omitempty"`
	History          []pipeline.Past    `json:"history"`
	Scatter          *Scatter           `json:"scatter,omitempty"`
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

// Learner is the learner's state of mind; numbers that are not known yet are null.
type Learner struct {
	Rows      uint64   `json:"rows"`
	NLL       *float64 `json:"nll"`
	Gaussian  *float64 `json:"gaussian_nll"`
	Effective *float64 `json:"effective_neighbours"`
	Alarms    uint64   `json:"drift_alarms"`
	Gated     uint64   `json:"gated_rows"`
	Copies    uint64   `json:"copies"`
	Constant  int      `json:"constant_columns"`
	PassRows  float64  `json:"pass_rows"`
	Curve     []Point  `json:"curve"`
}

// Point is one point of the NLL curve.
type Point struct {
	Rows     uint64   `json:"rows"`
	NLL      *float64 `json:"nll"`
	Gaussian *float64 `json:"gaussian"`
}

// Model is the model in force.
type Model struct {
	ID          string               `json:"id"`
	Version     uint64               `json:"version"`
	AgeSeconds  float64              `json:"age_seconds"`
	Dim         int                  `json:"d"`
	Gaussian    int                  `json:"d_gaussian"`
	Parzen      int                  `json:"d_parzen"`
	NLL         *float64             `json:"nll"`
	GaussianNLL *float64             `json:"gaussian_nll"`
	Drift       *float64             `json:"drift_radians"`
	Eigenvalues []float64            `json:"eigenvalues"`
	Directions  []snapshot.Direction `json:"directions"`
}

// Scatter shows the pool before and after: the two raw columns of largest variance, and the first
// two Parzen directions.
type Scatter struct {
	Before     [][2]float64 `json:"before"`
	After      [][2]float64 `json:"after"`
	BeforeAxes [2]string    `json:"before_axes"`
	AfterAxes  [2]string    `json:"after_axes"`
}

const (
	shownDirections = 8
	shownLoadings   = 5
	shownPoints     = 400
)

func api(mux *http.ServeMux, c Config) {
	started := time.Now()
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, build(c, started))
	})
	mux.HandleFunc("/api/v1/snapshots/latest", func(w http.ResponseWriter, r *http.Request) { latest(w, r, c) })
}

// latest gives the model in force as the Arrow stream of its model part, or as JSON when asked.
func latest(w http.ResponseWriter, r *http.Request, c Config) {
	m := c.Stats.InForce()
	if m == nil {
		http.Error(w, "no model yet", http.StatusNotFound)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, model(m))
		return
	}
	w.Header().Set("Content-Type", "application/vnd.apache.arrow.stream")
	if err := snapshot.WriteFile(w, m.Snapshot); err != nil {
		c.Log.Debug("a client went away", "error", err)
	}
}

func build(c Config, started time.Time) *Status {
	s := c.Stats
	t := s.Tables()
	st := &Status{
		Ready: s.Ready(), Build: c.Build, UptimeSeconds: time.Since(started).Seconds(),
		Rows: Rows{
			In: s.SourceRows.Load(), Learnt: s.LearntRows.Load(), Skipped: s.SkippedRows.Load(),
			Out: s.TransformRows.Load(), Records: s.SinkRecords.Load(), Snapshots: s.Snapshots.Load(),
		},
		Lag: map[string]int64{}, OpenTransactions: s.OpenTransactions.Load(), Aborted: s.TransactionsAborted.Load(),
		Rejected: t.Rejected, DeadLetters: t.DeadLetters, History: s.Past(),
	}
	for p, n := range t.Lag {
		st.Lag[strconv.Itoa(int(p.ID))] = n
	}
	if l := s.Learning(); l != nil {
		st.Learner = learner(l)
	}
	if m := s.InForce(); m != nil {
		st.Model, st.Scatter = model(m), scatter(m)
	}
	return st
}

func learner(l *pipeline.Learning) *Learner {
	out := &Learner{
		Rows: l.Version, NLL: known(l.NLL), Gaussian: known(l.GaussianNLL), Effective: known(l.Effective),
		Alarms: l.Alarms, Gated: l.Gated, Copies: l.Copies, Constant: l.Constant, PassRows: l.PassRows,
		Curve: make([]Point, 0, len(l.Curve)),
	}
	for _, p := range l.Curve {
		out.Curve = append(out.Curve, Point{Rows: p.Rows, NLL: known(p.NLL), Gaussian: known(p.Gaussian)})
	}
	return out
}

func model(m *pipeline.InForce) *Model {
	return &Model{
		ID: m.ModelID, Version: m.Version, AgeSeconds: m.Age(time.Now()).Seconds(),
		Dim: m.Model.Dim, Gaussian: m.Model.Gaussian(), Parzen: m.Model.Parzen(),
		NLL: known(m.Model.Info.NLL), GaussianNLL: known(m.Model.Info.GaussianNLL), Drift: known(m.Model.Info.Drift),
		Eigenvalues: m.Model.Ratio, Directions: m.Directions(shownDirections, shownLoadings),
	}
}

func scatter(m *pipeline.InForce) *Scatter {
	d := m.Model.Dim
	n := len(m.Model.Neighbours) / d
	if n == 0 || d < 2 || m.Model.Parzen() < 2 {
		return nil
	}
	a, b := widest(m.Model.CG)
	s := &Scatter{BeforeAxes: [2]string{m.Features[a], m.Features[b]}, AfterAxes: [2]string{"Parzen 1", "Parzen 2"}}
	step := max(n/shownPoints, 1)
	for i := 0; i < n; i += step {
		x := m.Model.Neighbours[i*d : (i+1)*d]
		var y [2]float64
		for j := range x {
			centred := float64(x[j]) - m.Model.Mean[j]
			y[0] += m.Model.BL.At(j, 0) * centred
			y[1] += m.Model.BL.At(j, 1) * centred
		}
		s.Before = append(s.Before, [2]float64{float64(x[a]), float64(x[b])})
		s.After = append(s.After, y)
	}
	return s
}

func widest(c *mat.SymDense) (first, second int) {
	first, second = -1, -1
	for i := range c.SymmetricDim() {
		switch v := c.At(i, i); {
		case first < 0 || v > c.At(first, first):
			first, second = i, first
		case second < 0 || v > c.At(second, second):
			second = i
		}
	}
	return first, second
}

// known is nil for a number that JSON cannot say.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
