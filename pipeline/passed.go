package pipeline

import "github.com/lca-stream/lca-stream/source"

// Passed counts what a replay read and could not learn from.
type Passed struct {
	Records uint64              // messages that could not be decoded, or lack a feature
	Rows    uint64              // rows with a feature that is null, NaN or infinite
	First   *source.RecordError // the first of the records
}

func (p *Passed) record(bad *source.RecordError) {
	if p.First == nil {
		p.First = bad
	}
	p.Records++
}

// rows counts those of a message that are not valid.
func (p *Passed) rows(all, valid int) { p.Rows += uint64(all - valid) }
