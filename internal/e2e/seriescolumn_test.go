//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// The learner of one model for all reads the column that says which rows are a series, which is none of its features.
func TestLearnerReadsTheColumnOfSeries(t *testing.T) {
	t.Parallel()
	const rows = 300
	s := newStream(t, kafkatest.Shared(t, kafkatest.Kafka41), "seriescolumn", settings{partitions: 1, features: "[a, b]", series: "column:machine"})
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Addrs()...), kgo.DefaultProduceTopic(s.topic("in")))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var all []*kgo.Record
	for i := range rows {
		all = append(all, &kgo.Record{Value: fmt.Appendf(nil, `{"a": %d, "b": %d, "machine": "m%d"}`, i*i%17, i*i%23, i%2)})
	}
	if err := cl.ProduceSync(context.Background(), all...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	learner := s.program("learn")
	s.await(s.name+".learn", rows, learner)
	learner.stop()
	log, err := os.ReadFile(learner.log)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "no row has a value of transform.series") {
		t.Error("the learner finds no machine, and takes all rows for one series")
	}
}
