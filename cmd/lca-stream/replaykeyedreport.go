package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/terminal"
	"github.com/lca-stream/lca-stream/sink/snapshot"
)

// keyedResult is what a replay made of one value's rows.
type keyedResult struct {
	ID    string `json:"id"`
	File  string `json:"file,omitempty"`  // with --output
	Fault string `json:"fault,omitempty"` // why there is no model
	replayResult
}

// of says what a snapshot is.
func (r *keyedResult) of(s *snapshot.Snapshot) (err error) {
	m := s.Model
	r.NLL, r.SingleNLL, r.Gaussian, r.Parzen = finite(m.Info.NLL), finite(m.Info.GaussianNLL), m.Gaussian(), m.Parzen()
	r.ModelVersion, r.Restarts = s.Version, m.Info.Alarms
	r.judge(s)
	if r.LearntRows == 0 {
		r.LearntRows = s.Version
	}
	r.Fingerprint, err = snapshot.Fingerprint(s)
	return err
}

// fail says why there is no model.
func (r *keyedResult) fail(err error) {
	r.Fault, r.Fingerprint, r.ModelVersion = strings.TrimPrefix(err.Error(), "pipeline: "), "", 0
}

// keyedSummary is the JSON object of --json with model.by.
type keyedSummary struct {
	Models   []keyedResult `json:"models"`
	Made     int           `json:"made"`
	Without  int           `json:"without_model"`    // values whose rows made none
	Rows     uint64        `json:"rows"`             // usable rows of all values
	NoKey    uint64        `json:"no_key_rows"`      // rows without a value
	Rejected uint64        `json:"rejected_records"` // messages that no model could learn from
	Invalid  uint64        `json:"invalid_rows"`
	Readings int           `json:"readings"` // how often the range was read, because of model.memory
	Seconds  float64       `json:"seconds"`
	Tuning   *tuning       `json:"tuning,omitempty"`
}

// reportKeyed prints what came of each value, sorted by id.
func (k *keyedReplay) reportKeyed(w io.Writer, took time.Duration) error {
	slices.SortFunc(k.results, func(a, b keyedResult) int { return strings.Compare(a.ID, b.ID) })
	all := keyedSummary{
		Models: k.results, NoKey: k.stage.NoKey, Rejected: k.stage.Unusable.Records, Readings: k.stage.Rounds(), Seconds: took.Seconds(), Tuning: k.tuning,
	}
	for _, r := range k.results {
		all.Rows += r.Rows
		all.Rejected += r.Rejected
		all.Invalid += r.Invalid
		if r.Fault != "" {
			all.Without++
		} else {
			all.Made++
		}
	}
	write := func() error { return all.write(w, k.target()) }
	if k.flags.json {
		write = func() error { return json.NewEncoder(w).Encode(all) }
	}
	if err := write(); err != nil || all.Made > 0 {
		return err
	}
	return fmt.Errorf("none of %s has a model", plural.Count(uint64(all.Without), "value"))
}

func (s *keyedSummary) write(w io.Writer, target string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tROWS\tNLL\tSINGLE GAUSSIAN\tPARZEN\tGAUSSIAN\tVERSION\tSTATE")
	for _, r := range s.Models {
		if r.Fault != "" {
			fmt.Fprintf(t, "%s\t%d\t–\t–\t–\t–\t–\tnone: %s\n", terminal.Name(r.ID), r.Rows, terminal.Line(r.Fault))
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%s\n", terminal.Name(r.ID), r.Rows, maybe(r.NLL), maybe(r.SingleNLL), r.Parzen, r.Gaussian, r.ModelVersion, r.state())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s of %d rows to %s in %.1f s, in %s of the range\n%s",
		plural.Count(uint64(s.Made), "model"), s.Rows, target, s.Seconds, plural.Count(uint64(s.Readings), "reading"), s.notes())
	return err
}

// state says what is to be known of a model.
func (r *keyedResult) state() string {
	if note := strings.TrimSpace(r.notes()); note != "" {
		return strings.ReplaceAll(note, "\n", "; ")
	}
	return "ok"
}

func (s *keyedSummary) notes() string {
	var b strings.Builder
	if s.Without > 0 {
		fmt.Fprintf(&b, "%s without a model\n", plural.Count(uint64(s.Without), "value"))
	}
	if s.NoKey > 0 {
		fmt.Fprintf(&b, "%s without a value of model.by\n", plural.Count(s.NoKey, "row"))
	}
	if s.Rejected+s.Invalid > 0 {
		fmt.Fprintf(&b, "passed over: %d records, and %d rows with a null, NaN or infinity\n", s.Rejected, s.Invalid)
	}
	return b.String()
}
