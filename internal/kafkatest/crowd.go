package kafkatest

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// Crowded are properties of a broker whose group coordinator is as busy as that of a large shared cluster, once Crowd has filled it: it looks through all
// groups for expired offsets five times a second, with the thread that completes the offsets of transactions.
var Crowded = []string{"offsets.retention.check.interval.ms=200"}

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
