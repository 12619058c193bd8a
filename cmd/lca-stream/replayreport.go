package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
)

// report prints what a replay made of the range, and what it left out.
func (r *replay) report(w io.Writer, result replayResult) error {
	if r.flags.json {
		return json.NewEncoder(w).Encode(result)
	}
	_, err := fmt.Fprintf(w, "%d rows in %.1f s: NLL %s nats/row, %d Parzen and %d Gaussian directions\n%sversion %d to %s\nfingerprint %s\n",
		result.Rows, result.Seconds, maybe(result.NLL), result.Parzen, result.Gaussian, result.notes(), result.ModelVersion, r.target(), result.Fingerprint)
	return err
}

// notes are the lines that a result has only if there is something to know, each with its newline.
func (r replayResult) notes() string {
	var b strings.Builder
	if r.NLL != nil && r.SingleNLL != nil && r.Parzen > 0 && *r.NLL > *r.SingleNLL {
		fmt.Fprintf(&b, "worse than a single Gaussian, %s nats/row\n", maybe(r.SingleNLL))
	}
	if r.Restarts > 0 {
		fmt.Fprintf(&b, "the stream changed %s: the model is of the rows since the last change\n", plural.Count(r.Restarts, "time"))
	}
	if aside := r.aside(); len(aside) > 0 {
		fmt.Fprintf(&b, "left out: %s\n", strings.Join(aside, "; "))
	}
	if r.Rejected+r.Invalid > 0 {
		fmt.Fprintf(&b, "passed over: %d records, and %d rows with a null, NaN or infinity\n", r.Rejected, r.Invalid)
	}
	return b.String()
}

// aside says which rows were read and not learnt, and why.
func (r replayResult) aside() (parts []string) {
	for _, p := range []struct {
		rows uint64
		why  string
	}{
		{r.Outliers, "far from all others"},
		{r.Passing, "of changes that did not last (lca.drift)"},
		{r.Unconfirmed, "of a change that the range ends with (lca.drift)"},
	} {
		if p.rows > 0 {
			parts = append(parts, plural.Count(p.rows, "row")+" "+p.why)
		}
	}
	return parts
}
