package learn

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/checkpoint"
	"github.com/lca-stream/lca-stream/pipeline/episode"
	"github.com/lca-stream/lca-stream/source"
)

// Commands are what people say of episodes, on the topic of alarms: that what a series shows is normal. A learner looks for them between two batches. How far it
// has followed them is part of its checkpoint, so that after a crash none is lost, and none followed twice.
type Commands struct {
	Topic string
	Owner checkpoint.Owner                              // other pipelines may use the topic, too
	Ends  func(context.Context) (source.Offsets, error) // the last stable offset of each partition of the topic, perhaps of a moment ago
	Open  func(ctx context.Context, p source.Partition, from int64) (checkpoint.TopicReader, error)

	SourceEnds func(context.Context) (source.Offsets, error) // of the partitions that are learnt; nil: the learner is never behind
}

const (
	hearFor   = 10 * time.Second // at a time, before learning goes on
	hearAgain = 30 * time.Second // after an error
)

// hearing is the progress of a stage through its Commands.
type hearing struct {
	next  source.Offsets // commands before are followed
	new   bool           // no checkpoint says so
	fault time.Time      // when they could not be read
	waits map[source.Partition]waiting
}

// waiting is a command that is about rows which the learner has not read yet. What is behind it waits, too: how far commands were followed is one offset.
type waiting struct {
	at, until int64 // its offset on the topic, and that of the partition which it is about
	on        source.Partition
}

// begin has it begin at the end of the topic, where no checkpoint says how far commands were followed: a model without a checkpoint has no episodes.
func (h *hearing) begin(ctx context.Context, c *LearnConfig) error {
	if c.Commands == nil {
		return nil
	}
	for p := range h.next {
		if p.Topic == c.Commands.Topic {
			return nil
		}
	}
	ends, err := c.Commands.Ends(ctx)
	h.next, h.new = ends, err == nil
	return err
}

// hear returns the commands since it was called last that are about rows before offsets which the learner has read. What cannot be read now is read later, and the learner does not stop for that.
func (h *hearing) hear(ctx context.Context, c *LearnConfig, read source.Offsets) (all []*episode.Acceptance) {
	if c.Commands == nil || c.Now().Sub(h.fault) < hearAgain {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hearFor)
	defer cancel()
	ends, err := c.Commands.Ends(ctx)
	if err == nil {
		all, err = h.upTo(ctx, c, ends, read)
	}
	if err != nil {
		h.fault = c.Now()
		c.Log.Warn("what people accept cannot be read: it is followed as soon as it can be, and learning goes on", "topic", c.Commands.Topic, "error", err,
			"remedy", "give the learner READ on the topic: `lca-stream doctor --acls` lists who needs what")
	}
	return all
}

// upTo reads what is before some ends.
func (h *hearing) upTo(ctx context.Context, c *LearnConfig, ends, read source.Offsets) (all []*episode.Acceptance, err error) {
	if maps.Equal(h.next, ends) {
		return nil, nil
	}
	next := source.Offsets{}
	for p := range ends {
		next[p] = h.next[p] // a partition that was added is read from its beginning
	}
	h.next = next
	for _, p := range ends.Partitions() {
		if next[p] > ends[p] { // what is there may have been followed, and is not heard again
			c.Log.Warn("the topic of alarms was made again, or has lost its end: what was accepted there before now is not followed", "partition", p.String(), "from", ends[p],
				"remedy", "`lca-stream episodes show` says what the learner has followed: accept the rest again")
			next[p] = ends[p]
		}
		if w, any := h.waits[p]; any && w.at == next[p] && w.waits(read) {
			continue
		}
		found, fault := h.read(ctx, c, p, ends[p], read)
		all, err = append(all, found...), errors.Join(err, fault)
	}
	return all, err
}

func (w *waiting) waits(read source.Offsets) bool {
	next, learns := read[w.on]
	return learns && next < w.until
}

// mustWait reports whether a command is about rows that the learner has not read yet.
func (h *hearing) mustWait(ctx context.Context, k *Commands, p source.Partition, a *episode.Acceptance, read source.Offsets) (bool, error) {
	on := source.Partition{Topic: a.Topic, ID: a.Partition}
	if _, learns := read[on]; !learns || k.SourceEnds == nil {
		return false, nil
	}
	w, known := h.waits[p]
	if !known || w.at != a.Command.Offset {
		ends, err := k.SourceEnds(ctx)
		if err != nil {
			return false, err
		}
		w = waiting{a.Command.Offset, a.Reach(ends[on]), on}
	}
	if !w.waits(read) {
		delete(h.waits, p)
		return false, nil
	}
	if h.waits == nil {
		h.waits = map[source.Partition]waiting{}
	}
	h.waits[p] = w
	return true, nil
}

// read reads the commands of a partition before an offset, or one that must wait, and moves its position on. What has come since the end was looked up
// is for the next time: the same end may be told again, and would look like one that the topic has lost.
func (h *hearing) read(ctx context.Context, c *LearnConfig, p source.Partition, end int64, read source.Offsets) (all []*episode.Acceptance, err error) {
	k, next := c.Commands, h.next
	if next[p] >= end {
		return nil, nil
	}
	r, err := k.Open(ctx, p, next[p])
	if err != nil {
		return nil, err
	}
	for next[p] < end {
		got, err := r.Fetch(ctx)
		if err != nil {
			return all, err
		}
		for _, r := range got.Records {
			if r.Offset >= end {
				break
			}
			a, err := episode.ReadAcceptance(r.Value, episode.AcceptCommand)
			switch {
			case err != nil:
				c.Log.Warn("a command on the topic of alarms is passed over", "partition", p.String(), "offset", r.Offset, "error", err)
			case a != nil && a.Group == k.Owner.Group && a.Topic == k.Owner.Topic:
				a.Command = &episode.Position{Partition: p.ID, Offset: r.Offset}
				wait, err := h.mustWait(ctx, k, p, a, read)
				if err != nil || wait {
					next[p] = r.Offset
					return all, err
				}
				all = append(all, a)
			}
		}
		next[p] = min(got.Next, end)
	}
	return all, nil
}
