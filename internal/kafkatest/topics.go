package kafkatest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopic creates a topic and returns once every partition has a leader.
func (b *Broker) CreateTopic(t testing.TB, name string, partitions int, configs map[string]string) {
	t.Helper()
	b.create(t, kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: len(b.nodes)}, partitions, configs)
}

// PlaceTopic creates a topic with one partition per node, in that order, of which there is no other replica.
func (b *Broker) PlaceTopic(t testing.TB, name string, nodes ...int) {
	t.Helper()
	topic := kafka.TopicConfig{Topic: name, NumPartitions: -1, ReplicationFactor: -1}
	for i, node := range nodes {
		topic.ReplicaAssignments = append(topic.ReplicaAssignments, kafka.ReplicaAssignment{Partition: i, Replicas: []int{node + 1}}) // see javaNode.id
	}
	b.create(t, topic, len(nodes), map[string]string{"min.insync.replicas": "1"})
}

func (b *Broker) create(t testing.TB, topic kafka.TopicConfig, partitions int, configs map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	name := topic.Topic
	for _, k := range slices.Sorted(maps.Keys(configs)) {
		topic.ConfigEntries = append(topic.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: configs[k]})
	}
	c := b.Client()
	create := func() (sent bool, err error) {
		res, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
		if err == nil {
			return true, res.Errors[name]
		}
		return false, err
	}
	sent, err := create()
	// Of several nodes that start, one may not listen yet, or not be known to the controller.
	for (!sent || errors.Is(err, kafka.InvalidReplicationFactor)) && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		lost := !sent
		if sent, err = create(); lost && errors.Is(err, kafka.TopicAlreadyExists) {
			err = nil // made by a request whose answer was lost
		}
	}
	if err != nil {
		t.Fatalf("kafkatest: create topic %q: %v", name, err)
	}
	for ctx.Err() == nil {
		if b.led(ctx, name, partitions) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatalf("kafkatest: topic %q has no leaders", name)
}

// leaders is how many partitions of a topic have a leader, by the node that knows least of it and by the one
// that knows most: a broker hears of a topic and of its leaders a moment after the controller has decided, and
// a client may ask any of them next. The nodes are asked directly: the pooled client answers from a cache
// that may be seconds old.
func (b *Broker) leaders(ctx context.Context, topic string) (least, most int) {
	asked := false
	for _, addr := range b.addrs {
		conn, err := kafka.DialContext(ctx, "tcp", addr)
		if err != nil {
			continue // it is down, and no client will ask it
		}
		parts, err := conn.ReadPartitions(topic)
		_ = conn.Close()
		n := 0
		for _, p := range parts {
			if err == nil && p.Leader.Host != "" {
				n++
			}
		}
		if !asked || n < least {
			least = n
		}
		asked, most = true, max(most, n)
	}
	return least, most
}

// led reports whether every node knows a leader of each of n partitions.
func (b *Broker) led(ctx context.Context, topic string, n int) bool {
	least, most := b.leaders(ctx, topic)
	return least == n && most == n
}

// AlterTopic changes settings of a topic, and returns once the broker shows them.
func (b *Broker) AlterTopic(t testing.TB, name string, configs map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	res := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: name}
	for _, k := range slices.Sorted(maps.Keys(configs)) {
		res.Configs = append(res.Configs, kafka.IncrementalAlterConfigsRequestConfig{Name: k, Value: configs[k], ConfigOperation: kafka.ConfigOperationSet})
	}
	c := b.Client()
	got, err := c.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{res}})
	if err == nil {
		err = got.Resources[0].Error
	}
	for err == nil && !b.shows(ctx, name, configs) {
		time.Sleep(10 * time.Millisecond)
		err = ctx.Err()
	}
	if err != nil {
		t.Fatalf("kafkatest: alter topic %q: %v", name, err)
	}
}

// shows reports whether every node that is up has the settings: brokers hear of a change one after the other, and a
// client may ask any of them next.
func (b *Broker) shows(ctx context.Context, topic string, configs map[string]string) bool {
	for _, addr := range b.addrs {
		conn, err := kafka.DialContext(ctx, "tcp", addr)
		if err != nil {
			continue // it is down
		}
		_ = conn.Close()
		if !b.showsAt(ctx, addr, topic, configs) {
			return false
		}
	}
	return true
}

// showsAt asks one node alone, past kafka-go's pool, which sends such a request to any of them.
func (b *Broker) showsAt(ctx context.Context, addr, topic string, configs map[string]string) bool {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return false
	}
	defer cl.Close()
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	req.Resources = append(req.Resources, resource)
	answer, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil || len(answer.(*kmsg.DescribeConfigsResponse).Resources) != 1 {
		return false
	}
	found := 0
	for _, e := range answer.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		if want, ok := configs[e.Name]; ok && e.Value != nil && want == *e.Value {
			found++
		}
	}
	return found == len(configs)
}
