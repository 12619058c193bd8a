package status

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline/stats"
)

// fleet is a process with a model for each of three values.
func fleet(t *testing.T) *process {
	t.Helper()
	p := busy(t)
	for id, row := range map[string]stats.ModelRow{
		"m/0/press-1":  {Version: 300, RowsLearnt: 320, InMemory: true, LastRow: time.Unix(60, 0), Gain: 0.5, Alarms: 1, Anomalies: 4},
		"m/1/press%2F": {Version: 100, RowsLearnt: 100, Gain: 0.25},
		"m/1/new":      {RowsLearnt: 7, InMemory: true},
	} {
		p.stats.Models.Update(id, func(r *stats.ModelRow) {
			row.ID, row.Partition, row.Value = r.ID, r.Partition, r.Value
			*r = row
		})
	}
	return p
}

func TestModels(t *testing.T) {
	base := serve(t, fleet(t), nil)
	for _, c := range []struct {
		query string
		ids   string
	}{
		{"", "m/0/press-1 m/1/new m/1/press%2F"}, {"?limit=2", "m/0/press-1 m/1/new"}, {"?limit=2&offset=2", "m/1/press%2F"}, {"?offset=3", ""}, {"?limit=0", ""},
		{"?sort=rows_learnt&order=desc", "m/0/press-1 m/1/press%2F m/1/new"}, {"?sort=gain&order=asc", "m/1/new m/1/press%2F m/0/press-1"},
		{"?sort=value&limit=1000", "m/1/new m/0/press-1 m/1/press%2F"},
	} {
		code, header, body := fetch(t, http.MethodGet, base+"/api/v1/models"+c.query)
		var answer Models
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != http.StatusOK || !strings.Contains(header.Get("Content-Type"), "json") {
			t.Fatalf("%s: %d, %v\n%s", c.query, code, err, body)
		}
		var ids []string
		for _, m := range answer.Models {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != c.ids || answer.Total != 3 || answer.Models == nil {
			t.Errorf("%s: %q of %d, want %q of 3", c.query, got, answer.Total, c.ids)
		}
	}
	_, _, body := fetch(t, http.MethodGet, base+"/api/v1/models?limit=1")
	var answer struct{ Models []map[string]any }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"id": "m/0/press-1", "partition": 0., "value": "press-1", "version": 300., "rows_learnt": 320., "in_memory": true, "last_row": "1970-01-01T00:01:00Z", "gain": 0.5, "alarms": 1., "anomalies": 4.}
	if diff := cmp.Diff(want, answer.Models[0]); diff != "" {
		t.Error(diff)
	}
	if _, _, body = fetch(t, http.MethodGet, base+"/api/v1/models?sort=version&limit=1"); !strings.Contains(body, `"last_row": null`) {
		t.Errorf("a model without a row here:\n%s", body)
	}
	if _, _, body = fetch(t, http.MethodGet, base+"/api/v1/status"); !strings.Contains(body, `"models": 3`) {
		t.Errorf("the status does not say that there are three:\n%s", body)
	}
}

func TestModelsRefuses(t *testing.T) {
	base := serve(t, fleet(t), nil)
	for query, says := range map[string]string{
		"limit=1001": "0 … 1000", "limit=-1": `limit is "-1"`, "offset=x": `offset is "x"`, "offset=99999999999999999999": "offset",
		"sort=colour": "want one of alarms, anomalies, gain, id", "order=up": "want asc or desc",
	} {
		if code, _, body := fetch(t, http.MethodGet, base+"/api/v1/models?"+query); code != http.StatusBadRequest || !strings.Contains(body, says) {
			t.Errorf("%s: %d %s", query, code, body)
		}
	}
}

// slowClient takes nothing until it is let go.
type slowClient struct {
	http.ResponseWriter
	writes chan struct{}
	goOn   chan struct{}
}

func (s *slowClient) Write(p []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.goOn
	return s.ResponseWriter.Write(p)
}

// Few answers are in memory at once, however many clients ask and however slow they are. The others have theirs when it is their turn, or are told to come again.
func TestListsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		serveModels(mux, Config{Stats: fleet(t).stats})
		writes, goOn := make(chan struct{}, 100), make(chan struct{})
		var all sync.WaitGroup
		ask := func() *httptest.ResponseRecorder {
			answer := httptest.NewRecorder()
			all.Go(func() {
				mux.ServeHTTP(&slowClient{answer, writes, goOn}, httptest.NewRequest(http.MethodGet, "/api/v1/models", nil))
			})
			return answer
		}
		for range maxLists {
			ask()
		}
		synctest.Wait()
		late := ask()
		time.Sleep(listWait / 2)
		synctest.Wait()
		if len(writes) != maxLists {
			t.Fatalf("%d lists at once, want %d", len(writes), maxLists)
		}
		for range maxLists {
			<-writes
		}
		time.Sleep(listWait)
		synctest.Wait()
		if <-writes; late.Header().Get("Retry-After") == "" {
			t.Error("a client that waited for long was not told to come again")
		}
		patient := ask()
		close(goOn)
		if all.Wait(); late.Code != http.StatusServiceUnavailable || patient.Code != http.StatusOK {
			t.Errorf("codes %d and %d", late.Code, patient.Code)
		}
	})
}

// Without keys there is no table, and no series of it.
func TestNoModelsWithoutKeys(t *testing.T) {
	p := busy(t)
	base := serve(t, p, nil)
	if _, _, body := fetch(t, http.MethodGet, base+"/api/v1/models"); !strings.Contains(body, `"total": 0`) || !strings.Contains(body, `"models": []`) {
		t.Errorf("%s", body)
	}
	if _, _, body := fetch(t, http.MethodGet, base+"/metrics"); strings.Contains(body, "lca_models") {
		t.Error("there are series of models by value")
	}
	p.stats.ModelCounts("learn").Memory.Add(2)
	p.stats.ModelCounts("learn").Loaded.Add(5)
	if _, _, body := fetch(t, http.MethodGet, base+"/metrics"); !strings.Contains(body, `lca_models{stage="learn"} 2`) || !strings.Contains(body, `lca_models_loaded_total{stage="learn"} 5`) || !strings.Contains(body, `lca_models_evicted_total{stage="learn"} 0`) || !strings.Contains(body, `lca_models_retired_total{stage="learn"} 0`) {
		t.Errorf("%s", body)
	}
}

// With keys a snapshot is asked for by the id of its model, and so is one model's view of the page.
func TestSnapshotOfOneValue(t *testing.T) {
	p := fleet(t)
	find := func(_ context.Context, id string) (*stats.PublishedModel, error) {
		switch id {
		case "m/0/press-1":
			return p.stats.CurrentModel(), nil
		case "m/1/press%2F":
			return nil, errors.New("no broker answers")
		}
		return nil, nil
	}
	base := serve(t, p, func(c *Config) { c.Model = find })
	for _, c := range []struct {
		path string
		code int
		says string
	}{
		{"/api/v1/snapshots/latest?model=m%2F0%2Fpress-1", http.StatusOK, "lca.model_id"},
		{"/api/v1/status?model=m%2F0%2Fpress-1", http.StatusOK, `"eigenvalues"`},
		{"/api/v1/snapshots/latest?model=m%2F1%2Fnew", http.StatusNotFound, "there is no published model of id m/1/new"},
		{"/api/v1/snapshots/latest?model=m%2F1%2Fpress%252F", http.StatusServiceUnavailable, "no broker answers"},
		{"/api/v1/status?model=m%2F1%2Fnew", http.StatusNotFound, "no published model"},
		{"/api/v1/snapshots/latest", http.StatusNotFound, "say which with ?model=ID"},
	} {
		if code, _, body := fetch(t, http.MethodGet, base+c.path); code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %.300s", c.path, code, body)
		}
	}
	_, _, body := fetch(t, http.MethodGet, base+"/api/v1/status?model=m%2F0%2Fpress-1")
	if strings.Contains(body, `"learner"`) || !strings.Contains(body, `"history": []`) {
		t.Errorf("one model's view has the figures of others:\n%s", body)
	}
}

// The strangest rows are answered with where they came from and which features they are strange in, the strangest first.
func TestStrangest(t *testing.T) {
	p := newProcess()
	base := serve(t, p, nil)
	answer := func() (got Strangest) {
		t.Helper()
		code, _, body := fetch(t, http.MethodGet, base+"/api/v1/strangest")
		if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK || got.Rows == nil {
			t.Fatalf("%d %v\n%s", code, err, body)
		}
		return got
	}
	if got := answer(); len(got.Rows) != 0 {
		t.Errorf("%d rows before the first", len(got.Rows))
	}
	p.learn(t, 400)
	p.transform(t, 300, 7)
	got := answer()
	if len(got.Rows) != 10 || got.Minutes != 5 {
		t.Fatalf("%d rows of %d minutes", len(got.Rows), got.Minutes)
	}
	if !slices.IsSortedFunc(got.Rows, func(a, b Strange) int { return int(10000 * (a.P - b.P)) }) || got.Rows[0].P > 0.05 {
		t.Errorf("from p = %g to %g", got.Rows[0].P, got.Rows[9].P)
	}
	for _, row := range got.Rows {
		if row.Source.Topic != "events" || row.Source.Row < 7 || row.Version == 0 || row.ModelID != "m" || len(row.Why) != 3 || row.Why[0].Nats < row.Why[2].Nats {
			t.Errorf("%+v", row)
		}
	}
}
