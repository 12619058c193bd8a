package pipeline

import (
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// straight is neighbouring messages whose rows need no gathering: lists of float32 without a null. They
// are whitened from where they lie, a large message alone, small ones after they were copied together.
// Whether all is finite is asked of y, in which a feature that is not shows unless the model leaves it
// out. If the answer is no, they are gathered after all, which finds out which rows those are and why.
type straight struct {
	inputs []*source.Message
	x      []float32 // rows of all
	near   []float32 // memory for small ones
	fine   []minibatch.Reason
}

// straightNumbers is how many numbers of small messages are whitened together, 64 KiB of them, and a
// quarter of that makes a message large.
const straightNumbers = 16 << 10

// straighten takes a message with rows x, whitening those before it when it must.
func (t *Transform) straighten(work *Work, m *source.Message, x []float32) error {
	s := &t.straight
	if err := t.flush(work); err != nil {
		return err
	}
	if len(s.x)+len(x) > straightNumbers {
		if err := t.flushStraight(work); err != nil {
			return err
		}
	}
	if len(s.inputs) == 0 && len(x) >= straightNumbers/4 {
		s.inputs, s.x = append(s.inputs, m), x
		return t.flushStraight(work)
	}
	if len(s.inputs) == 0 {
		s.near = slices.Grow(s.near, straightNumbers)
		s.x = s.near[:0]
	}
	s.inputs, s.x = append(s.inputs, m), append(s.x, x...)
	return nil
}

// flushStraight whitens the messages and writes their outputs.
func (t *Transform) flushStraight(work *Work) error {
	s, g := &t.straight, &t.group
	if len(s.inputs) == 0 {
		return nil
	}
	k := t.model.Model.Dim
	n := len(s.x) / k
	y, score := g.numbers.take(n*k), []float32(nil)
	if t.Output.Score {
		score = g.numbers.take(n)
	}
	finite, err := inSlices(t, t.scorer.Score32, y, score, s.x, n)
	if err != nil {
		return err
	}
	inputs := s.inputs
	s.inputs = s.inputs[:0]
	if !finite || !t.scorer.PropagatesNonFinite() && !minibatch.Finite(s.x) {
		for _, m := range inputs {
			if err := t.roundabout(work, m); err != nil {
				return err
			}
		}
		return t.flush(work)
	}
	t.counts.rows += uint64(n)
	s.fine = resize(s.fine, max(n, cap(s.fine)))
	first := 0
	for _, m := range inputs {
		last := first + int(m.Record.NumRows())
		var part []float32
		if score != nil {
			part = score[first:last]
		}
		if err := t.write(work, m, y[first*k:last*k], k, part, s.fine[:last-first]); err != nil {
			return err
		}
		first = last
	}
	return nil
}

func (s *straight) reset() { s.inputs = s.inputs[:0] }

// forget lets go of messages that are put.
func (s *straight) forget() {
	clear(s.inputs[:cap(s.inputs)])
	s.x = nil
}
