package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/segmentio/kafka-go"
	wire "github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// stopped refuses while a process works, as far as the brokers know.
func (r *reset) stopped(ctx context.Context, stage string, to source.Offsets) error {
	c := r.config
	var ids, groups []string
	if stage != stageLearn {
		if err := r.members(ctx, c.Source.Group); err != nil {
			return err
		}
		groups = append(groups, c.Source.Group)
		for p := range to {
			id, former := transformID(c.Source, p.ID)
			ids = append(ids, id, former)
		}
	}
	if stage != stageTransform {
		groups = append(groups, learnGroup(c))
		if r.keyed() {
			if err := r.members(ctx, learnGroup(c)); err != nil {
				return err
			}
			for p := range to {
				ids = append(ids, keyedLearnID(c.Source, c.Snapshot.ModelID, p.ID))
			}
		} else {
			id, former := learnID(c.Source, c.Snapshot.ModelID)
			ids = append(ids, id, former)
		}
	}
	before, err := r.traces(ctx, ids, groups, to)
	if err != nil || r.watch <= 0 || len(before.written) == 0 && !before.committed() {
		return err // no process has ever worked here
	}
	timer := time.NewTimer(r.watch)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	after, err := r.traces(ctx, ids, groups, to)
	if err != nil {
		return err
	}
	return before.differ(after)
}

// members refuses a group that has any.
func (r *reset) members(ctx context.Context, group string) error {
	members, err := source.Members(ctx, r.cluster, group)
	if err != nil {
		return err
	}
	if n := len(members); n > 0 {
		return fmt.Errorf("group %q has %s, such as %s: stop them first (one that was killed is a member until its session ends)", group, plural.Count(n, "member"), members[0])
	}
	return nil
}

// traces are what work leaves behind: a process without a group is known by nothing else.
type traces struct {
	written map[string]written // by transactional id
	offsets map[string]source.Offsets
}

// written is what a coordinator knows of a transactional id. Each transaction changes it: when it was begun, and
// the epoch (transaction.version 2).
type written struct {
	producer, began int64
	epoch           int16
	state           string
}

func (w written) open() bool {
	return w.state == "Ongoing" || w.state == "PrepareCommit" || w.state == "PrepareAbort"
}

// traces looks once, and refuses an open transaction.
func (r *reset) traces(ctx context.Context, ids, groups []string, to source.Offsets) (traces, error) {
	t := traces{written: make(map[string]written), offsets: make(map[string]source.Offsets)}
	for _, id := range ids {
		w, known, err := r.written(ctx, id)
		if err != nil {
			return t, err
		}
		if w.open() {
			return t, fmt.Errorf("a transaction of %q is open: stop who writes it; that of one that was killed ends within kafka.transaction_timeout", id)
		}
		if known {
			t.written[id] = w
		}
	}
	for _, group := range groups {
		found, err := source.Committed(ctx, r.cluster, group, to.Partitions())
		if err != nil {
			return t, err
		}
		t.offsets[group] = make(source.Offsets)
		for p, at := range found {
			t.offsets[group][p] = at.Next
		}
	}
	return t, nil
}

func (t traces) committed() bool {
	for _, offsets := range t.offsets {
		for _, next := range offsets {
			if next >= 0 {
				return true
			}
		}
	}
	return false
}

// differ names who has worked between two looks.
func (t traces) differ(now traces) error {
	const remedy = "stop it first; if it has just been stopped, its last transaction may still be ending: then try again"
	for id, w := range now.written {
		if was, ok := t.written[id]; !ok || was != w {
			return fmt.Errorf("%q is at work, it has written a transaction meanwhile: %s", id, remedy)
		}
	}
	for group, offsets := range now.offsets {
		if !maps.Equal(offsets, t.offsets[group]) {
			return fmt.Errorf("group %q is at work, it has committed offsets meanwhile: %s", group, remedy)
		}
	}
	return nil
}

// written asks the coordinator. Brokers before Kafka 3.0, and those that do not know the id, cannot say.
func (r *reset) written(ctx context.Context, id string) (w written, known bool, err error) {
	at, err := r.cluster.Client().FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: id, KeyType: kafka.CoordinatorKeyTypeTransaction})
	if err != nil {
		return w, false, err
	}
	if at.Error != nil {
		return w, false, at.Error
	}
	request := kmsg.NewPtrDescribeTransactionsRequest()
	request.TransactionalIDs = []string{id}
	m, err := r.cluster.Ask(ctx, kafkaconn.Question{Request: request, Broker: func(c wire.Cluster) (wire.Broker, error) {
		return c.Brokers[int32(at.Coordinator.NodeID)], nil
	}})
	if errors.Is(err, kafka.UnsupportedVersion) {
		return w, false, nil
	}
	if err != nil {
		return w, false, err
	}
	for _, t := range m.(*kmsg.DescribeTransactionsResponse).TransactionStates {
		if t.ErrorCode == 0 {
			return written{t.ProducerID, t.StartTimestamp, t.ProducerEpoch, t.State}, true, nil
		}
	}
	return w, false, nil
}
