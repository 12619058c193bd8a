package pipeline

import (
	"fmt"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// mostWhitened bounds the bytes of all that whitening adds to one message: coordinates and scores. It is more than
// what 64 MiB of float32 whiten to. Columns of narrower numbers, or of nothing but nulls, would come to gigabytes.
const mostWhitened = 128 << 20

// tooMuch refuses a message that whitens to more than that.
func tooMuch(m *source.Message, dim int) *source.RecordError {
	const float32Bytes = 4
	if size := float32Bytes * m.Record.NumRows() * int64(dim+1); size > mostWhitened {
		return bad(m, codeOutputTooLarge, fmt.Errorf("%d rows of %d features whiten to %d bytes, at most %d are written; send fewer rows per message", m.Record.NumRows(), dim, size, mostWhitened))
	}
	return nil
}

// large whitens a message of more than a slice, so that its rows are not all in memory as float64. They are
// gathered twice: what is bad about any of them is known before the first is whitened.
func (t *Transform) large(work *Work, m *source.Message) (bad *source.RecordError, err error) {
	if err := t.flush(work); err != nil {
		return nil, err
	}
	g, n, k := &t.group, int(m.Record.NumRows()), t.model.Model.Dim
	all := minibatch.Rows{N: n, Dim: k, Invalid: make([]minibatch.Reason, n)}
	err = gatherEach(&t.features, &g.slice, m.Record, func(first int) error {
		copy(all.Invalid[first:], g.slice.Invalid)
		return t.ctx.Err()
	})
	if t.ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return refused(m, err), nil
	}
	if bad := t.invalid(m, &all); bad != nil {
		return bad, nil
	}
	y, score := g.numbers.take(n*k), []float32(nil)
	if t.Output.Score {
		score = g.numbers.take(n)
	}
	finite := true
	err = gatherEach(&t.features, &g.slice, m.Record, func(first int) error {
		last := first + g.slice.N
		var part []float32
		if score != nil {
			part = score[first:last]
		}
		good, err := inSlices(t, t.scorer.Score, y[first*k:last*k], part, g.slice.X, g.slice.N)
		finite = finite && good
		return err
	})
	if err != nil {
		return nil, err
	}
	if !finite {
		boundScores(score)
		t.boundRows(y, k, all.Invalid)
	}
	return nil, t.write(work, m, y, k, score, all.Invalid)
}
