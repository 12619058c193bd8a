package transform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lca-stream/lca-stream/internal/enum"
	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/minibatch"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
)

// TransformConfig is what all partitions of one process share.
type TransformConfig struct {
	Group       string   // under which input offsets are committed: outputs say so, for two groups may write to one topic
	Topic       string   // output topic
	Columns     []string // source.features; decides only before there is a model, which names its own
	Output      encode.OutputConfig
	Components  lca.Components
	Coordinates lca.Coordinates // of the models, and of what is written; 0: aligned
	UntilModel  UntilModel
	OnInvalid   reject.OnInvalid
	DeadLetter  reject.DeadLetter
	Alarms      Alarms
	DeadLog     *reject.DeadLog // nil: not logged
	Follow      *models.Follow
	Registry    encode.Registry // of the schemas of outputs; nil: there is none
	Engines     *Engines        // nil: one engine of its own
	Stats       *stats.Stats
	Log         *slog.Logger
	Now         func() time.Time

	// Where Output.Recent is set:
	Series modelkey.By // the rows of one value are a series; of none: those of a partition. With a model for each value it is model.by
	States *StateTopic // nil: the states of series are kept in memory alone
	// Where Output.Episode is set:
	Budget episode.Budget // of false episodes, of the whole pipeline
	Shares int            // partitions of the source
}

// Transform is the stage that whitens one partition. What it does to a row depends on the row, the current model, and, for the score of the last rows alone, the
// state of the row's series.
type Transform struct {
	TransformConfig
	Committed func(context.Context) (source.Offsets, error) // offsets to go back to

	// Takes says at most how many bytes of text are worth making of one message for the output topic; 0: not known. again: there is a message
	// of more, and the topic may take more by now. Nil: it is not known.
	Takes func(ctx context.Context, again bool) int

	// Pace is at most how many bytes are put in one transaction on a slow link; 0: any number. Nil: the link is never slow.
	Pace func() int

	*engine         // while Do runs
	made      *made // while its Work is not put
	most      int   // bytes of text that are made of one message of the batch
	unordered bool  // messages are written in any order, see made.inOrder
	labels    labels
	counts    provisional
	rejects   reject.Rejects
	bounds    timeBounds
	series    heldSeriesSet
	rates     *episode.Rates              // of the partition, or of files; nil: episodes are not watched for
	timeless  bool                        // it was said that no time passes
	levels    levels                      // of the model that was last asked for
	from      source.Partition            // of the batch
	records   []episode.Record            // of it
	judged    func(Judged)                // called with rows by which episodes are told; nil: with none
	oneSeries bool                        // to the learner of a model all its rows are one series, whose identity is 0: there is a model for each value
	value     *string                     // whose model it is, where files are read; nil: the model is of all rows
	placeOf   func(row int) episode.Place // of a row of a message of a file; nil: it is in a topic
	unusual   map[string]uint64           // with model.by: rows of the batch with a lca_p below RareRow, by model
}

// Do whitens a batch with one model: the newest when the batch began. It ends with the context. Its Work lives until the next Do.
func (t *Transform) Do(ctx context.Context, b source.Batch) (pipeline.Work, error) {
	if len(b.Messages) == 0 { // the clock of a quiet partition, or a claim that moves on past records without rows
		return pipeline.Work{Commit: true}, nil
	}
	model, features := t.Follow.Current(), t.Columns
	if model != nil {
		features = model.Features
	}
	return t.do(ctx, &b, features, func(part []source.Message) error {
		return t.inTurn(ctx, model, func() error {
			for i := range part {
				if err := t.add(ctx, &part[i]); err != nil {
					return err
				}
			}
			return t.flush(ctx)
		})
	})
}

// do makes room for what whiten makes of the parts of a batch, whose rows have these features, and returns it.
func (t *Transform) do(ctx context.Context, b *source.Batch, features []string, whiten func(part []source.Message) error) (pipeline.Work, error) {
	start := time.Now()
	if err := b.Reserve(ctx, t.takes(ctx, b, features)); err != nil {
		return pipeline.Work{}, err
	}
	if t.Engines == nil {
		t.Engines = NewEngines(1, 2*slabMost)
	}
	if t.made == nil {
		t.made = t.Engines.made()
	}
	t.made.begin(len(b.Messages))
	t.from, t.records = b.Messages[0].Partition, t.records[:0]
	if t.series.identify == nil && !t.oneSeries {
		t.series.identify = func(value []byte) uint64 { return t.Series.Series(t.from.ID, value) }
	}
	if err := t.inParts(b.Messages, features, whiten); err != nil {
		return pipeline.Work{}, err
	}
	t.counts.read(b.Messages)
	t.Stats.Transform.Observe(time.Since(start))
	return pipeline.Work{Commit: true, Messages: t.made.messages, Inputs: t.made.inputs}, nil
}

// inTurn works with an engine, for a model if that is not nil. Nothing is waited for meanwhile.
func (t *Transform) inTurn(ctx context.Context, m *stats.PublishedModel, work func() error) error {
	one, err := t.Engines.Take(ctx)
	if err != nil {
		return err
	}
	t.engine = one
	defer func() { t.engine = nil; t.Engines.give(one) }()
	if err := t.adopt(&t.TransformConfig, m); err != nil {
		return err
	}
	return work()
}

// takes is at most how many bytes are made of a batch until it is put: our columns, the outputs that they are
// part of, and the request that these are sent with.
func (t *Transform) takes(ctx context.Context, b *source.Batch, features []string) int64 {
	numbers := b.Rows()*t.Output.Added(features) + t.stateBytes(b, features)
	outputs := numbers + b.Memory + t.texts(ctx, b, features)
	return numbers + 2*outputs
}

// Kept counts what was put; there is nothing else to keep.
func (t *Transform) Kept() {
	failpoint.Here("transform.kept")
	t.rejects.Keep()
	t.counts.keep(t.Stats, t.DeadLog, t.Now())
	if t.rates != nil && t.States != nil {
		t.Stats.Episodes.Say(t.from, t.records, len(t.series.open))
		t.trace()
	}
	t.forget()
}

// forget lets go of the batch, which is put or comes again: what it was decoded to may be large.
func (t *Transform) forget() {
	if t.made != nil {
		t.Engines.keep(t.made)
		t.made = nil
	}
}

// Rewind reads the committed offsets and the states of series again: that is all the state there is, except for the counts, which
// come again with their messages.
func (t *Transform) Rewind(ctx context.Context) (source.Offsets, error) {
	t.rejects.Rewind()
	t.counts.drop()
	t.forget()
	at, err := t.Committed(ctx)
	if err != nil || t.States == nil || !t.Output.Recent {
		return at, err
	}
	for of, next := range at { // there is one
		if t.Output.Episode {
			t.rates = &episode.Rates{Budget: t.Budget, Shares: t.Shares}
		}
		if err := t.series.load(ctx, t.States, t.Group, of, next, t.rates); err != nil {
			return nil, err
		}
		if t.rates != nil {
			t.Stats.Episodes.Own(of, t.openEpisodes(of))
		}
	}
	return at, nil
}

func (t *Transform) window() int { return t.DeadLetter.WindowLength() }

// UntilModel says what happens to records before there is a model.
type UntilModel uint8

// The policies of transform.until_model; the zero value is Hold.
const (
	Hold        UntilModel = iota // nothing is read, see Follow.Hold
	PassThrough                   // written with lca null and version 0
	Drop                          // consumed and not written, counted
	UntilAuto                     // Hold, or PassThrough where each value has a model of its own
)

var untilModels = enum.Names[UntilModel]{Hold: "hold", PassThrough: "pass_through", Drop: "drop", UntilAuto: "auto"}

// Resolve returns what UntilAuto stands for; keyed says that each value has a model of its own. One that has no model yet
// must not hold up the others.
func (u UntilModel) Resolve(keyed bool) UntilModel {
	switch {
	case u != UntilAuto:
		return u
	case keyed:
		return PassThrough
	}
	return Hold
}

// String returns the name that the configuration uses.
func (u UntilModel) String() string { return untilModels.Of(u) }

// UntilModels returns every UntilModel.
func UntilModels() []UntilModel { return untilModels.All() }

// checkChoices refuses what would otherwise be taken for another choice, batch by batch.
func (c *TransformConfig) checkChoices() error {
	return errors.Join(
		untilModels.Check(c.UntilModel, "pipeline: unknown transform.until_model"),
		c.OnInvalid.Check(),
		c.Output.Layout.Check(),
		c.Output.Format.Check(),
	)
}

// engine is what whitening needs besides the messages. A product costs less per row over many rows than over few, so
// neighbouring messages are whitened together; a row's numbers do not depend on its company.
type engine struct {
	model    *stats.PublishedModel // the model that scorer and features were made for; nil: none yet
	of       string                // fingerprint of the features, see featuresOf
	scorer   *lca.Scorer
	slice    int // rows that are whitened between two checks of the context
	Features minibatch.Features
	output   *encode.Output
	json     *encode.JSONOutput
	named    *encode.RegisteredOutput
	queue    queue
	recent   lastRows

	workspace lca.Workspace // of the scorers of KeyedTransform
}

// adopt prepares for a model that has come since the last batch; nil: there is none yet, though the engine may have worked with that of another.
func (e *engine) adopt(c *TransformConfig, m *stats.PublishedModel) error {
	if e.output == nil {
		if err := c.checkChoices(); err != nil {
			return &reject.Stop{Err: err}
		}
		e.output, e.json = encode.NewOutput(c.Output), encode.NewJSONOutput(c.Output)
		e.named = encode.NewRegisteredOutput(&c.Output, c.Registry, c.Topic, &c.Engines.registered)
	}
	if m == nil {
		e.model = nil
	}
	if m == e.model {
		return nil
	}
	view, err := m.Model.View(cmp.Or(c.Coordinates, lca.CoordinatesAligned), c.Components)
	if err != nil {
		return &reject.Stop{Err: fmt.Errorf("snapshot %d: %w", m.Version, err)}
	}
	e.model, e.scorer = m, view.NewScorer()
	e.slice = reject.SliceRows(m.Model.Dim, len(m.Model.Neighbours))
	e.expects(m.Features)
	return nil
}

// expects notes the features that rows are read for.
func (e *engine) expects(features []string) {
	e.Features, e.of = minibatch.Features{Names: features}, fingerprint(features)
}

// forget lets go of the messages, which may be large.
func (e *engine) forget() {
	e.queue.forget()
	if e.output != nil {
		e.output.Forget()
	}
}

// queue is neighbouring messages whose rows are whitened together: either all of them lie where they are, or all
// are gathered.
type queue struct {
	pending []pending
	rows    int                // number of rows of all messages
	invalid []minibatch.Reason // for each row, why it cannot be whitened, if so
	missing []int16            // for each row, how many features are to be filled; empty unless OnInvalid is ImputeRow

	zeroCopy []float32       // the rows, if they were not gathered
	gathered []float64       // the rows, if they were gathered
	sliced   *source.Message // the only one with rows, which are gathered slice by slice when they are whitened

	near []float32 // memory for the rows of small messages, which zeroCopy then is
	wide []float64 // memory for a slice of zeroCopy as float64

	rare   []rare         // rows that may be among the strangest, in order
	gains  []lca.Gain     // why they have their scores
	picked []float64      // memory for them
	read   minibatch.Rows // the rows of the message that is being gathered

	// Of rows of a message that have one value of model.by, and are whitened apart from others: of which series they are, and which rows.
	series    *heldSeries // nil: they are those of pending
	ofRows    []int
	ofFirst   int // number of the first row of ofRows[…] = 0
	ofMessage *source.Message
}

// pending is a message that waits for its output.
type pending struct {
	message     *source.Message
	first, last int                 // its rows are rows first … last−1 of the queue; equal where there is nothing to whiten
	bad         *source.RecordError // why the message is set aside; nil: it is not
	null        bool                // its rows are null, whatever transform.until_model says
}

// add puts a message at the end of the queue. The messages before it go first where its rows cannot join theirs.
func (t *Transform) add(ctx context.Context, m *source.Message) error {
	bad := m.Err
	if bad == nil && t.model != nil && m.Record != nil && m.Record.NumRows() > 0 {
		if bad = t.tooMuch(m, t.Features.Names); bad == nil {
			if x := t.Features.Float32(m.Record); x != nil {
				return t.addZeroCopy(ctx, m, x)
			}
			return t.addGathered(ctx, m)
		}
	}
	t.queue.append(m).bad = bad
	return nil
}

// append adds a message that has no rows yet.
func (q *queue) append(m *source.Message) *pending {
	q.pending = append(q.pending, pending{message: m})
	return &q.pending[len(q.pending)-1]
}

// joined says that the next rows of the queue are those of p.
func (q *queue) joined(p *pending, rows int) {
	p.first = q.rows
	q.rows += rows
	p.last = q.rows
}

// flush whitens the queue and writes its outputs.
func (t *Transform) flush(ctx context.Context) error {
	q := &t.queue
	w, err := t.whiten(ctx)
	if err != nil {
		return err
	}
	for i := range q.pending {
		if err := t.write(ctx, &q.pending[i], &w); err != nil {
			return err
		}
	}
	q.reset()
	return nil
}

func (q *queue) reset() {
	q.pending = q.pending[:0]
	q.empty()
}

// empty drops the rows, but keeps the messages.
func (q *queue) empty() {
	q.rows, q.invalid, q.missing = 0, q.invalid[:0], q.missing[:0]
	q.zeroCopy, q.gathered, q.sliced = nil, q.gathered[:0], nil
	q.rare = q.rare[:0]
}

// forget lets go of messages, which are put or come again, and of memory that few batches need.
func (q *queue) forget() {
	q.reset()
	clear(q.pending[:cap(q.pending)])
	if cap(q.invalid) > reject.SliceNumbers {
		q.invalid, q.missing = nil, nil
	}
}

// Engines is what the transforms of a process whiten with, however many partitions they have: as many engines as can
// work at a time, and memory for what is on its way to the sink. A transform has an engine for the time of one Do, in
// which it waits for nothing, and the memory until its batch is put.
type Engines struct {
	free chan *engine // nil: not made yet
	most int          // bytes of spare memory

	mu    sync.Mutex
	spare []*made
	bytes int // of spare

	registered encode.Registrations // of all outputs
}

// NewEngines returns Engines with at most n engines at a time, which keep at most spareBytes of memory for later batches.
func NewEngines(n, spareBytes int) *Engines {
	e := &Engines{free: make(chan *engine, n), most: spareBytes}
	for range n {
		e.free <- nil
	}
	return e
}

// Take waits until an engine is free.
func (e *Engines) Take(ctx context.Context) (*engine, error) {
	select {
	case one := <-e.free:
		if one == nil {
			one = &engine{}
		}
		return one, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *Engines) give(one *engine) {
	one.forget()
	e.free <- one
}

// made returns memory for a batch, which another one may have used.
func (e *Engines) made() *made {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.spare)
	if n == 0 {
		return &made{}
	}
	d := e.spare[n-1]
	e.spare[n-1], e.spare = nil, e.spare[:n-1]
	e.bytes -= d.bytes()
	return d
}

// keep takes the memory of a batch that is put, or never will be.
func (e *Engines) keep(d *made) {
	d.forget()
	size := d.bytes()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.bytes+size <= e.most {
		e.spare = append(e.spare, d)
		e.bytes += size
	}
}

// provisional holds what a batch has counted so far. It becomes final when the batch is kept; a batch that is rewound
// is counted when it comes again.
type provisional struct {
	rows    uint64 // whitened
	imputed uint64 // those of them that lacked features
	p       stats.ScoreCounts
	strange stats.StrangeRows
	moved   []reject.Counted
	without reject.RecordPlace // the first record that passed without a model
	rejects []reject.Unusable
	deads   []reject.SetAside
	stamps  []stamp
}

// stamp is the time of n messages in a row.
type stamp struct {
	at time.Time
	n  uint64
}

// read notes the times of messages, of which many come in the same millisecond. A time before 1970 means that the
// producer gave none.
func (p *provisional) read(messages []source.Message) {
	for i := range messages {
		at := messages[i].Time
		if at.Unix() < 0 {
			continue
		}
		if last := len(p.stamps) - 1; last >= 0 && p.stamps[last].at.Equal(at) {
			p.stamps[last].n++
		} else {
			p.stamps = append(p.stamps, stamp{at, 1})
		}
	}
}

// looked is how many rows of a batch are looked at for the features that are to blame, for each reason.
const looked = 32

// rejected counts rows, and returns the entry for this reason, for the caller to say where the first of them is and why.
func (p *provisional) rejected(reason string, n uint64) *reject.Unusable {
	for i := range p.rejects {
		if p.rejects[i].Reason == reason {
			p.rejects[i].N += n
			return &p.rejects[i]
		}
	}
	p.rejects = append(p.rejects, reject.Unusable{Counted: reject.Counted{Reason: reason, N: n}, Row: -1})
	return &p.rejects[len(p.rejects)-1]
}

func (p *provisional) passed(reason string, n uint64) { p.moved = count(p.moved, reason, n) }

// passedWithoutModel counts a record whose rows have null results because there is no model yet.
func (p *provisional) passedWithoutModel(m *source.Message) {
	if !slices.ContainsFunc(p.moved, func(c reject.Counted) bool { return c.Reason == reject.ReasonNoModel }) {
		p.without = reject.RecordPlace{Partition: m.Partition, Offset: m.Offset}
	}
	p.passed(reject.ReasonNoModel, 1)
}

func count(all []reject.Counted, reason string, n uint64) []reject.Counted {
	for i := range all {
		if all[i].Reason == reason {
			all[i].N += n
			return all
		}
	}
	return append(all, reject.Counted{Reason: reason, N: n})
}

// keep makes the counts final, and logs what was set aside or not whitened.
func (p *provisional) keep(s *stats.Stats, l *reject.DeadLog, now time.Time) {
	s.TransformRows.Add(p.rows)
	s.ImputedRows.Add(p.imputed)
	s.AddScores(&p.p)
	s.AddStrange(now, p.strange)
	for _, c := range p.rejects {
		s.Reject(c.Reason, c.N)
		l.Rows(&c)
	}
	for _, c := range p.deads {
		s.SetAside(c.Reason, c.N)
		l.Say(c)
	}
	for _, c := range p.moved {
		s.Pass(c.Reason, c.N)
		if c.Reason == reject.ReasonNoModel {
			l.WithoutModel(c.N, p.without)
		}
	}
	for _, st := range p.stamps {
		s.EndToEnd.ObserveAll(now.Sub(st.at), st.n)
	}
	p.drop()
}

func (p *provisional) drop() {
	clear(p.deads) // releases their errors
	clear(p.rejects)
	p.rows, p.imputed, p.rejects, p.deads, p.moved, p.stamps = 0, 0, p.rejects[:0], p.deads[:0], p.moved[:0], p.stamps[:0]
	p.p, p.strange = stats.ScoreCounts{}, nil
}

// dead counts one more dead letter.
func (p *provisional) dead(bad *source.RecordError) {
	now := reject.SetAside{Reason: bad.Code, N: 1, Partition: bad.Partition, Offset: bad.Offset, Err: bad.Err}
	for i := range p.deads {
		if p.deads[i].Reason == bad.Code {
			now.N += p.deads[i].N
			p.deads[i] = now
			return
		}
	}
	p.deads = append(p.deads, now)
}

// labels are the headers of outputs that a partition and a model decide. They are made once.
type labels struct {
	model     *stats.PublishedModel
	partition source.Partition
	fixed     []source.Header
}

// ofSource is where the headers of a group and its partition begin in fixed.
const ofSource = 2

func (l *labels) of(id, group string, model *stats.PublishedModel, p source.Partition) []source.Header {
	if l.fixed != nil && l.model == model && l.partition == p {
		return l.fixed
	}
	version := uint64(0)
	if model != nil {
		version = model.Version
	}
	l.model, l.partition = model, p
	l.fixed = []source.Header{
		reject.Text("lca-model-id", id),
		reject.Text(reject.HeaderVersion, strconv.FormatUint(version, 10)),
		reject.Text(reject.HeaderGroup, group),
		reject.Text(reject.HeaderSourceTopic, p.Topic),
		reject.Text(reject.HeaderSourcePartition, strconv.Itoa(int(p.ID))),
	}
	return l.fixed
}

// wrap keeps key, timestamp and the input's own headers, and says what whitened the record.
func (t *Transform) wrap(m *source.Message, value []byte, rest [][]byte) sink.Message {
	d := t.made
	first := len(d.headers)
	keeps := t.Output.Format.KeepsType(m)
	d.headers = reject.Carry(d.headers, m.Headers, keeps)
	if !keeps {
		d.headers = append(d.headers, encode.MediaTypes[t.Output.Format.Of(m)])
	}
	d.headers = append(d.headers, t.labels.of(t.Follow.ModelID, t.Group, t.model, m.Partition)...)
	return t.sealed(m, value, rest, first)
}

// pass makes the output of a message that nothing was done to: no model, and no value.
func (t *Transform) pass(m *source.Message) sink.Message {
	d := t.made
	first := len(d.headers)
	d.headers = reject.Carry(d.headers, m.Headers, true)
	d.headers = append(d.headers, t.labels.of(t.Follow.ModelID, t.Group, t.model, m.Partition)[ofSource:]...)
	return t.sealed(m, nil, nil, first)
}

// sealed is an output whose headers begin at first; the offset, and the time if it was changed, end them.
func (t *Transform) sealed(m *source.Message, value []byte, rest [][]byte, first int) sink.Message {
	d := t.made
	d.headers = append(d.headers, source.Header{Key: reject.HeaderSourceOffset, Value: d.number(m.Offset)})
	at := m.Time
	if !t.bounds.permit(t.Topic, at, t.Now) {
		d.headers = append(d.headers, source.Header{Key: reject.SourceTimestamp, Value: d.number(at.UnixMilli())})
		at = t.Now()
	}
	headers := d.headers[first:len(d.headers):len(d.headers)]
	return sink.Message{Topic: t.Topic, Partition: m.Partition.ID, Key: m.Key, Value: value, Rest: rest, Headers: headers, Time: at}
}

// HoldSource returns a source for transform.until_model: hold. It reads nothing before the first model, but its position is
// fixed at once: a group that begins at the latest record begins where the topic ended at its first start, however
// long the learner needs. Until there is a model, Read returns an empty batch every idle with the claim, so that
// committed offsets are renewed; idle must be positive. claim.Next is where reading begins.
//
// The source is opened only with the model. An open source reads ahead, and would hold memory that all readers share:
// the learner, which the model depends on, would lack it.
func HoldSource(f *models.Follow, open func(context.Context, source.Offsets) (pipeline.Source, error), claim source.Claim, idle time.Duration) pipeline.Source {
	return &held{open: open, follow: f, claim: claim, idle: idle}
}

type held struct {
	open   func(context.Context, source.Offsets) (pipeline.Source, error)
	source pipeline.Source // nil before the first model
	follow *models.Follow
	claim  source.Claim
	idle   time.Duration
}

func (h *held) Read(ctx context.Context) (source.Batch, error) {
	if h.source == nil {
		waiting, stop := context.WithTimeout(ctx, h.idle)
		defer stop()
		if err := h.follow.AwaitModel(waiting); err != nil {
			return source.Batch{Claim: h.claim}, ctx.Err()
		}
		var err error
		if h.source, err = h.open(ctx, h.claim.Next); err != nil {
			return source.Batch{}, err
		}
	}
	return h.source.Read(ctx)
}

func (h *held) Seek(ctx context.Context, next source.Offsets) error {
	if h.source != nil {
		return h.source.Seek(ctx, next)
	}
	h.claim.Next, h.claim.Epochs = next.Clone(), nil
	return nil
}

func (h *held) Close() error {
	if h.source == nil {
		return nil
	}
	return h.source.Close()
}

// Split cuts between what was made of two inputs. Inputs without an output count with the one before them. Where there are states, it cuts between parts.
func (t *Transform) Split(work pipeline.Work, most int) (first, rest pipeline.Work, next source.Offsets) {
	size := 0
	for i := range work.Messages {
		size += work.Messages[i].Size()
		if size > most && i > 0 && work.Inputs[i] != work.Inputs[i-1] && t.made.cuts(work.Inputs[i-1].Offset, work.Inputs[i].Offset) {
			input := work.Inputs[i]
			first, rest = work, work
			first.Messages, rest.Messages = work.Messages[:i:i], work.Messages[i:]
			first.Inputs, rest.Inputs = work.Inputs[:i:i], work.Inputs[i:]
			return first, rest, source.Offsets{input.Partition: input.Offset}
		}
	}
	return work, pipeline.Work{}, nil
}
