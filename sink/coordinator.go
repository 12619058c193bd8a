package sink

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lca-stream/lca-stream/source/kafkaconn"
)

// coordinators remembers which broker coordinates a transactional id or a group. kafka-go looks the coordinator up
// before every request, which would double the round trips of a transaction.
type coordinators struct {
	cluster *kafkaconn.Cluster
	mu      sync.Mutex
	nodes   map[coordinatorKey]int32
}

type coordinatorKey struct {
	kind kafka.CoordinatorKeyType
	name string
}

// ask sends a request to the coordinator and returns its answer. After a failure that may mean that the coordinator
// has moved, the next call looks it up again.
func (c *coordinators) ask(ctx context.Context, key coordinatorKey, q kafkaconn.Question) (kmsg.Response, error) {
	id, err := c.find(ctx, key)
	if err != nil {
		return nil, err
	}
	q.Broker = func(l protocol.Cluster) (protocol.Broker, error) {
		if b, ok := l.Brokers[id]; ok {
			return b, nil
		}
		return protocol.Broker{}, kafka.BrokerNotAvailable
	}
	res, err := c.cluster.Ask(ctx, q)
	c.forgetAfter(key, err)
	return res, err
}

func (c *coordinators) find(ctx context.Context, key coordinatorKey) (int32, error) {
	c.mu.Lock()
	id, ok := c.nodes[key]
	c.mu.Unlock()
	if ok {
		return id, nil
	}
	res, err := c.cluster.Client().FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: key.name, KeyType: key.kind})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return 0, fmt.Errorf("find the coordinator of %q: %w", key.name, err)
	}
	id = int32(res.Coordinator.NodeID)
	c.mu.Lock()
	c.nodes[key] = id
	c.mu.Unlock()
	return id, nil
}

// forgetAfter forgets a coordinator if err, which is of the request or in its answer, may mean that it has moved.
func (c *coordinators) forgetAfter(key coordinatorKey, err error) {
	moved := errors.Is(err, kafka.NotCoordinatorForGroup) || errors.Is(err, kafka.GroupCoordinatorNotAvailable) ||
		errors.Is(err, kafka.BrokerNotAvailable)
	if err == nil || !moved && !unanswered(err) {
		return
	}
	c.mu.Lock()
	delete(c.nodes, key)
	c.mu.Unlock()
}
