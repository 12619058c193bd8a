package pipeline

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// Unusable counts what a replay read but could not learn from.
type Unusable struct {
	Records uint64              // messages that could not be decoded, or lack a feature
	Rows    uint64              // rows with a feature that is no finite number
	First   *source.RecordError // the first of the records

	messages int              // that could be read
	since    string           // where the first of these is
	lacks    map[string]error // features of which none of these has a number, and what to say of each
}

// neverThere is how many messages may lack a feature, each of them, before it is taken for misspelt, or for no number.
const neverThere = 100

// read notes which features a message lacks, as JSON objects without the key do, or with text there.
func (p *Unusable) read(f *minibatch.Features, rec arrow.Record) {
	if p.messages++; p.messages > 1 && len(p.lacks) == 0 {
		return
	}
	lacks := f.Lacks(rec)
	if p.messages == 1 {
		p.lacks = lacks
	}
	maps.DeleteFunc(p.lacks, func(name string, _ error) bool { return lacks[name] == nil })
}

// never returns an error about the first feature of which no message had a number, nil if there is none.
func (p *Unusable) never() error {
	for _, name := range slices.Sorted(maps.Keys(p.lacks)) {
		return p.lacks[name]
	}
	return nil
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
	case p.never() != nil:
		return &Stop{Err: fmt.Errorf("no rows to learn from: %w", p.never())}
	case p.Rows > 0:
		return &Stop{Err: fmt.Errorf("no rows to learn from: each of the %d rows has a feature that is null, text, NaN or infinite", p.Rows), Remedy: "name the columns that have numbers in source.features"}
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
