package kafkatest

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// What an administrator may do to a running stream.

func admin(t testing.TB, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := do(ctx); err != nil {
		t.Fatalf("kafkatest: %s: %v", what, err)
	}
}

// DeleteTopic deletes a topic, and returns once no broker knows it.
func (b *Broker) DeleteTopic(t testing.TB, name string) {
	t.Helper()
	admin(t, "delete topic "+name, func(ctx context.Context) error {
		res, err := b.Client().DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{name}})
		if err == nil {
			err = res.Errors[name]
		}
		for err == nil {
			if _, most := b.leaders(ctx, name); most == 0 {
				break
			}
			time.Sleep(20 * time.Millisecond)
			err = ctx.Err()
		}
		return err
	})
}

// AddPartitions raises the number of a topic's partitions.
func (b *Broker) AddPartitions(t testing.TB, name string, partitions int) {
	t.Helper()
	admin(t, "add partitions to "+name, func(ctx context.Context) error {
		res, err := b.Client().CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: name, Count: int32(partitions)}}})
		if err == nil {
			err = res.Errors[name]
		}
		for err == nil && !b.led(ctx, name, partitions) {
			time.Sleep(20 * time.Millisecond)
			err = ctx.Err()
		}
		return err
	})
}

// DeleteRecords deletes what is before an offset of each partition, as retention does.
func (b *Broker) DeleteRecords(t testing.TB, topic string, before map[int32]int64) {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 30_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	for p, offset := range before {
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = p, offset
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	c, ctx, done := b.kgo(t)
	defer done()
	for _, shard := range c.RequestSharded(ctx, req) {
		if shard.Err != nil {
			t.Fatalf("kafkatest: delete records of %s: %v", topic, shard.Err)
		}
		for _, rt := range shard.Resp.(*kmsg.DeleteRecordsResponse).Topics {
			for _, p := range rt.Partitions {
				if p.ErrorCode != 0 {
					t.Fatalf("kafkatest: delete records of %s/%d: error %d", topic, p.Partition, p.ErrorCode)
				}
			}
		}
	}
}

// DeleteGroup deletes a group without members, with its offsets, as brokers do after offsets.retention.minutes.
func (b *Broker) DeleteGroup(t testing.TB, group string) {
	t.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	c, ctx, done := b.kgo(t)
	defer done()
	for _, shard := range c.RequestSharded(ctx, req) {
		if shard.Err != nil {
			t.Fatalf("kafkatest: delete group %s: %v", group, shard.Err)
		}
		for _, g := range shard.Resp.(*kmsg.DeleteGroupsResponse).Groups {
			if g.ErrorCode != 0 {
				t.Fatalf("kafkatest: delete group %s: error %d", group, g.ErrorCode)
			}
		}
	}
}

// Quota bounds what a client id may read and write, in bytes per second; 0 takes the bound away.
func (b *Broker) Quota(t testing.TB, clientID string, bytes int) {
	t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	e := kmsg.NewAlterClientQuotasRequestEntry()
	who := kmsg.NewAlterClientQuotasRequestEntryEntity()
	who.Type, who.Name = "client-id", kmsg.StringPtr(clientID)
	e.Entity = append(e.Entity, who)
	for _, key := range []string{"producer_byte_rate", "consumer_byte_rate"} {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Value, op.Remove = key, float64(bytes), bytes == 0
		e.Ops = append(e.Ops, op)
	}
	req.Entries = append(req.Entries, e)
	c, ctx, done := b.kgo(t)
	defer done()
	res, err := req.RequestWith(ctx, c)
	if err == nil && len(res.Entries) == 1 && res.Entries[0].ErrorCode != 0 {
		err = fmt.Errorf("error %d", res.Entries[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("kafkatest: quota of %s: %v", clientID, err)
	}
}

// ScramUser makes a user, or changes its password. mechanism is SCRAM-SHA-256 or SCRAM-SHA-512.
func (b *Broker) ScramUser(t testing.TB, name, password, mechanism string) {
	t.Helper()
	m := kafka.ScramMechanismSha256
	if mechanism == "SCRAM-SHA-512" {
		m = kafka.ScramMechanismSha512
	}
	admin(t, "user "+name, func(ctx context.Context) error {
		salt := []byte("salt of " + name)
		res, err := b.Client().AlterUserScramCredentials(ctx, &kafka.AlterUserScramCredentialsRequest{
			Upsertions: []kafka.UserScramCredentialsUpsertion{{
				Name: name, Mechanism: m, Iterations: iterations, Salt: salt, SaltedPassword: salted(mechanism, password, salt),
			}},
		})
		if err == nil {
			for _, r := range res.Results {
				err = errors.Join(err, r.Error)
			}
		}
		return err
	})
}

// Allow gives a user rights; Deny takes one back. Both return once the broker has them.
func (b *Broker) Allow(t testing.TB, user string, rights ...Right) {
	t.Helper()
	admin(t, "rights of "+user, func(ctx context.Context) error {
		var acls []kafka.ACLEntry
		for _, r := range rights {
			acls = append(acls, kafka.ACLEntry{
				ResourceType: r.Resource, ResourceName: r.Name, ResourcePatternType: r.Pattern, Principal: "User:" + user,
				Host: "*", Operation: r.Operation, PermissionType: kafka.ACLPermissionTypeAllow,
			})
		}
		res, err := b.Client().CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: acls})
		if err == nil {
			err = errors.Join(res.Errors...)
		}
		return err
	})
}

// Deny takes back one of the rights that Allow gave.
func (b *Broker) Deny(t testing.TB, user string, r Right) {
	t.Helper()
	admin(t, "rights of "+user, func(ctx context.Context) error {
		res, err := b.Client().DeleteACLs(ctx, &kafka.DeleteACLsRequest{Filters: []kafka.DeleteACLsFilter{{
			ResourceTypeFilter: r.Resource, ResourceNameFilter: r.Name, ResourcePatternTypeFilter: r.Pattern, PrincipalFilter: "User:" + user,
			HostFilter: "*", Operation: r.Operation, PermissionType: kafka.ACLPermissionTypeAllow,
		}}})
		if err == nil {
			for _, f := range res.Results {
				err = errors.Join(err, f.Error)
				if len(f.MatchingACLs) != 1 {
					err = errors.Join(err, fmt.Errorf("%+v matches %d entries", r, len(f.MatchingACLs)))
				}
			}
		}
		return err
	})
}

// Right is what a user may do with a resource.
type Right struct {
	Resource  kafka.ResourceType
	Pattern   kafka.PatternType // literal or prefixed
	Name      string
	Operation kafka.ACLOperationType
}

// TopicBytes is how much the segments of a topic hold on disk, with all its replicas.
func (b *Broker) TopicBytes(t testing.TB, name string) (sum int64) {
	t.Helper()
	c, ctx, done := b.kgo(t)
	defer done()
	for _, shard := range c.RequestSharded(ctx, kmsg.NewPtrDescribeLogDirsRequest()) {
		if shard.Err != nil {
			t.Fatalf("kafkatest: size of %s: %v", name, shard.Err)
		}
		for _, dir := range shard.Resp.(*kmsg.DescribeLogDirsResponse).Dirs {
			for _, topic := range dir.Topics {
				for _, p := range topic.Partitions {
					if topic.Topic == name {
						sum += p.Size
					}
				}
			}
		}
	}
	return sum
}

// FinalizeTransactions sets the cluster's feature transaction.version (KIP-890), up or down, and waits until
// a broker says so to new connections.
func (b *Broker) FinalizeTransactions(t testing.TB, level int16) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	const up, safeDown = 1, 2
	u.Feature, u.MaxVersionLevel, u.UpgradeType, u.AllowDowngrade = "transaction.version", level, up, level < 2
	if level < 2 {
		u.UpgradeType = safeDown
	}
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	res, err := req.RequestWith(ctx, c)
	if err == nil {
		err = kerr.ErrorForCode(res.ErrorCode)
	}
	if err != nil {
		t.Fatalf("kafkatest: transaction.version %d: %v", level, err)
	}
	for _, one := range res.Results {
		if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
			t.Fatalf("kafkatest: transaction.version %d: %v", level, err)
		}
	}
	for offered(ctx, t, c) != level {
		time.Sleep(20 * time.Millisecond)
	}
}

// offered is the level of transaction.version that a broker says is finalized.
func offered(ctx context.Context, t testing.TB, c *kgo.Client) int16 {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "kafkatest", "1"
	res, err := req.RequestWith(ctx, c)
	if err != nil {
		t.Fatalf("kafkatest: finalized features: %v", err)
	}
	for _, f := range res.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel
		}
	}
	return 0
}

// iterations is the fewest that Kafka takes.
const iterations = 4096

// salted is SaltedPassword of RFC 5802, section 3: a broker is given this, never the password.
func salted(mechanism, password string, salt []byte) []byte {
	h, size := sha256.New, sha256.Size
	if mechanism == "SCRAM-SHA-512" {
		h, size = sha512.New, sha512.Size
	}
	key, err := pbkdf2.Key(func() hash.Hash { return h() }, password, salt, iterations, size)
	if err != nil { // only in FIPS mode, for a short salt
		panic(err)
	}
	return key
}

// Crowded are properties of a broker whose group coordinator is as busy as that of a large shared cluster, once Crowd has filled it: it looks through all
// groups for expired offsets ten times a second, with the thread that completes the offsets of transactions. With 10,000 groups about one of four kills in a
// transaction meets KAFKA-17507. Fifty times a second nearly every kill does; but where a look takes longer than the 20 ms, as it may on a busy machine, the next
// one is due before whatever else the thread has to do, and no offset is ever completed.
var Crowded = []string{"offsets.retention.check.interval.ms=100"}

// Crowd fills the group coordinator with groups that have committed an offset of a topic.
func (b *Broker) Crowd(t testing.TB, topic string, groups int) {
	t.Helper()
	c, _, done := b.kgo(t)
	defer done()
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(64)
	for i := range groups {
		g.Go(func() error {
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Group = fmt.Sprintf("crowd-%d", i)
			part := kmsg.NewOffsetCommitRequestTopicPartition()
			req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}}}
			res, err := req.RequestWith(ctx, c)
			if err == nil && res.Topics[0].Partitions[0].ErrorCode != 0 {
				err = fmt.Errorf("error code %d", res.Topics[0].Partitions[0].ErrorCode)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("kafkatest: offsets of %d groups: %v", groups, err)
	}
}
