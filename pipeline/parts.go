package pipeline

import (
	"context"
	"maps"

	"github.com/lca-stream/lca-stream/source"
)

// Pacer is a sink that knows how many bytes one put should hold at most on the current link; 0: unlimited.
type Pacer interface {
	Most() int
}

// Splitter is a stage whose work can be put in parts, one transaction each.
type Splitter interface {
	// Split cuts off a first part of at most most bytes, but of at least what was made of one input. next are the offsets of that
	// part; nil: there is nothing to cut.
	Split(work Work, most int) (first, rest Work, next source.Offsets)
}

// commit makes the work and its offsets visible: together, or on a slow link in parts, each with the offsets that it
// stands for. There, a transaction that is too large would always run out of time.
func (l *Loop) commit(ctx context.Context, done Work) error {
	pacer, paced := l.Sink.(Pacer)
	splitter, splits := l.Stage.(Splitter)
	for paced && splits {
		most := pacer.Most()
		if most == 0 {
			break
		}
		first, rest, next := splitter.Split(done, most)
		if next == nil {
			break
		}
		claim := l.claim
		claim.Next = maps.Clone(claim.Next)
		maps.Copy(claim.Next, next)
		if err := l.place(ctx, first, claim); err != nil {
			return err
		}
		done = rest
	}
	if err := l.place(ctx, done, l.claim); err != nil {
		return err
	}
	l.Stage.Kept()
	return nil
}

// place puts the work. If a topic will never take a message, it asks the stage for a replacement.
func (l *Loop) place(ctx context.Context, done Work, claim source.Claim) (err error) {
	for refused := true; refused; {
		err = l.put(ctx, done, claim)
		if done, refused, err = l.replace(done, err); err != nil {
			return err
		}
	}
	return nil
}

// Split cuts between what was made of two inputs. Inputs without an output count with the one before them.
func (t *Transform) Split(work Work, most int) (first, rest Work, next source.Offsets) {
	size := 0
	for i := range work.Messages {
		size += work.Messages[i].Size()
		if size > most && i > 0 && work.inputs[i] != work.inputs[i-1] {
			input := work.inputs[i]
			first, rest = work, work
			first.Messages, rest.Messages = work.Messages[:i:i], work.Messages[i:]
			first.inputs, rest.inputs = work.inputs[:i:i], work.inputs[i:]
			return first, rest, source.Offsets{input.Partition: input.Offset}
		}
	}
	return work, Work{}, nil
}
