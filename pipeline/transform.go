package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lca-stream/lca-stream/internal/failpoint"
	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/source"
)

// TransformConfig is what all partitions of one process share.
type TransformConfig struct {
	Group       string   // under which input offsets are committed: outputs say so, for two groups may write to one topic
	Topic       string   // output topic
	Columns     []string // source.features; decides only before there is a model, which names its own
	Output      OutputConfig
	Coordinates lca.Coordinates
	Components  lca.Components
	UntilModel  UntilModel
	OnInvalid   OnInvalid
	MaxModelAge time.Duration // 0 = no limit
	StopOnStale bool
	DeadLetter  DeadLetter
	Alarms      Alarms
	DeadLog     *DeadLog // nil: not logged
	Follow      *Follow
	Registry    Registry // of the schemas of outputs; nil: there is none
	Engines     *Engines // nil: one engine of its own
	Stats       *Stats
	Log         *slog.Logger
	Now         func() time.Time
}

// Transform is the stage that whitens one partition. It is stateless: what it does to a record
// depends on the record and the current model alone.
type Transform struct {
	TransformConfig
	Committed func(context.Context) (source.Offsets, error) // offsets to go back to

	// Takes says at most how many bytes of text are worth making of one message for the output topic; 0: not known. again: there is a message
	// of more, and the topic may take more by now. Nil: it is not known.
	Takes func(ctx context.Context, again bool) int

	*engine         // while Do runs
	made      *made // while its Work is not put
	most      int   // bytes of text that are made of one message of the batch
	unordered bool  // messages are written in any order, see made.inOrder
	labels    labels
	counts    provisional
	rejects   rejects
	bounds    timeBounds
	stale     bool
	unusual   map[string]uint64 // with model.by and without alarms of rows: rows of the batch with a lca_p below RareRow, by model
}

// Do whitens a batch with one model: the newest when the batch began. It ends with the context. Its Work lives until the next Do.
func (t *Transform) Do(ctx context.Context, b source.Batch) (Work, error) {
	if len(b.Messages) == 0 { // the clock of a quiet partition, or a claim that moves on past records without rows
		return Work{Commit: true}, nil
	}
	start := time.Now()
	if err := b.Reserve(ctx, t.takes(ctx, &b)); err != nil {
		return Work{}, err
	}
	if t.Engines == nil {
		t.Engines = NewEngines(1, 2*slabMost)
	}
	one, err := t.Engines.take(ctx)
	if err != nil {
		return Work{}, err
	}
	t.engine = one
	defer func() { t.engine = nil; t.Engines.give(one) }()
	if err := t.adopt(&t.TransformConfig, t.Follow.Current()); err != nil {
		return Work{}, err
	}
	if err := t.checkAge(); err != nil {
		return Work{}, err
	}
	if t.made == nil {
		t.made = t.Engines.made()
	}
	t.made.begin(len(b.Messages))
	for i := range b.Messages {
		if err := t.add(ctx, &b.Messages[i]); err != nil {
			return Work{}, err
		}
	}
	if err := t.flush(ctx); err != nil {
		return Work{}, err
	}
	t.counts.read(b.Messages)
	t.Stats.Transform.observe(time.Since(start))
	return Work{Commit: true, Messages: t.made.messages, inputs: t.made.inputs}, nil
}

// takes is at most how many bytes are made of a batch until it is put: our columns, alarms, the outputs that they are
// part of, and the request that these are sent with.
func (t *Transform) takes(ctx context.Context, b *source.Batch) int64 {
	features := t.Columns
	if m := t.Follow.Current(); m != nil {
		features = m.Features
	}
	return t.takesOf(ctx, b, features)
}

// takesOf is takes for rows of these features.
func (t *Transform) takesOf(ctx context.Context, b *source.Batch, features []string) int64 {
	numbers := b.Rows() * (t.Output.added(features) + t.Alarms.bytes(features))
	outputs := numbers + b.Memory + t.texts(ctx, b, features)
	return numbers + 2*outputs
}

// Kept counts what was put; there is nothing else to keep.
func (t *Transform) Kept() {
	failpoint.Here("transform.kept")
	t.rejects.keep()
	t.counts.keep(t.Stats, t.DeadLog, t.Now())
	t.forget()
}

// forget lets go of the batch, which is put or comes again: what it was decoded to may be large.
func (t *Transform) forget() {
	if t.made != nil {
		t.Engines.keep(t.made)
		t.made = nil
	}
}

// Rewind reads the committed offsets again: that is all the state there is, except for the counts, which
// come again with their messages.
func (t *Transform) Rewind(ctx context.Context) (source.Offsets, error) {
	t.rejects.rewind()
	t.counts.drop()
	t.forget()
	return t.Committed(ctx)
}

func (t *Transform) window() int { return t.DeadLetter.window() }

// checkAge applies transform.max_model_age.
func (t *Transform) checkAge() error {
	if t.MaxModelAge == 0 || t.model == nil {
		return nil
	}
	age := t.model.Age(t.Now())
	old := age > t.MaxModelAge
	if old && t.StopOnStale {
		return &Stop{
			Err:    fmt.Errorf("snapshot %d is %v old, more than transform.max_model_age = %v", t.model.Version, age.Round(time.Second), t.MaxModelAge),
			Remedy: "see whether the learner runs, or set transform.on_stale to warn",
		}
	}
	if old && !t.stale {
		t.Log.Warn("the current model is older than transform.max_model_age", "version", t.model.Version, "age", age.Round(time.Second))
	}
	t.stale = old
	return nil
}
