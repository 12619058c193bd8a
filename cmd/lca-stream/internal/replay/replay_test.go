package replay

import (
	"testing"
)

// TestReplayNotes holds that a replay says what is wrong with its model, and what it has not learnt, and nothing else.
func TestReplayNotes(t *testing.T) {
	low, high, level := 30.5, 32.4, 30.54
	for want, r := range map[string]Result{
		"": {NLL: &low, SingleNLL: &high, Parzen: 3},
		"young model: 7 rows, 1 for each feature that varies; from 20 on a model knows more than their covariance\n": {NLL: &level, SingleNLL: &low, Parzen: 3, Rows: 7, RowsPerFeature: 1},
		"worse than a single Gaussian, 30.5 nats/row\n":                                                              {NLL: &high, SingleNLL: &low, Parzen: 3},
		"the stream changed 1 time: the model is of the rows since the last change\n":                                {Parzen: 3, Restarts: 1},
		"left out: 1 row far from all others; 200 rows of changes that did not last (lca.accept_after); 7 rows of a change that the range ends with (lca.accept_after)\n": {
			Outliers: 1, Passing: 200, Unconfirmed: 7},
		"young model: 500 rows, 9.6 for each feature that varies; a stream's first model takes 3000. More rows make a better one\n": {Rows: 500, RowsPerFeature: 9.6, Wanted: 3000},
		"young model: 500 rows, 9.6 for each feature that varies; from 20 on a model knows more than their covariance\n":            {Rows: 500, RowsPerFeature: 9.6},
		"constant: valve, \"a\\x1b\"; a row in which one of them moves is an anomaly\n":                                             {RowsPerFeature: 50, Constant: []string{"valve", "a\x1b"}},
		"passed over: 2 records, and 3 rows with a null, NaN or infinity\n":                                                         {Rejected: 2, Invalid: 3},
	} {
		if got := r.notes(); got != want {
			t.Errorf("%+v is said as %q, want %q", r, got, want)
		}
	}
}
