package status

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
)

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
	Anomalies  uint64     `json:"anomalies"` // rows with a lca_p below alarms.p_below, or without alarms below 1e-4
}

const (
	modelsShown = 100  // of a request without a limit
	mostModels  = 1000 // of a request

	// maxLists bounds the lists at once: each holds its answer in memory until the client has it. Others wait for listWait.
	maxLists = 4
	listWait = 10 * time.Second
)

// models serves the table of models.
func models(mux *http.ServeMux, c Config) {
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

func modelRow(r *pipeline.ModelRow) ModelRow {
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
		if q.by = by; !slices.Contains(pipeline.ModelOrders(), by) {
			return q, fmt.Errorf("sort is %q: want one of %s", by, strings.Join(pipeline.ModelOrders(), ", "))
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
func chosenModel(w http.ResponseWriter, r *http.Request, c Config) *pipeline.PublishedModel {
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
func (st *Status) about(c Config, m *pipeline.PublishedModel) {
	st.Learner, st.Warmup, st.History = nil, nil, []PastModel{}
	st.Model, st.Scatter = model(m), scatter(m, c.Label)
}
