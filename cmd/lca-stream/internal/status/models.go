package status

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// Model is the current model.
type Model struct {
	ID          string      `json:"id"`
	Version     uint64      `json:"version"`
	AgeSeconds  Number      `json:"age_seconds"`
	Dim         int         `json:"d"`
	Gaussian    int         `json:"d_gaussian"`
	Parzen      int         `json:"d_parzen"`
	NLL         Number      `json:"nll"`
	GaussianNLL Number      `json:"gaussian_nll"`
	Drift       Number      `json:"drift_radians"`
	Eigenvalues []Number    `json:"eigenvalues"`
	Directions  []Direction `json:"directions"`
	Choice      *Choice     `json:"choice,omitempty"` // the last choice by the data
	Young       string      `json:"young,omitempty"`  // how far a model is that scores the last rows alone
}

// Choice says which settings were compared, and which was taken.
type Choice struct {
	Rows       uint64  `json:"rows"`                // learnt when they were compared
	Beginning  bool    `json:"beginning,omitempty"` // by the rows that they were fitted to; otherwise by rows held out
	Candidates []Trial `json:"candidates"`
}

// Trial is a candidate of a choice.
type Trial struct {
	Name   string `json:"name"`
	Parzen int    `json:"d_parzen"`
	Kernel string `json:"kernel"`
	NLL    Number `json:"nll"` // null where it collapsed
	Taken  bool   `json:"taken"`
}

// Direction is one Parzen direction and the features that weigh most in it.
type Direction struct {
	Eigenvalue Number    `json:"eigenvalue"`
	Features   []Loading `json:"features"`
}

// Loading is a feature's share of a direction, between −1 and 1, in standard deviations of the feature.
type Loading struct {
	Feature string `json:"feature"`
	Weight  Number `json:"weight"`
}

// Scatter shows rows of the pool before and after: the two raw columns of largest variance, and the two directions with
// the most structure.
type Scatter struct {
	Before     [][2]Rough `json:"before"`
	After      [][2]Rough `json:"after"`
	Labels     []int      `json:"labels,omitempty"` // of the same rows, −1: unknown; none where the truth is not known
	BeforeAxes [2]string  `json:"before_axes"`
	AfterAxes  [2]string  `json:"after_axes"`
}

// Bounds of what is drawn of a large model.
const (
	shownDirections = 8
	shownLoadings   = 5
	shownPoints     = 400
)

func model(m *stats.PublishedModel) *Model {
	return &Model{
		ID: m.ModelID, Version: m.Version, AgeSeconds: Number(m.Age(time.Now()).Seconds()),
		Dim: m.Model.Dim, Gaussian: m.Model.Gaussian(), Parzen: m.Model.Parzen(),
		NLL: Number(m.Model.Info.NLL), GaussianNLL: Number(m.Model.Info.GaussianNLL), Drift: Number(m.Model.Info.Drift),
		Eigenvalues: convert[Number](m.Model.Ratio), Directions: directions(m), Choice: choice(snapshot.ChoiceOf(m.Model.Info.Choice)),
		Young: m.Young(),
	}
}

func choice(c *snapshot.Choice) *Choice {
	if c == nil {
		return nil
	}
	out := &Choice{Rows: c.Rows, Beginning: c.Beginning()}
	for _, t := range c.Candidates {
		nll := Number(math.NaN())
		if t.NLL != nil {
			nll = Number(*t.NLL)
		}
		out.Candidates = append(out.Candidates, Trial{Name: t.Name, Parzen: t.Parzen, Kernel: t.Kernel, NLL: nll, Taken: t.Name == c.Taken})
	}
	return out
}

func directions(m *stats.PublishedModel) []Direction {
	out := []Direction{}
	for _, d := range m.Directions(shownDirections, shownLoadings) {
		shown := Direction{Eigenvalue: Number(d.Eigenvalue)}
		for _, f := range d.Features {
			shown.Features = append(shown.Features, Loading{Feature: f.Feature, Weight: Number(f.Weight)})
		}
		out = append(out, shown)
	}
	return out
}

func scatter(m *stats.PublishedModel, label func([]float64) (int, bool)) *Scatter {
	d := m.Model.Dim
	n := len(m.Model.Neighbours) / d
	if n == 0 || len(m.Model.Ratio) < 2 {
		return nil
	}
	a, b := widest(m)
	s := &Scatter{BeforeAxes: [2]string{m.Features[a], m.Features[b]}, AfterAxes: [2]string{axis(m, 0), axis(m, 1)}}
	step := max(n/shownPoints, 1)
	row, known := make([]float64, d), false
	for i := 0; i < n; i += step {
		var y [2]float64
		for j, x := range m.Model.Neighbours[i*d : (i+1)*d] {
			row[j] = float64(x) + m.Model.Mean[j]
			y[0] += weight(m, j, 0) * float64(x)
			y[1] += weight(m, j, 1) * float64(x)
		}
		s.Before = append(s.Before, [2]Rough{Rough(row[a]), Rough(row[b])})
		s.After = append(s.After, [2]Rough{Rough(y[0]), Rough(y[1])})
		if label == nil {
			continue
		}
		l, ok := label(row)
		if !ok {
			l = -1
		}
		known = known || ok
		s.Labels = append(s.Labels, l)
	}
	if !known {
		s.Labels = nil
	}
	return s
}

// axis names a direction: those with structure come first.
func axis(m *stats.PublishedModel, direction int) string {
	if parzen := m.Model.Parzen(); direction >= parzen {
		return fmt.Sprintf("Gaussian direction %d", direction-parzen+1)
	}
	return fmt.Sprintf("direction %d", direction+1)
}

// weight returns what a feature has in a direction, in the order of the spectrum.
func weight(m *stats.PublishedModel, feature, direction int) float64 {
	if parzen := m.Model.Parzen(); direction >= parzen {
		return m.Model.BG.At(feature, direction-parzen)
	}
	return m.Model.BL.At(feature, direction)
}

// widest returns the two columns of largest variance.
func widest(m *stats.PublishedModel) (first, second int) {
	c := m.Model.CG
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

// Models is the answer of /api/v1/models: the models that belong to one value each, of the partitions that this process
// works on. Without model.by there are none.
type Models struct {
	Total  int        `json:"total"`
	Offset int        `json:"offset"`
	Models []ModelRow `json:"models"`
}

// ModelRow is one of them.
type ModelRow struct {
	ID         string     `json:"id"`
	Partition  int32      `json:"partition"` // of the source
	Value      string     `json:"value"`     // of model.by; percent-encoded where it is not UTF-8
	Version    uint64     `json:"version"`   // the newest that is published; 0: none is
	RowsLearnt uint64     `json:"rows_learnt"`
	InMemory   bool       `json:"in_memory"`
	LastRow    *time.Time `json:"last_row"`  // when its last row was read here; null: none was
	Gain       Number     `json:"gain"`      // nats per row by which it is better than a single Gaussian
	Alarms     uint64     `json:"alarms"`    // changes of its rows that were noticed
	Anomalies  uint64     `json:"anomalies"` // rows with a lca_p below 1e-4
}

const (
	modelsShown = 100  // of a request without a limit
	mostModels  = 1000 // of a request

	// maxLists bounds the lists at once: each holds its answer in memory until the client has it. Others wait for listWait.
	maxLists = 4
	listWait = 10 * time.Second
)

// serveModels serves the table of models.
func serveModels(mux *http.ServeMux, c Config) {
	lists := make(chan struct{}, maxLists)
	mux.HandleFunc("/api/v1/models", func(w http.ResponseWriter, r *http.Request) {
		q, err := modelQueryOf(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if !enter(r.Context(), lists) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "others are listing the models: try again", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-lists }()
		rows, total := c.Stats.Models.List(q.offset, q.limit, q.by, q.descending)
		out := Models{Total: total, Offset: q.offset, Models: make([]ModelRow, 0, len(rows))}
		for i := range rows {
			out.Models = append(out.Models, modelRow(&rows[i]))
		}
		writeJSON(w, http.StatusOK, out)
	})
}

// enter waits for a place among those that list. It returns false where none is free for long, or the client has gone.
func enter(ctx context.Context, lists chan<- struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	select {
	case lists <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func modelRow(r *stats.ModelRow) ModelRow {
	out := ModelRow{
		ID: r.ID, Partition: r.Partition, Value: r.Value, Version: r.Version, RowsLearnt: r.RowsLearnt, InMemory: r.InMemory,
		Gain: Number(r.Gain), Alarms: r.Alarms, Anomalies: r.Anomalies,
	}
	if at := r.LastRow.UTC(); !r.LastRow.IsZero() {
		out.LastRow = &at
	}
	return out
}

// modelQuery is a page of the table: its rows from offset on, in an order.
type modelQuery struct {
	offset, limit int
	by            string
	descending    bool
}

// modelQueryOf reads offset, limit, sort and order of a request.
func modelQueryOf(r *http.Request) (q modelQuery, err error) {
	given := r.URL.Query()
	q = modelQuery{limit: modelsShown, by: "id"}
	for _, n := range []struct {
		name string
		p    *int
		most int
	}{{"offset", &q.offset, 1 << 30}, {"limit", &q.limit, mostModels}} {
		if text := given.Get(n.name); text != "" {
			if *n.p, err = strconv.Atoi(text); err != nil || *n.p < 0 || *n.p > n.most {
				return q, fmt.Errorf("%s is %q: want a whole number, 0 … %d", n.name, text, n.most)
			}
		}
	}
	if by := given.Get("sort"); by != "" {
		if q.by = by; !slices.Contains(stats.ModelOrders(), by) {
			return q, fmt.Errorf("sort is %q: want one of %s", by, strings.Join(stats.ModelOrders(), ", "))
		}
	}
	switch order := given.Get("order"); order {
	case "", "asc":
	case "desc":
		q.descending = true
	default:
		return q, fmt.Errorf("order is %q: want asc or desc", order)
	}
	return q, nil
}

// chosenModel returns the model that a request names: the current one, or one that belongs to a value. It answers the
// request itself, and returns nil, if there is none.
func chosenModel(w http.ResponseWriter, r *http.Request, c Config) *stats.PublishedModel {
	current := c.Stats.CurrentModel()
	id := r.URL.Query().Get("model")
	switch {
	case c.Model != nil && id != "":
		m, err := c.Model(r.Context(), id)
		if err != nil {
			http.Error(w, "the model cannot be read: "+err.Error(), http.StatusServiceUnavailable)
			return nil
		}
		if m == nil {
			http.Error(w, "there is no published model of id "+id, http.StatusNotFound)
		}
		return m
	case c.Model != nil:
		http.Error(w, "there is a model for each value: say which with ?model=ID; /api/v1/models lists them", http.StatusNotFound)
		return nil
	case current == nil:
		http.Error(w, "no model yet", http.StatusNotFound)
	case id != "" && id != current.ModelID:
		http.Error(w, "this process has no model of that id, but "+current.ModelID, http.StatusNotFound)
		return nil
	}
	return current
}

// about makes a status that of one of the models: its figures, without a history, which is kept of none of them.
func (st *Status) about(c Config, m *stats.PublishedModel) {
	st.Learner, st.Warmup, st.History = nil, nil, []PastModel{}
	st.Model, st.Scatter = model(m), scatter(m, c.Label)
}

// Strangest is the answer of /api/v1/strangest: whitened rows with the least lca_p, the strangest first.
type Strangest struct {
	Minutes int       `json:"minutes"` // how far back it looks
	Rows    []Strange `json:"rows"`
}

// Strange is one of them.
type Strange struct {
	Time    time.Time      `json:"time"` // of its record
	Source  Place          `json:"source"`
	ModelID string         `json:"model_id"`
	Version uint64         `json:"version"` // of the model that has scored it
	Score   float32        `json:"score"`
	P       float32        `json:"p"`
	LeastP  float32        `json:"least_p"` // what the model's scores can tell: a smaller p says that it is less
	Why     []stats.Guilty `json:"why"`     // the features that make the score high, the largest first
}

// Place is where a row came from.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Row       int    `json:"row"` // within its record, from 0 on
}

const (
	strangestMinutes = 5
	strangestRows    = 20
)

// strangest serves the strangest rows of this process. Each process has those of its own partitions.
func strangest(mux *http.ServeMux, c Config) {
	mux.Handle("/api/v1/strangest", &shared{compute: func() any {
		out := Strangest{Minutes: strangestMinutes, Rows: []Strange{}}
		for _, s := range c.Stats.Strangest(time.Now()) {
			if len(out.Rows) == strangestRows {
				break
			}
			out.Rows = append(out.Rows, Strange{
				Time: s.Time.UTC(), Source: Place{s.Partition.Topic, s.Partition.ID, s.Offset, s.Row}, ModelID: s.ModelID, Version: s.Version,
				Score: s.Score, P: s.P, LeastP: s.LeastP, Why: s.Why,
			})
		}
		return out
	}})
}
