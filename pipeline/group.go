package pipeline

import (
	"math"
	"slices"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/source"
)

// groupNumbers is how many numbers are whitened together: 256 KiB of float64, in the L2 cache.
const groupNumbers = 32 << 10

// group is neighbouring messages that are whitened together: a product costs less a row over many
// rows than over few, and a row's numbers do not depend on its company.
type group struct {
	inputs []*source.Message
	rows   []minibatch.Rows // one per message; X is its part of x
	x      []float64
	n      int            // rows in use
	used   int            // numbers of x in use
	slice  minibatch.Rows // of a large message

	messages int // of the batch

	numbers slab[float32] // y and −log p of the batch
	values  slab[byte]    // outputs that fit no template
	pieces  [][]byte      // the others, as a rule
}

// gather puts a good message into the group, flushing it first when it is full. bad says why a
// message is not good; it is then not in the group.
func (t *Transform) gather(work *Work, m *source.Message) (bad *source.RecordError, err error) {
	g := &t.group
	if bad := tooMuch(m, t.features.Dim()); bad != nil {
		return bad, nil
	}
	if int(m.Record.NumRows()) > sliceOf(t.features.Dim()) {
		return t.large(work, m)
	}
	need := int(m.Record.NumRows()) * t.features.Dim()
	if len(g.inputs) > 0 && g.used+need > cap(g.x) {
		if err := t.flush(work); err != nil {
			return nil, err
		}
	}
	if most := max(need, min(need*g.messages, groupNumbers)); len(g.inputs) == 0 && cap(g.x) < most {
		g.x = make([]float64, most) // no more than the batch may fill: there is a group for each partition
	}
	slot := len(g.inputs)
	if slot == len(g.rows) {
		g.rows = append(g.rows, minibatch.Rows{})
	}
	r := &g.rows[slot]
	r.X = g.x[g.used : g.used : g.used+need]
	if err := t.features.Gather(r, m.Record); err != nil {
		return refused(m, err), nil
	}
	if bad := t.invalid(m, r); bad != nil {
		return bad, nil
	}
	g.inputs = append(g.inputs, m)
	g.used += need
	g.n += r.N
	return nil, nil
}

// flush whitens the group and writes its messages.
func (t *Transform) flush(work *Work) error {
	g := &t.group
	if len(g.inputs) == 0 {
		return nil
	}
	k := t.model.Model.Dim
	y, score := g.numbers.take(g.n*k), []float32(nil)
	if t.Output.Score {
		score = g.numbers.take(g.n)
	}
	finite, err := inSlices(t, t.scorer.Score, y, score, g.x[:g.used], g.n)
	if err != nil {
		return err
	}
	if !finite {
		t.bound(y, k, score)
	}
	first := 0
	for i, m := range g.inputs {
		last := first + g.rows[i].N
		var part []float32
		if score != nil {
			part = score[first:last]
		}
		if err := t.write(work, m, y[first*k:last*k], k, part, g.rows[i].Invalid); err != nil {
			return err
		}
		first = last
	}
	g.reset()
	return nil
}

// bound keeps what is written finite: a row so far away that its coordinates are beyond float32 is
// null, like one with an Inf, and a score beyond it is the largest float32.
func (t *Transform) bound(y []float32, k int, score []float32) {
	boundScores(score)
	first := 0
	for i := range t.group.inputs {
		rows := &t.group.rows[i]
		t.boundRows(y[first*k:(first+rows.N)*k], k, rows.Invalid)
		first += rows.N
	}
}

func boundScores(score []float32) {
	for i, s := range score {
		if !minibatch.Finite(score[i : i+1]) {
			score[i] = float32(math.Copysign(math.MaxFloat32, float64(s)))
		}
	}
}

func (t *Transform) boundRows(y []float32, k int, invalid []minibatch.Reason) {
	for r := range invalid {
		if invalid[r] == minibatch.ReasonNone && !minibatch.Finite(y[r*k:(r+1)*k]) {
			invalid[r] = minibatch.ReasonInf
			t.counts.rejected(minibatch.ReasonInf.String(), 1)
		}
	}
}

func (g *group) begin(messages int) {
	g.reset()
	g.messages = messages
	g.numbers.begin(slabMost)
	g.values.begin(slabMost)
	g.pieces = slices.Grow(g.pieces[:0], leastPieces*messages)
}

// forget lets go of what the batch was made of, which may be large: it is put, or never will be.
func (g *group) forget() {
	clear(g.inputs[:cap(g.inputs)])
	clear(g.pieces)
	g.numbers.trim(slabMost)
	g.values.trim(slabMost)
}

func (g *group) reset() { g.inputs, g.n, g.used = g.inputs[:0], 0, 0 }

// write adds the output of a message with these rows.
func (t *Transform) write(work *Work, m *source.Message, y []float32, k int, score []float32, invalid []minibatch.Reason) error {
	value, rest, err := t.encode(m, y, k, score, invalid)
	var bad *source.RecordError
	if err != nil {
		bad = refused(m, err)
	}
	return t.finish(work, m, value, rest, bad)
}

// encode makes an output: as pieces of its input and of y, or else in the slab.
func (t *Transform) encode(m *source.Message, y []float32, k int, score []float32, invalid []minibatch.Reason) (value []byte, rest [][]byte, err error) {
	g := &t.group
	first := len(g.pieces)
	if all, ok := t.output.Pieces(g.pieces, m.Record, y, k, score, invalid); ok {
		g.pieces = all
		return all[first], all[first+1 : len(all) : len(all)], nil
	}
	value, rest, err = t.output.Encode(g.values.room(min(2*len(m.Value)+4*len(y), leastApart)+1024), m.Record, y, k, score, invalid)
	if err != nil {
		return nil, nil, err
	}
	return g.values.keep(value), rest, nil
}
