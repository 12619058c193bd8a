package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lca-stream/lca-stream/internal/logs"
	"github.com/lca-stream/lca-stream/source"
)

// Watch checks the topic until ctx ends, and then returns nil. It returns an error if the name belongs to another
// topic by now. A reader may not notice that, because the offset that it requests may exist there too.
func (p *Positions) Watch(ctx context.Context, every time.Duration) error {
	for sleep(ctx, every) {
		if err := p.Check(ctx); final(err) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// Check is one check of Watch.
func (p *Positions) Check(ctx context.Context) error {
	topic, err := p.Places.Topic(ctx, p.Topic)
	if err != nil {
		return err
	}
	return p.same(topic.ID)
}

// same stores the id that the topic had first, and refuses another one.
func (p *Positions) same(id string) error {
	if p.id.CompareAndSwap(nil, &id) {
		return nil
	}
	if before := *p.id.Load(); differ(before, id) {
		return p.recreated(before, id, "its position")
	}
	return nil
}

// differ reports whether two ids are known and different.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

func (p *Positions) recreated(was, is, what string) error {
	return &Stop{
		Err: fmt.Errorf("source topic %s was deleted and created again: group %q has %s in the topic with id %s, and the id is now %s", p.Topic, p.Group, what, was, is),
		Remedy: "nothing of the new topic was read: `lca-stream offsets show` says what is known of the old one, " +
			"`lca-stream offsets reset --to earliest` begins with the new one, and snapshot.model_id may name a new model",
	}
}

// errMoved says that another process has committed since the offsets were read.
var errMoved = errors.New("the committed offsets have moved")

// gone decides about a marker without an offset. The offsets were read before the markers, so a process that has
// fenced us may have written both in between. A visible marker has its offset in the same transaction. So if there
// still is no offset, it is lost. If nothing was written of the partition since the marker, that does no harm, and the
// partition goes on at the marker: brokers before Kafka 4.0 may forget the first offset of a group (see Written). If another process
// has taken the partition over since, what is committed next is refused.
func (p *Positions) gone(ctx context.Context, part source.Partition, m Start, id string) (int64, error) {
	now, err := p.Places.Committed(ctx, p.Group, []source.Partition{part})
	switch {
	case err != nil:
		return 0, err
	case now[part].Next >= 0:
		return 0, errMoved
	case p.Models != "":
		return p.returns(part, m, known{topic: source.Topic{ID: id}, committed: now})
	}
	if p.Written == nil || m.Since == nil || differ(m.TopicID, id) {
		return 0, p.lost(part, m, id)
	}
	switch none, err := p.Written.nothing(ctx, part, m.Since); {
	case err != nil:
		return 0, err
	case !none:
		return 0, p.lost(part, m, id)
	}
	p.Log.WarnContext(logs.Unlimited(ctx), "the group has no committed offset where a start marker says that it has begun, and nothing was written since: going on at the marker",
		"group", p.Group, "partition", part.String(), "offset", m.Offset)
	p.since.Store(part, m.Since)
	return m.Offset, nil
}

// Unwritten refuses to begin where the group has written already. Neither an offset nor a marker is left of it: the checkpoint topic is a new one, or has
// lost its records.
func (p *Positions) Unwritten(ctx context.Context, part source.Partition) error {
	if p.Written == nil {
		return nil
	}
	next, err := p.Written.next(ctx, part, nil)
	if err != nil || next == 0 {
		return err
	}
	switch now, err := p.Places.Committed(ctx, p.Group, []source.Partition{part}); {
	case err != nil:
		return err
	case now[part].Next >= 0: // another process has begun meanwhile
		return errMoved
	}
	return &Stop{
		Err:    fmt.Errorf("group %q has neither a committed offset nor a start marker in %s, and yet it has begun there: something was written of offset %d", p.Group, part, next-1),
		Remedy: fmt.Sprintf("`lca-stream offsets reset --stage transform --to %d=%d` goes on after that, `--to earliest` begins again: what was written before stays and comes a second time", part.ID, next),
	}
}

func (p *Positions) lost(part source.Partition, m Start, id string) error {
	if differ(m.TopicID, id) {
		return p.recreated(m.TopicID, id, fmt.Sprintf("a start marker of partition %d", part.ID))
	}
	return &Stop{
		Err: fmt.Errorf("group %q has no committed offset in %s, and yet it has begun there: a start marker says offset %d. Offsets expire when nothing is committed for the brokers' offsets.retention.minutes, "+
			"as while the program is down, or were deleted", p.Group, part, m.Offset),
		Remedy: "`lca-stream offsets show` shows what is known, and `lca-stream offsets reset --stage transform --to PARTITION=OFFSET` says where to go on: header lca-source-offset of the last output of the partition, plus one",
	}
}
