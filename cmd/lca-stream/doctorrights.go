package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	wire "github.com/segmentio/kafka-go/protocol"
)

// grant is one right that the program needs.
type grant struct {
	operation string // as kafka-acls.sh spells it
	resource  string // the flag of kafka-acls.sh: --topic or --group
	name      string
	ask       func(context.Context) error // sends a request that needs the right and changes nothing
}

// rights tries each right on topics and groups. An answer that is not about rights is good, because a broker checks
// them first.
func (d *doctor) rights(ctx context.Context) {
	missing := 0
	all := d.grants()
	for _, g := range all {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		err := g.ask(ctx)
		cancel()
		if !unauthorised(err) {
			continue
		}
		missing++
		user := d.system.config.Kafka.SASL.Username
		if user == "" {
			user = "NAME"
		}
		d.fault("rights", fmt.Sprintf("kafka-acls.sh --add --allow-principal User:%s --operation %s %s %s", user, g.operation, g.resource, g.name),
			"%s on %s %s is missing", g.operation, g.resource[2:], g.name)
	}
	if missing == 0 {
		d.ok("rights", "%d rights on topics and groups are there", len(all))
	}
}

func unauthorised(err error) bool {
	return errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.GroupAuthorizationFailed) || errors.Is(err, kafka.ClusterAuthorizationFailed)
}

func (d *doctor) grants() []grant {
	c := d.system.config
	var all []grant
	for _, topic := range []string{c.Source.Topic, c.Snapshot.Topic, c.Checkpoint.Topic} {
		all = append(all, grant{"Read", "--topic", topic, func(ctx context.Context) error { return d.askRead(ctx, topic) }})
	}
	writes := []string{c.Transform.Topic, c.Snapshot.Topic, c.Checkpoint.Topic}
	if c.DeadLetter.Topic != "" {
		writes = append(writes, c.DeadLetter.Topic)
	}
	for _, topic := range writes {
		all = append(all, grant{"Write", "--topic", topic, func(ctx context.Context) error { return d.askWrite(ctx, topic) }})
	}
	for _, group := range []string{c.Source.Group, c.Source.Group + ".learn"} {
		all = append(all, grant{"Read", "--group", group, func(ctx context.Context) error { return d.askGroup(ctx, group) }})
	}
	return all
}

// askRead fetches from the beginning and takes what comes at once.
func (d *doctor) askRead(ctx context.Context, topic string) error {
	cl := d.system.cluster
	answer, err := cl.Client().Fetch(ctx, &kafka.FetchRequest{Addr: cl.Addr(), Topic: topic, Offset: 0, MaxBytes: 1, MaxWait: 10 * time.Millisecond})
	if err == nil {
		err = answer.Error
	}
	return err
}

// askWrite writes nothing: brokers refuse a request without a batch, but only after they have checked the rights.
func (d *doctor) askWrite(ctx context.Context, topic string) error {
	cl := d.system.cluster
	answer, err := cl.Client().RawProduce(ctx, &kafka.RawProduceRequest{
		Addr: cl.Addr(), Topic: topic, RequiredAcks: kafka.RequireAll,
		RawRecords: wire.RawRecordSet{Reader: bytes.NewReader(make([]byte, 4))}, // a size of 0
	})
	if err == nil {
		err = answer.Error
	}
	return err
}

// askGroup commits for a member that does not exist, which is refused after the check of the rights. (A heartbeat
// would do as well, but kafka-go misreads its answer.)
func (d *doctor) askGroup(ctx context.Context, group string) error {
	cl, topic := d.system.cluster, d.system.config.Source.Topic
	answer, err := cl.Client().OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		Addr: cl.Addr(), GroupID: group, GenerationID: 1, MemberID: "doctor",
		Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 0}}},
	})
	if err != nil {
		return err
	}
	for _, p := range answer.Topics[topic] {
		err = errors.Join(err, p.Error)
	}
	return err
}
