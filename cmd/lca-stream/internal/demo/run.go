package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/demo/toy"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/internal/clustering"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

const (
	demoMessageRows = 100
	judgeRows       = 1000
	demoAhead       = 50_000           // most rows that are sent and not yet learnt and read back, so that the broker needs little memory
	demoPatience    = 10 * time.Minute // far beyond any machine: a demo that hangs must end
)

// demoRun streams, waits, and judges.
type demoRun struct {
	system *system.Process
	stream *toy.Stream
	flags  demoFlags
	screen *screen
	failed <-chan error

	labels   map[int][]int // by message: the true labels of the rows to judge, which never enter Kafka; nil for others
	known    *labelBook    // for the page
	sent     int           // messages sent; the number of each is its key
	producer *sink.Kafka
	schema   *arrow.Schema
}

func newDemoRun(ctx context.Context, s *system.Process, stream *toy.Stream, f demoFlags, show *screen, failed <-chan error) (*demoRun, error) {
	producer, err := s.OpenSink(ctx, "demo-producer")
	if err != nil {
		return nil, err
	}
	d := &demoRun{system: s, stream: stream, flags: f, screen: show, failed: failed, producer: producer, known: newLabelBook(stream.Dim)}
	known := system.Labels(d.known.label)
	s.Labels.Store(&known)
	d.schema = d.makeSchema()
	return d, nil
}

func (d *demoRun) close() { _ = d.producer.Close() }

// run streams the rows and waits for them, then streams those that are judged. It returns what it found, and what is judged.
func (d *demoRun) run(ctx context.Context) (*demoResult, *demoReader, error) {
	ctx, cancel := context.WithTimeout(ctx, d.flags.pace+demoPatience)
	defer cancel()
	rows := d.flags.rows - d.flags.rows%demoMessageRows
	start, used := time.Now(), processor()
	out, err := newDemoReader(d)
	if err != nil {
		return nil, nil, err
	}
	if err := d.paced(ctx, out, rows); err != nil {
		return nil, nil, d.why(err)
	}
	if err := d.settle(ctx, out, rows); err != nil {
		return nil, nil, d.why(err)
	}
	seconds, took := time.Since(start).Seconds(), processor()-used
	out.keep, d.labels = true, map[int][]int{}
	if err := d.produce(ctx, judgeRows); err != nil {
		return nil, nil, d.why(err)
	}
	if err := d.settle(ctx, out, rows+judgeRows); err != nil {
		return nil, nil, d.why(err)
	}
	d.screen.end()
	d.labels = nil
	found := d.found(out, rows, seconds)
	found.Processor, found.Paced = took.Seconds(), d.flags.pace > 0
	return found, out, nil
}

// paced streams rows evenly over the time of --pace, whole messages at a time.
func (d *demoRun) paced(ctx context.Context, out *demoReader, rows int) error {
	start := time.Now()
	for sent := 0; ; {
		due := rows
		if past := time.Since(start); past < d.flags.pace {
			due = int(float64(rows)*past.Seconds()/d.flags.pace.Seconds()) / demoMessageRows * demoMessageRows
		}
		done := min(out.rows, int(d.system.Stats.LearntRows.Load()))
		due = max(sent, min(due, (done+demoAhead)/demoMessageRows*demoMessageRows))
		if err := d.produce(ctx, due-sent); err != nil {
			return err
		}
		if sent = due; sent == rows {
			return nil
		}
		if err := d.look(ctx, out); err != nil {
			return err
		}
	}
}

// goOn streams until ctx ends, as fast as before, or a minute's pace if that was as fast as possible.
func (d *demoRun) goOn(ctx context.Context) error {
	pace := d.flags.pace
	if pace == 0 {
		pace = demoPace
	}
	tick := time.NewTicker(max(time.Millisecond, pace*demoMessageRows/time.Duration(d.flags.rows)))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		stats := d.system.Stats
		if d.sent*demoMessageRows > int(min(stats.LearntRows.Load(), stats.TransformRows.Load()))+demoAhead {
			continue
		}
		if err := d.produce(ctx, demoMessageRows); err != nil && ctx.Err() == nil {
			return d.why(err)
		}
	}
}

// why returns the fault that stopped the pipeline rather than the wait that ended because of it.
func (d *demoRun) why(err error) error {
	select {
	case cause := <-d.failed:
		if cause != nil {
			return cause
		}
	default:
	}
	return err
}

// produce streams rows as Arrow messages of 100 rows, round robin over the partitions.
func (d *demoRun) produce(ctx context.Context, rows int) error {
	for rows > 0 {
		var msgs []sink.Message
		for len(msgs) < 20 && rows > 0 {
			n := min(rows, demoMessageRows)
			x, labels := make([]float64, n*d.stream.Dim), make([]int, n)
			d.stream.Next(x, labels)
			value, err := d.encode(x, n)
			if err != nil {
				return err
			}
			p := d.sent % demoPartitions
			if d.labels != nil {
				d.labels[d.sent] = labels
			}
			d.known.add(x, labels)
			msgs = append(msgs, sink.Message{Topic: d.system.Config.Source.Topic, Partition: int32(p), Key: strconv.AppendInt(nil, int64(d.sent), 10), Value: value})
			d.sent++
			rows -= n
		}
		if err := d.producer.Put(ctx, msgs, source.Claim{}); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	return nil
}

// makeSchema returns one list column for images, and named columns for the toys.
func (d *demoRun) makeSchema() *arrow.Schema {
	if d.flags.data == "digits" {
		t := arrow.FixedSizeListOf(int32(d.stream.Dim), arrow.PrimitiveTypes.Float32)
		return arrow.NewSchema([]arrow.Field{{Name: "x", Type: t}}, nil)
	}
	fields := make([]arrow.Field, d.stream.Dim)
	for i := range fields {
		fields[i] = arrow.Field{Name: fmt.Sprintf("sensor_%02d", i), Type: arrow.PrimitiveTypes.Float32}
	}
	return arrow.NewSchema(fields, nil)
}

func (d *demoRun) encode(x []float64, n int) ([]byte, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, d.schema)
	defer b.Release()
	for i := range n {
		row := x[i*d.stream.Dim : (i+1)*d.stream.Dim]
		if list, ok := b.Field(0).(*array.FixedSizeListBuilder); ok {
			list.Append(true)
			for _, v := range row {
				list.ValueBuilder().(*array.Float32Builder).Append(float32(v))
			}
			continue
		}
		for j, v := range row {
			b.Field(j).(*array.Float32Builder).Append(float32(v))
		}
	}
	rec := b.NewRecord()
	defer rec.Release()
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(d.schema))
	if err := errors.Join(w.Write(rec), w.Close()); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// settle waits until all rows have come back whitened, and the learner has learnt them and its newest snapshot is in
// use.
func (d *demoRun) settle(ctx context.Context, out *demoReader, rows int) error {
	for {
		if err := d.look(ctx, out); err != nil {
			return err
		}
		learnt := d.system.Stats.LearntRows.Load()
		in := d.system.Stats.CurrentModel()
		pending := uint64(rows) % uint64(d.system.Config.Minibatch.Rows)
		if out.rows >= rows && learnt+pending >= uint64(rows) && in != nil && in.Version+pending+uint64(d.system.Config.Snapshot.EveryRows) >= uint64(rows) {
			return nil
		}
	}
}

// look reads what has come back, shows it, and waits for a moment.
func (d *demoRun) look(ctx context.Context, out *demoReader) error {
	if err := out.read(ctx); err != nil {
		return err
	}
	d.screen.progress(out.rows, d.flags.rows+judgeRows)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// found returns what is known before the judging.
func (d *demoRun) found(out *demoReader, rows int, seconds float64) *demoResult {
	in := d.system.Stats.CurrentModel()
	return &demoResult{
		Rows: rows, Seconds: seconds, RowsPerSecond: float64(rows) / seconds,
		Gaussian: in.Model.Gaussian(), Parzen: in.Model.Parzen(),
		Versions: out.versions(), ExactlyOnce: out.exactlyOnce(d.sent),
		NLL: demoNLL{Gaussian: in.Model.Info.GaussianNLL, LCA: in.Model.Info.NLL},
	}
}

// judge clusters the last records three ways and compares each with the truth. Meanwhile goOn may stream.
func (d *demoRun) judge(out *demoReader, r *demoResult) error {
	whitened, err := clustering.Whiten(out.raw, d.stream.Dim)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		x   []float64
		dim int
		ari *float64
	}{{out.raw, d.stream.Dim, &r.ARI.Raw}, {whitened, d.stream.Dim, &r.ARI.Whitened}, {out.y, len(out.y) / len(out.labels), &r.ARI.LCA}} {
		found := clustering.Spectral(c.x, c.dim, d.stream.Clusters, rand.New(rand.NewPCG(d.flags.seed, 2)))
		*c.ari = clustering.AdjustedRand(found, out.labels)
	}
	return nil
}

// demoReader reads the output topic back with read_committed, as a user's program would.
type demoReader struct {
	run      *demoRun
	fetchers [demoPartitions]*source.Fetcher
	seen     map[[2]int64]int // source partition and offset → times seen
	version  map[uint64]int
	rows     int
	keep     bool // keep what is read, for the judge
	raw, y   []float64
	labels   []int
	decoder  *format.Decoder
}

func newDemoReader(d *demoRun) (*demoReader, error) {
	decoder, err := format.NewDecoder(format.Config{})
	if err != nil {
		return nil, err
	}
	r := &demoReader{run: d, seen: map[[2]int64]int{}, version: map[uint64]int{}, decoder: decoder}
	for i := range r.fetchers {
		p := source.Partition{Topic: d.system.Config.Transform.Topic, ID: int32(i)}
		r.fetchers[i] = source.NewFetcher(source.FetcherConfig{Cluster: d.system.Cluster, Partition: p, MaxWait: 10 * time.Millisecond})
	}
	return r, nil
}

func (r *demoReader) read(ctx context.Context) error {
	for _, f := range r.fetchers {
		got, err := f.Fetch(ctx)
		if err != nil {
			return err
		}
		for _, rec := range got.Records {
			headers := map[string]string{}
			for _, h := range rec.Headers {
				headers[h.Key] = string(h.Value)
			}
			if err := r.take(ctx, string(rec.Key), rec.Value, headers); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *demoReader) take(ctx context.Context, key string, value []byte, headers map[string]string) error {
	partition, err1 := strconv.ParseInt(headers["lca-source-partition"], 10, 32)
	offset, err2 := strconv.ParseInt(headers["lca-source-offset"], 10, 64)
	version, err3 := strconv.ParseUint(headers["lca-model-version"], 10, 64)
	message, err4 := strconv.Atoi(key)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("output record without its key or headers: %w", err)
	}
	r.seen[[2]int64{partition, offset}]++
	r.version[version]++
	rec, err := r.decoder.Decode(ctx, value, headers["content-type"])
	if err != nil {
		return err
	}
	defer rec.Release()
	r.rows += int(rec.NumRows())
	if !r.keep {
		return nil
	}
	r.labels = append(r.labels, r.run.labels[message]...)
	for i := range int(rec.NumRows()) {
		for j := range rec.Schema().Fields() {
			switch name := rec.ColumnName(j); name {
			case "lca_score", "lca_p", "lca_recent_score", "lca_recent_p", "lca_episode":
			case "lca":
				r.y = appendFloats(r.y, rec.Column(j), i)
			default:
				r.raw = appendFloats(r.raw, rec.Column(j), i)
			}
		}
	}
	return nil
}

func appendFloats(dst []float64, a arrow.Array, i int) []float64 {
	switch a := a.(type) {
	case *array.Float32:
		return append(dst, float64(a.Value(i)))
	case *array.FixedSizeList:
		values, n := a.ListValues().(*array.Float32), int(a.DataType().(*arrow.FixedSizeListType).Len())
		for j := range n {
			dst = append(dst, float64(values.Value((a.Offset()+i)*n+j)))
		}
	}
	return dst
}

func (r *demoReader) versions() []uint64 {
	var v []uint64
	for n := range r.version {
		v = append(v, n)
	}
	slices.Sort(v)
	return v
}

// exactlyOnce reports whether every message that was sent came back once.
func (r *demoReader) exactlyOnce(sent int) bool {
	for _, times := range r.seen {
		if times != 1 {
			return false
		}
	}
	return len(r.seen) == sent
}
