package status

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
)

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
