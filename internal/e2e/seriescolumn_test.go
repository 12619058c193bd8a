//go:build unix

package e2e_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/internal/kafkatest"
)

// The learner of one model for all reads the column that says which rows are a series, which is none of its features.
func TestLearnerReadsTheColumnOfSeries(t *testing.T) {
	t.Parallel()
	const rows = 300
	s := newStream(t, kafkatest.Shared(t, kafkatest.Kafka41), "seriescolumn", settings{partitions: 1, features: "[a, b]", series: "column:machine"})
	var values [][]byte
	for i := range rows {
		values = append(values, fmt.Appendf(nil, `{"a": %d, "b": %d, "machine": "m%d"}`, i*i%17, i*i%23, i%2))
	}
	s.produce(values)
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
