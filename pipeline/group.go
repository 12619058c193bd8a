package pipeline

import (
	"math"
	"strconv"

	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

const (
	// groupNumbers is how many numbers are whitened together: 256 KiB of float64, in the L2 cache.
	groupNumbers = 32 << 10
	// slabBytes is what small outputs share, so that each is not an object of its own.
	slabBytes = 256 << 10
)

// group is neighbouring messages that are whitened together: a product costs less a row over many
// rows than over few, and a row's numbers do not depend on its company.
type group struct {
	inputs []*source.Message
	rows   []minibatch.Rows // one a message; X is its part of x
	x      []float64
	n      int // rows in use
	used   int // numbers of x in use

	y, score []float32
	slab     []byte
}

// gather puts a good message into the group, flushing it first when it is full. bad says why a
// message is not good; it is then not in the group.
func (t *Transform) gather(work *Work, m *source.Message) (bad *source.RecordError, err error) {
	g := &t.group
	need := int(m.Record.NumRows()) * t.features.Dim()
	if len(g.inputs) > 0 && g.used+need > cap(g.x) {
		if err := t.flush(work); err != nil {
			return nil, err
		}
	}
	if len(g.inputs) == 0 && cap(g.x) < need {
		g.x = make([]float64, max(need, groupNumbers))
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
	g.y, g.score = resize(g.y, g.n*k), resize(g.score, g.n)
	score := g.score
	if !t.Output.Score {
		score = nil
	}
	t.scorer.Score(g.y, score, g.x[:g.used], g.n)
	t.bound(g.y, k, score)
	first := 0
	for i, m := range g.inputs {
		last := first + g.rows[i].N
		var part []float32
		if score != nil {
			part = score[first:last]
		}
		value, err := t.encode(m, g.y[first*k:last*k], k, part, g.rows[i].Invalid)
		var bad *source.RecordError
		if err != nil {
			bad = refused(m, err)
		}
		if err := t.finish(work, m, value, bad); err != nil {
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
	if finite(y) && finite(score) {
		return
	}
	for i, s := range score {
		if !finite(score[i : i+1]) {
			score[i] = float32(math.Copysign(math.MaxFloat32, float64(s)))
		}
	}
	first := 0
	for i := range t.group.inputs {
		rows := &t.group.rows[i]
		for r := range rows.N {
			at := (first + r) * k
			if rows.Invalid[r] == minibatch.ReasonNone && !finite(y[at:at+k]) {
				rows.Invalid[r] = minibatch.ReasonInf
				t.Stats.reject.add(minibatch.ReasonInf.String(), 1)
			}
		}
		first += rows.N
	}
}

// finite reports whether no number is NaN or infinite: zero times such a one is NaN.
func finite(v []float32) bool {
	var a, b float32
	for len(v) >= 2 {
		a += 0 * v[0]
		b += 0 * v[1]
		v = v[2:]
	}
	for _, x := range v {
		a += 0 * x
	}
	return a+b == 0
}

func (g *group) reset() { g.inputs, g.n, g.used = g.inputs[:0], 0, 0 }

// encode writes an output, a small one into the slab.
func (t *Transform) encode(m *source.Message, y []float32, k int, score []float32, invalid []minibatch.Reason) ([]byte, error) {
	g := &t.group
	guess := 2*len(m.Value) + 4*len(y) + 1024
	switch free := cap(g.slab) - len(g.slab); {
	case guess > slabBytes/8:
		return t.output.Append(nil, m.Record, y, k, score, invalid)
	case free < guess:
		g.slab = make([]byte, 0, slabBytes)
	}
	rest := g.slab[len(g.slab):]
	value, err := t.output.Append(rest, m.Record, y, k, score, invalid)
	if err != nil || len(value) > cap(rest) { // it did not fit, and has moved
		return value, err
	}
	g.slab = g.slab[:len(g.slab)+len(value)]
	return value[:len(value):len(value)], nil
}

// labels makes the headers of outputs. What a partition and a model decide is made once.
type labels struct {
	model     *InForce
	partition source.Partition
	fixed     []source.Header

	headers []source.Header // of all messages of a batch
	digits  []byte          // their offsets
}

// ourHeaders is how many a message gains.
const ourHeaders = 6

// begin prepares for a batch; the headers of the one before may still be in use.
func (l *labels) begin(messages int) {
	l.headers = make([]source.Header, 0, ourHeaders*messages)
	l.digits = make([]byte, 0, 12*messages)
}

func (l *labels) of(id string, model *InForce, p source.Partition) []source.Header {
	if l.fixed != nil && l.model == model && l.partition == p {
		return l.fixed
	}
	version := uint64(0)
	if model != nil {
		version = model.Version
	}
	l.model, l.partition = model, p
	l.fixed = []source.Header{
		text("content-type", "application/vnd.apache.arrow.stream"),
		text("lca-model-id", id),
		text("lca-model-version", strconv.FormatUint(version, 10)),
		text("lca-source-topic", p.Topic),
		text("lca-source-partition", strconv.Itoa(int(p.ID))),
	}
	return l.fixed
}

// wrap keeps key, timestamp and the input's own headers, and says what whitened the record.
func (t *Transform) wrap(m *source.Message, value []byte) sink.Message {
	l := &t.labels
	first := len(l.headers)
	for _, h := range m.Headers {
		if h.Key != "content-type" {
			l.headers = append(l.headers, h)
		}
	}
	l.headers = append(l.headers, l.of(t.Follow.ModelID, t.model, m.Partition)...)
	at := len(l.digits)
	l.digits = strconv.AppendInt(l.digits, m.Offset, 10)
	l.headers = append(l.headers, source.Header{Key: "lca-source-offset", Value: l.digits[at:len(l.digits):len(l.digits)]})
	headers := l.headers[first:len(l.headers):len(l.headers)]
	return sink.Message{Topic: t.Topic, Partition: m.Partition.ID, Key: m.Key, Value: value, Headers: headers, Time: m.Time}
}
