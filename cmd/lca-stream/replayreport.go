package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/sink/snapshot"
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

// youngRows is the number of rows per feature below which a model is young: EM needs as many.
const youngRows = 20

// judge sets how good a model can be.
func (r *replayResult) judge(s *snapshot.Snapshot) {
	m := s.Model
	r.RowsPerFeature, r.Wanted, r.Constant = float64(r.Rows)/float64(max(1, m.Parzen()+m.Gaussian())), m.Info.Wanted, []string{}
	for _, k := range m.Info.Constant {
		r.Constant = append(r.Constant, s.Features[k])
	}
}

// young says that there were few rows.
func (r *replayResult) young() string {
	switch {
	case r.Wanted > 0:
		return fmt.Sprintf("young model: %d rows, %.3g for each feature that varies; a stream's first model takes %d. More rows make a better one\n", r.Rows, r.RowsPerFeature, r.Wanted)
	case r.RowsPerFeature > 0 && r.RowsPerFeature < youngRows:
		return fmt.Sprintf("young model: %d rows, %.3g for each feature that varies; from %d on a model knows more than their covariance\n", r.Rows, r.RowsPerFeature, youngRows)
	}
	return ""
}

// notes are the lines that a result has only if there is something to know, each with its newline.
func (r replayResult) notes() string {
	var b strings.Builder
	b.WriteString(r.young())
	if len(r.Constant) > 0 {
		fmt.Fprintf(&b, "constant: %s; a row in which one of them moves is an anomaly\n", someNames(r.Constant))
	}
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

// someNames lists names, and how many more there are than a line takes.
func someNames(names []string) string {
	const most = 10
	text := strings.Join(terminal.Names(names[:min(most, len(names))]), ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
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
