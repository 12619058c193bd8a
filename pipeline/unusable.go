package pipeline

import (
	"fmt"
	"log/slog"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// Unusable counts what a replay read but could not learn from.
type Unusable struct {
	Records uint64              // messages that could not be decoded, or lack a feature
	Rows    uint64              // rows with a feature that is null, NaN or infinite
	First   *source.RecordError // the first of the records
}

func (p *Unusable) record(bad *source.RecordError) {
	if p.First == nil {
		p.First = bad
	}
	p.Records++
}

// rows counts the invalid rows of a message.
func (p *Unusable) rows(all, valid int) { p.Rows += uint64(all - valid) }

// nothing returns the error for a replay that found no row to learn from. It says what was found instead.
func (p *Unusable) nothing() *Stop {
	switch {
	case p.First != nil:
		return &Stop{Err: fmt.Errorf("no rows to learn from: %d messages are unusable, the first: %w", p.Records, p.First)}
	case p.Rows > 0:
		return &Stop{Err: fmt.Errorf("no rows to learn from: each of the %d rows has a feature that is null, NaN or infinite", p.Rows), Remedy: "name the columns that have numbers in source.features"}
	}
	return &Stop{Err: fmt.Errorf("no rows to learn from"), Remedy: "see what the range holds with --dry-run or inspect"}
}

// warnLeftOut warns if an empty source.features leaves out numbers of the first message. The choice stands from now on:
// checkpoint and snapshots carry the names.
func warnLeftOut(log *slog.Logger, f minibatch.Features, leftOut []minibatch.Judgement) {
	if len(leftOut) == 0 {
		return
	}
	reasons := make([]string, len(leftOut))
	for i, j := range leftOut {
		reasons[i] = j.Column.Name + ": " + j.Reason
	}
	log.Warn("source.features is empty, and not every column of numbers is learnt; name the columns to choose others", "learnt", f.Names, "left_out", reasons)
}
