package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	wire "github.com/segmentio/kafka-go/protocol"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/system"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/topics"
)

// grant is one right that the program needs.
type grant struct {
	operation string // as kafka-acls.sh spells it
	resource  string // the flag of kafka-acls.sh, such as --topic
	name      string
	prefixed  bool // the right is on all names that begin with name
	what      string
}

func (g grant) command(c *config.Config) string {
	user := c.Kafka.SASL.Username
	if user == "" {
		user = "NAME" // of the client certificate, or what the listener takes the client for
	}
	pattern := ""
	if g.prefixed {
		pattern = " --resource-pattern-type prefixed"
	}
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s --operation %s %s %s%s", c.Kafka.Brokers[0], user, g.operation, g.resource, g.name, pattern)
}

// grants lists what run needs on topics and groups.
func grants(c *config.Config) []grant {
	all := []grant{
		{"Read", "--topic", c.Source.Topic, false, "the records"},
		{"Read", "--topic", c.Snapshot.Topic, false, "models"},
		{"Read", "--topic", c.Checkpoint.Topic, false, "going on after a restart"},
		{"Read", "--topic", c.Transform.Topic, false, "going on after the last whitened record"},
		{"Write", "--topic", c.Transform.Topic, false, "whitened records"},
		{"Write", "--topic", c.Snapshot.Topic, false, "models"},
		{"Write", "--topic", c.Checkpoint.Topic, false, "checkpoints and start markers"},
	}
	if states := c.StateTopic(); states != "" {
		all = append(all,
			grant{"Read", "--topic", states, false, "the states of series, at a take-over"},
			grant{"Write", "--topic", states, false, "the states of series"})
	}
	if c.DeadLetter.Topic != "" {
		all = append(all,
			grant{"Read", "--topic", c.DeadLetter.Topic, false, "going on after the last of them"},
			grant{"Write", "--topic", c.DeadLetter.Topic, false, "records that cannot be used"})
	}
	if c.Alarms.Topic != "" {
		all = append(all, grant{"Write", "--topic", c.Alarms.Topic, false, "alarms"})
		if c.Accepts() {
			all = append(all, grant{"Read", "--topic", c.Alarms.Topic, false, "episodes that people accept"})
		}
	}
	return append(all,
		grant{"Read", "--group", c.Source.Group, false, "membership, and committing offsets"},
		grant{"Read", "--group", system.LearnGroup(c), false, "committing the learner's offsets"})
}

// transactions is the right on transactional ids.
func transactions(c *config.Config) grant {
	return grant{"Write", "--transactional-id", c.Source.Group, true, "transactions"}
}

// writeGrants writes the commands that grant what run needs, for a script.
func writeGrants(w io.Writer, c *config.Config) error {
	for _, g := range append(grants(c), transactions(c)) {
		if _, err := fmt.Fprintf(w, "%s   # %s\n", g.command(c), g.what); err != nil {
			return err
		}
	}
	var b strings.Builder
	b.WriteString("# So that settings of topics are checked at the start:\n")
	for _, want := range topics.Wanted(c) {
		fmt.Fprintf(&b, "%s\n", grant{operation: "DescribeConfigs", resource: "--topic", name: want.Topic}.command(c))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rights tries each right on topics and groups. An answer that is not about rights is good, because a broker checks
// them first. A user that may not even see a topic has no right on it.
func (d *doctor) rights(ctx context.Context) {
	c := d.system.Config
	missing := 0
	all := grants(c)
	for _, g := range all {
		if !slices.Contains(d.denied, g.name) || g.resource != "--topic" {
			ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
			err := d.ask(ctx, g)
			cancel()
			if !unauthorised(err) {
				continue
			}
		}
		missing++
		d.fault("rights", g.command(c), "%s on %s %s is missing", g.operation, g.resource[2:], g.name)
	}
	if missing == 0 {
		d.ok("rights", "%d rights on topics and groups are there", len(all))
	}
}

// ask sends a request that needs the right and changes nothing.
func (d *doctor) ask(ctx context.Context, g grant) error {
	switch {
	case g.resource == "--group":
		return d.askGroup(ctx, g.name)
	case g.operation == "Write":
		return d.askWrite(ctx, g.name)
	}
	return d.askRead(ctx, g.name)
}

func unauthorised(err error) bool {
	return errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.GroupAuthorizationFailed) || errors.Is(err, kafka.ClusterAuthorizationFailed)
}

// askRead fetches from the beginning and takes what comes at once.
func (d *doctor) askRead(ctx context.Context, topic string) error {
	cl := d.system.Cluster
	answer, err := cl.Client().Fetch(ctx, &kafka.FetchRequest{Addr: cl.Addr(), Topic: topic, Offset: 0, MaxBytes: 1, MaxWait: 10 * time.Millisecond})
	if err == nil {
		err = answer.Error
	}
	return err
}

// askWrite writes nothing: brokers refuse a request without a batch, but only after they have checked the rights.
func (d *doctor) askWrite(ctx context.Context, topic string) error {
	cl := d.system.Cluster
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
	cl, topic := d.system.Cluster, d.system.Config.Source.Topic
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
