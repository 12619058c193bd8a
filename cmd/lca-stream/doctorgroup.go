package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/source"
)

// members reports who else is in the group.
func (d *doctor) members(ctx context.Context) {
	group := d.system.config.Source.Group
	var members []source.Member
	err := whenLoaded(ctx, func(ctx context.Context) (err error) {
		members, err = source.Members(ctx, d.system.cluster, group)
		return err
	})
	if err != nil {
		if !unauthorised(err) { // otherwise rights has said it
			d.fault("group", "run doctor again", "%v", d.system.cluster.Explain(err))
		}
		return
	}
	if foreign := source.Foreign(members); len(foreign) > 0 {
		d.warn("group", "give the other application a group of its own, or set another source.group", "group %s has members that are not lca-stream, and take partitions away: %s", group, strings.Join(memberNames(foreign), ", "))
		return
	}
	d.ok("group", "%s: %s", group, plural.Count(len(members), "member"))
}

// transactions opens a producer: that needs the coordinator, and rights on the transactional id.
func (d *doctor) transactions(ctx context.Context) {
	cl, id := d.system.cluster, d.system.config.Source.Group+".doctor"
	var answer *kafka.InitProducerIDResponse
	err := whenLoaded(ctx, func(ctx context.Context) (err error) {
		answer, err = cl.Client().InitProducerID(ctx, &kafka.InitProducerIDRequest{
			Addr: cl.Addr(), TransactionalID: id, TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1,
		})
		if err != nil {
			return err
		}
		return answer.Error
	})
	if errors.Is(err, kafka.TransactionalIDAuthorizationFailed) {
		d.fault("transactions", transactions(d.system.config).command(d.system.config), "%v", cl.Explain(err))
		return
	}
	if err != nil {
		d.fault("transactions", "a cluster of one needs transaction.state.log.replication.factor=1", "%v", cl.Explain(err))
		return
	}
	version := 1
	if level, err := cl.Finalized(ctx, "transaction.version"); err == nil && level >= 2 {
		version = 2
	}
	d.ok("transactions", "version %d, transactional id %s: producer %d, epoch %d", version, id, answer.Producer.ProducerID, answer.Producer.ProducerEpoch)
}

// whenLoaded repeats a request to a coordinator that is not ready yet: for the first group of a cluster, and for its
// first transaction, the broker creates and loads a topic of its own.
func whenLoaded(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		err := request(ctx)
		if !(errors.Is(err, kafka.GroupLoadInProgress) || errors.Is(err, kafka.GroupCoordinatorNotAvailable) || errors.Is(err, kafka.NotCoordinatorForGroup)) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// positions compares where transform and learner read on with what the source holds.
func (d *doctor) positions(ctx context.Context) {
	all, err := showOffsets(ctx, d.system)
	if err != nil {
		if !unauthorised(err) { // otherwise rights has said it
			d.fault("positions", "run doctor again", "%v", d.system.cluster.Explain(err))
		}
		return
	}
	const remedy = "`lca-stream offsets show` has the positions, `offsets reset` moves them"
	if stop := (*pipeline.Stop)(nil); errors.As(all.Cause, &stop) {
		d.fault("positions", stop.Remedy, "the checkpoint cannot be read: %v", stop.Err)
	} else if all.Cause != nil {
		d.fault("positions", remedy, "the checkpoint cannot be read: %v", all.Cause)
	}
	faults := d.faults
	for _, p := range all.Partitions {
		if wrong := p.Transform.wrong(p, all.TopicID); wrong != "" {
			d.fault("positions", remedy, "partition %d, transform: %s", p.Partition, wrong)
		}
		if wrong := p.Learn.wrong(p, all.TopicID); wrong != "" {
			d.fault("positions", remedy, "partition %d, learner: %s", p.Partition, wrong)
		}
		d.tellGaps(p)
	}
	d.unwritten(ctx, all)
	if d.faults == faults {
		d.ok("positions", "%s", begun(all.Partitions, fmt.Sprint(d.system.config.Source.StartOffset)))
		d.others(all.Partitions)
	}
}

// unwritten reports partitions that a transform would not begin with, because the group has written something of them and nothing else is known of it.
func (d *doctor) unwritten(ctx context.Context, all *shownOffsets) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second) // a transaction may be open
	defer cancel()
	written, err := d.system.ends(ctx)
	var out []source.Partition
	if written != nil && err == nil {
		out, err = d.system.partitions(ctx, d.system.config.Transform.Topic)
	}
	for _, p := range all.Partitions {
		if err != nil || int(p.Partition) >= len(out) { // topics has reported that the source has more
			break
		}
		if p.Transform.Offset != nil || p.Transform.Marker != nil {
			continue
		}
		part := source.Partition{Topic: all.Topic, ID: p.Partition}
		at := d.system.positionsOf(part, all.Group, "")
		at.Places, at.Written = places{cluster: d.system.cluster, looks: true}, written
		err = at.Unwritten(ctx, part)
		if stop := (*pipeline.Stop)(nil); errors.As(err, &stop) {
			d.fault("positions", stop.Remedy, "partition %d, transform: %v", p.Partition, stop.Err)
			err = nil
		}
	}
	if err != nil && !unauthorised(err) {
		d.fault("positions", "run doctor again", "%v", d.system.cluster.Explain(err))
	}
}

// others says where models by key go on although nothing is committed of them in their group: it has expired, or another learner has committed since.
func (d *doctor) others(parts []shownPartition) {
	const what = "another learner, or another program, has committed in %s: models by key that have begun go on where they were, others begin at source.start_offset (%v)"
	if slices.ContainsFunc(parts, func(p shownPartition) bool { return p.Learn.Other != nil }) {
		d.ok("positions", what, learnGroup(d.system.config), d.system.config.Source.StartOffset)
	}
	expired := func(p shownPartition) bool {
		return p.Learn.Offset == nil && p.Learn.Other == nil && p.Learn.Checkpoint != nil
	}
	if d.system.keyed() && slices.ContainsFunc(parts, expired) {
		d.warn("positions", "nothing need be done", "the offsets of %s are gone: models by key go on at their start markers, and pass over what they have learnt", learnGroup(d.system.config))
	}
}

// begun says how far the transform is, and the learner where there is no transform.
func begun(parts []shownPartition, start string) string {
	count := func(lagOf func(*shownPartition) *int64) (n int, lag int64) {
		for i := range parts {
			if behind := lagOf(&parts[i]); behind != nil {
				n, lag = n+1, lag+*behind
			}
		}
		return n, lag
	}
	of := plural.Count(len(parts), "partition")
	if n, lag := count(func(p *shownPartition) *int64 { return p.Transform.Lag }); n > 0 {
		return fmt.Sprintf("%d of %s begun, lag %d", n, of, lag)
	}
	if n, lag := count(func(p *shownPartition) *int64 { return p.Learn.Lag }); n > 0 {
		return fmt.Sprintf("the learner has begun %d of %s, lag %d; no transform has: its first start reads from %s", n, of, lag, start)
	}
	return "nothing has begun yet: the first start reads from " + start
}

// wrong says why a process would stop at a position; "": it would not.
func (s shownPlace) wrong(p shownPartition, topicID string) string {
	switch {
	case s.TopicID != "" && topicID != "" && s.TopicID != topicID:
		return "the position is of a topic of the same name that was deleted since"
	case s.Offset == nil && s.Checkpoint == nil && s.Marker != nil:
		return "it has begun, and its committed offset is gone"
	}
	at := s.Checkpoint // a learner goes by its checkpoint
	if at == nil {
		at = s.Offset
	}
	if at != nil && *at > p.End {
		return fmt.Sprintf("it would read on at %d, and the partition ends at %d", *at, p.End)
	}
	return ""
}

// goneFrom counts the records that retention has deleted from where a stage reads on.
func (p shownPartition) goneFrom(at *int64) int64 {
	if at == nil {
		return 0
	}
	return max(p.Start-*at, 0)
}

// tellGaps reports what retention has deleted before it was read. The learner of `run` passes over what the transform has read.
func (d *doctor) tellGaps(p shownPartition) {
	skips := d.system.config.Source.OnGap == config.Skip
	tell := func(stage string, records int64, fault bool, because string) {
		const what = "partition %d: %d offsets were deleted before the %s has read them"
		switch {
		case records == 0:
		case skips:
			d.warn("positions", "keep records for longer", what+"; source.on_gap skips them", p.Partition, records, stage)
		case fault:
			d.fault("positions", "set source.on_gap: skip, or move on with `lca-stream offsets reset`", what, p.Partition, records, stage)
		default:
			d.warn("positions", "set source.on_gap: skip where `learn` runs apart", what+because, p.Partition, records, stage)
		}
	}
	tell("transform", p.goneFrom(p.Transform.Offset), true, "")
	read := p.Transform.Offset != nil && *p.Transform.Offset >= p.Start
	tell("learner", p.goneFrom(p.Learn.Checkpoint), !read, "; that of `run` passes over them, because the transform has read them")
}
